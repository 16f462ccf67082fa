"""Commands in a shell: help, spellings, streams that are closed or full, and lines of progress."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

import reshuffle as rs
from reshuffle import __version__, _progress
from reshuffle.cli import console, curves, main
from reshuffle.cli.console import hush, watched
from tests.cli.terminal import run, shown
from tests.looped import for_all

ANSWERING = ("curve", "advise", "sweep", "spectrum", "stability", "influence", "limits")
LIMITS = "limits --aspect 0.5 --alpha 0.2 --batches 1 --epochs 3"
POSIX = pytest.mark.skipif(os.name == "nt", reason="the streams of a POSIX shell")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(line, **environment):
    """Exit code and both streams of a line in a shell of its own."""
    found = subprocess.run(
        ["bash", "-c", line.replace("reshuffle", f"{sys.executable} -m reshuffle", 1)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    return found.returncode, found.stdout, found.stderr


# ---------------------------------------------------------------------------------------------- help and spellings


@pytest.mark.slow
@for_all("line", ["--help", "curve --help", "advise --help", "reproduce --help", "--version"])
def test_help_imports_nothing_heavy(line):
    code = (
        "import sys; from reshuffle.cli import main; code = main(sys.argv[1:]);"
        "heavy = ('numpy', 'scipy', 'matplotlib', 'pandas', 'pyarrow');"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr);"
        "sys.exit(code)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr.strip()) == (0, "[]")
    assert found.stdout


@for_all("command", [*ANSWERING, "reproduce", "completion"])
def test_every_command_explains_itself_with_an_example(capsys, command):
    text = shown(capsys, f"{command} --help")
    assert f"  reshuffle {command} " in text.partition("For example:")[2]
    assert "[default: ()]" not in text
    if command in ANSWERING:
        output = text.partition("─ Output ─")[2]
        assert all(option in output for option in ("--plot", "--csv", "--json"))


def test_the_help_of_curve_states_the_defaults_of_descend(capsys):
    words = " ".join(shown(capsys, "curve --help").replace("│", " ").split())
    defaults = inspect.signature(rs.descend).parameters
    for option, name in (("--rtol", "rtol"), ("--budget", "budget")):
        stated = re.search(rf"{option}\b.*?; else ([\d.e-]+\d)", words).group(1)
        assert float(stated) == defaults[name].default


@pytest.mark.slow
@for_all("name", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_commands(capsys, name):
    script = shown(capsys, f"completion {name}")
    assert all(word in script for word in (*ANSWERING, "reproduce", "expression"))


@for_all(
    "former, present",
    [
        ("curve -n 9 -p 4 --step 0.1 --penalty=0.3", "curve -n 9 -p 4 --step 0.1 --weight-decay=0.3"),
        ("limits --one-pass --step-size 0.1 --steps 5", "limits --one-pass --step 0.1 --steps 5"),
        ("curve --n 9 --p 4 --alpha 0.1 --batches 2 --epochs 5", "curve -n 9 -p 4 -a 0.1 -b 2 -e 5"),
    ],
)
def test_former_and_short_spellings_give_the_same_answer(capsys, former, present):
    assert shown(capsys, f"{former} --json -") == shown(capsys, f"{present} --json -")


# ---------------------------------------------------------------------------------------------------------- streams


@pytest.mark.slow
@POSIX
def test_the_module_is_the_command_and_streams_may_be_closed():
    assert shell("reshuffle --version") == (0, f"{__version__}\n", "")
    assert shell("reshuffle wrong")[0] == 2
    # A reader that stops reading is no error.
    line = "reshuffle curve --n 20 --p 30 --alpha 0.2 --epochs 1000 --json - | head -n 1"
    assert shell(f"{line}; test ${{PIPESTATUS[0]}} -eq 0") == (0, "{\n", "")
    code, _, err = shell(f"reshuffle {LIMITS} >&-")
    assert (code, err) == (
        1, f"reshuffle: standard output is closed; send it to a file, or to {os.devnull}.\n"
    )  # fmt: skip
    # With a closed standard error nothing strays to standard output.
    code, out, _ = shell(f"reshuffle {LIMITS} --json - 2>&-")
    assert (code, out[0]) == (0, "{")
    assert shell("reshuffle limits --aspect -1 --alpha 0.2 2>&-") == (2, "", "")
    assert shell(f"reshuffle {LIMITS} >&- 2>&-")[0] == 1
    # A terminal without unicode gets ASCII.
    code, out, _ = shell("reshuffle curve --n 9 --p 6 --alpha 0.1", PYTHONIOENCODING="ascii")
    assert code == 0
    assert out.isascii()
    assert "\n-----" in out
    assert "\nfull-batch" in out


@pytest.mark.slow
@POSIX
@FULL
@for_all("line", [LIMITS, f"{LIMITS} --json -", f"{LIMITS} --csv -", "--help", "completion bash"])
def test_a_full_disk_behind_standard_output_is_named(line):
    said = "reshuffle: standard output: No space left on device.\n"
    assert shell(f"reshuffle {line} > /dev/full") == (1, "", said)


@POSIX
@FULL
def test_a_full_disk_behind_a_file_is_named(capsys, tmp_path):
    picture = tmp_path / "full.png"
    picture.symlink_to("/dev/full")
    for option, path in (("--csv", "/dev/full"), ("--json", "/dev/full"), ("--plot", str(picture))):
        outcome = run(capsys, LIMITS, option, path)
        assert (outcome.code, outcome.err) == (1, f"reshuffle: {path}: No space left on device.\n")
    # Devices may be written to twice.
    assert "limit" in shown(capsys, f"{LIMITS} --csv /dev/null --json /dev/null")


# --------------------------------------------------------------------------------------------------------- progress


def _speaking(monkeypatch):
    """Lines are due at once; an event tells that one was printed."""
    printed = Event()

    class Told(_progress.Lines):
        def of_command(self) -> None:
            super().of_command()
            if self._last > 0:
                printed.set()

    monkeypatch.setattr(_progress, "PATIENCE", -1.0)
    monkeypatch.setattr(_progress, "PATIENCE_OUTSIDE", -1.0)
    monkeypatch.setattr(_progress, "lines", Told())
    monkeypatch.setattr(console, "_INTERVAL", 0.001)
    return printed


def test_a_line_is_printed_while_one_long_call_lasts_and_names_the_open_loop(monkeypatch, capsys):
    printed = _speaking(monkeypatch)
    with watched():
        assert printed.wait(60)
    assert capsys.readouterr() == ("", "reshuffle: 0 s, still working\n")
    assert _progress.lines.command is None
    printed = _speaking(monkeypatch)
    for _ in _progress.track(range(1), 1, "reading"):
        with watched():
            assert printed.wait(60)
    assert capsys.readouterr().err == "reshuffle: 0 s, reading 0 of 1\n"


def test_nothing_is_printed_once_it_is_hushed(monkeypatch, capsys):
    monkeypatch.setattr(console, "_INTERVAL", 1e9)
    with watched():
        _speaking(monkeypatch)
        hush()
    assert capsys.readouterr() == ("", "")


def test_every_command_is_watched(monkeypatch, capsys):
    printed = _speaking(monkeypatch)

    def slow(options):
        assert printed.wait(60)
        raise ValueError("that is enough.")

    monkeypatch.setattr(curves, "pose", slow)
    assert main(["stability", "--n", "5", "--p", "2"]) == 2
    assert capsys.readouterr().err == "reshuffle: 0 s, still working\nreshuffle: that is enough.\n"
