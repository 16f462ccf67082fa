"""`reshuffle limits --one-pass`."""

import json

import numpy as np
import pytest

from reshuffle import asymptotics
from tests.cli.terminal import run


def test_it_tells_what_the_library_finds(capsys):
    arguments = (
        "limits",
        "--one-pass",
        "--features",
        "50",
        "--step-size",
        "0.1",
        "--steps",
        "300",
        "--noise",
        "0.5",
    )
    outcome = run(capsys, *arguments, "--batch-size", "2,8", "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["curves"]
    laws = asymptotics.PowerLaw(1.5, 50), asymptotics.PowerLaw(0.5, 50)
    for curve, batch in zip(found, (2, 8), strict=True):
        expected = asymptotics.one_pass(*laws, batch, 0.1, curve["steps"], noise=0.5)
        np.testing.assert_allclose(curve["risk"], expected.risk)
        assert curve["limit"] == pytest.approx(expected.limit)
        assert curve["converges"]


@pytest.mark.slow
def test_the_table_and_the_files(capsys, tmp_path):
    outcome = run(capsys, "limits", "--one-pass", "--steps", "100", "--plot", str(tmp_path / "stream.png"))
    assert outcome.code == 0, outcome.err
    assert "risk after 100" in outcome.out
    assert (tmp_path / "stream.png").stat().st_size > 10_000
    lines = run(
        capsys, "limits", "--one-pass", "--steps", "5", "--batch-size", "1", "--csv", "-"
    ).out.splitlines()
    assert lines[0] == "batch_size,step,risk,spread,error"
    assert len(lines) == 7


def test_a_step_that_is_too_large_says_what_diverges(capsys):
    outcome = run(capsys, "limits", "--one-pass", "--step-size", "1.9", "--batch-size", "1", "--steps", "10")
    assert outcome.code == 0, outcome.err
    assert "the largest eigenvalue diverges" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--one-pass --steps 0", "--steps must be a whole number of at least 1"),
        ("--one-pass --spectrum 0.9", "exponent > 1 where size is infinite"),
        ("--one-pass --source -1", "must add up to more than 1"),
        ("--one-pass --aspect 1", "--one-pass has no epochs"),
        ("--one-pass --step-size 0", "step must be a number > 0"),
        ("--aspect 1 --alpha 0.1 --steps 5", "--one-pass, which is not given"),
        ("--aspect 1", "give --alpha, the full-batch step, or --best"),
    ],
)
def test_it_refuses(capsys, arguments, message):
    outcome = run(capsys, "limits", *arguments.split())
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
