"""`reshuffle --help` waits for nothing heavy."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["curve", "--help"], ["advise", "--help"], ["reproduce", "--help"], ["--version"]],
)
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys; from reshuffle.cli import main; code = main(sys.argv[1:]);"
        "heavy = ('numpy', 'scipy', 'matplotlib', 'pandas', 'pyarrow');"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr);"
        "sys.exit(code)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0
    assert found.stderr.strip() == "[]"
    assert found.stdout


@pytest.mark.parametrize(
    "command", ["curve", "advise", "spectrum", "stability", "limits", "reproduce", "completion"]
)
def test_every_command_explains_itself_with_an_example(command, capsys):
    from tests.cli.terminal import run

    outcome = run(capsys, command, "--help")
    assert outcome.code == 0
    assert f"  reshuffle {command} " in outcome.out.partition("For example:")[2]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_commands(shell, capsys):
    from tests.cli.terminal import run

    outcome = run(capsys, "completion", shell)
    assert outcome.code == 0
    for word in ("curve", "advise", "spectrum", "stability", "limits", "reproduce", "expression"):
        assert word in outcome.out


@pytest.mark.slow
def test_the_installed_command_and_the_module_are_the_same():
    from reshuffle import __version__

    shown = subprocess.run(
        [sys.executable, "-m", "reshuffle", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == __version__
    wrong = subprocess.run(
        [sys.executable, "-m", "reshuffle", "wrong"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a pipe of a POSIX shell")
def test_a_reader_that_stops_reading_is_no_error():
    code = (
        f"{sys.executable} -m reshuffle curve --n 20 --p 30 --alpha 0.2 --epochs 1000 --json - | head -n 1;"
        " test ${PIPESTATUS[0]} -eq 0"
    )
    found = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0
    assert found.stderr == ""


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_ascii():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(
        [sys.executable, "-m", "reshuffle", "curve", "--n", "9", "--p", "6", "--alpha", "0.1"],
        capture_output=True,
        check=False,
        env=environment,
    )
    assert found.returncode == 0
    assert found.stdout.isascii()
    assert b"\n-----" in found.stdout
    assert b"\nfull-batch" in found.stdout
