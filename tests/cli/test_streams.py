"""Streams that are closed or full: one line that names them, and an exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import run

LIMITS = "limits --aspect 0.5 --alpha 0.2 --batches 1 --epochs 3"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the streams of a POSIX shell")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(line):
    found = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m reshuffle {line}"], capture_output=True, text=True, check=False
    )
    return found.returncode, found.stdout, found.stderr


@pytest.mark.slow
def test_a_closed_standard_output_is_said_before_anything_is_computed():
    code, _, err = shell(f"{LIMITS} >&-")
    assert code == 1
    assert err == f"reshuffle: standard output is closed; send it to a file, or to {os.devnull}.\n"


@pytest.mark.slow
def test_with_a_closed_standard_error_nothing_strays_to_standard_output():
    code, out, _ = shell(f"{LIMITS} --json - 2>&-")
    assert code == 0
    assert out.startswith("{")
    assert shell("limits --aspect -1 --alpha 0.2 2>&-") == (2, "", "")
    assert shell(f"{LIMITS} >&- 2>&-")[0] == 1


@pytest.mark.slow
@FULL
@pytest.mark.parametrize(
    "line", [LIMITS, f"{LIMITS} --json -", f"{LIMITS} --csv -", "--help", "completion bash"]
)
def test_a_full_disk_behind_standard_output_is_named(line):
    assert shell(f"{line} > /dev/full") == (1, "", "reshuffle: standard output: No space left on device.\n")


@FULL
@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_a_full_disk_behind_a_file_is_named(capsys, option):
    outcome = run(capsys, *LIMITS.split(), option, "/dev/full")
    assert (outcome.code, outcome.err) == (1, "reshuffle: /dev/full: No space left on device.\n")


@pytest.mark.slow
@FULL
def test_a_full_disk_behind_a_picture_is_named(capsys, tmp_path):
    picture = tmp_path / "full.png"
    picture.symlink_to("/dev/full")
    outcome = run(capsys, *LIMITS.split(), "--plot", str(picture))
    assert (outcome.code, outcome.err) == (1, f"reshuffle: {picture}: No space left on device.\n")


def test_devices_may_be_written_to_twice(capsys):
    outcome = run(capsys, *LIMITS.split(), "--csv", "/dev/null", "--json", "/dev/null")
    assert (outcome.code, outcome.err) == (0, "")
    assert "limit" in outcome.out
