"""The demonstration computes the errors of real training, and prints them."""

import re

import numpy as np
import pytest
from demo.__main__ import main
from demo.patients import patients
from demo.training import computed, prepared, trained

import reshuffle as rs

EPOCHS = np.array([1, 2, 4])


@pytest.fixture(scope="module")
def story():
    seen, held_out = patients()
    return rs.plan(seen.X, seen.y, batch_sizes=[64], epochs=100), seen, held_out


def test_no_patient_is_both_trained_on_and_held_out(story):
    _, seen, held_out = story
    assert (len(seen.y), len(held_out.y)) == (300, 142)
    assert not {tuple(row) for row in seen.X} & {tuple(row) for row in held_out.X}


def test_what_is_computed_is_the_mean_of_real_runs(story):
    plan, _, held_out = story
    found = trained(plan, held_out, EPOCHS, runs=60)
    _, responses = prepared(plan, held_out)
    said = plan.run.predict(prepared(plan, held_out)[0], EPOCHS) - responses
    error = found.std(axis=0, ddof=1) / np.sqrt(60)
    # Over 142 rows at three epochs, none is five standard errors away, and on average they are about one.
    apart = np.abs(found.mean(axis=0) - said) / error
    assert apart.max() < 5
    assert 0.3 < np.sqrt(np.square(apart).mean()) < 2
    averaged = np.square(found.mean(axis=0)).mean(axis=1)
    np.testing.assert_allclose(computed(plan, held_out, EPOCHS), averaged, rtol=2e-3)


@pytest.mark.slow
def test_the_story_is_told_and_the_picture_is_there(tmp_path, capsys):
    path = tmp_path / "deep" / "demo.png"
    main([str(path), "3"])
    told = capsys.readouterr().out
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) to ([\d.]+) *$", told, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    for row in rows:
        expected, averaged, low, high = map(float, row[1:])
        assert expected == pytest.approx(averaged, rel=0.01)
        assert low <= high
    assert "was predicted" in told
    assert path.read_bytes().startswith(b"\x89PNG")
