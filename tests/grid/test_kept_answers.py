"""Answers that are kept: found again, never computed twice, and never believed unless they are whole."""

import hashlib
import io
import os
import subprocess
import sys

import numpy as np
import pytest
import xarray

import reshuffle as rs
from reshuffle.grid import cache as caches
from reshuffle.grid import sweep as sweeps

PROBLEM = rs.gaussian(20, 6, noise=0.5, seed=1)
OVER = {"batches": [2, 3], "alpha": [0.1, 0.2, 0.3]}


def swept(cache, problem=PROBLEM, over=OVER, epochs=(1, 10), **others):
    return rs.sweep(problem, over=over, epochs=list(epochs), cache=cache, **others)


@pytest.fixture
def computed(monkeypatch):
    """The runs that were asked."""
    runs = []
    original = sweeps.answers_of

    def counted(run, *others):
        runs.append((run.scheme.batches, round(run.step * run.scheme.batches, 12)))
        return original(run, *others)

    monkeypatch.setattr(sweeps, "answers_of", counted)
    return runs


def test_nothing_is_computed_twice(tmp_path, computed):
    folder = tmp_path / "a" / "b"
    first = swept(folder)
    assert (len(computed), first.attrs["from_cache"], len(list(folder.iterdir()))) == (6, 0, 6)
    again = swept(folder)
    assert (len(computed), again.attrs["from_cache"]) == (6, 6)
    xarray.testing.assert_equal(first, again)
    more = swept(folder, over={**OVER, "alpha": [0.1, 0.25, 0.3]})
    assert sorted(computed[6:]) == [(2, 0.25), (3, 0.25)]
    assert more.attrs["from_cache"] == 4
    xarray.testing.assert_equal(more["risk"].sel(alpha=[0.1, 0.3]), first["risk"].sel(alpha=[0.1, 0.3]))
    # A question more leaves the others as they are.
    both = swept(folder, metrics=["risk", "training_loss"])
    assert both.attrs["from_cache"] == 6
    alone = rs.sweep(PROBLEM, over=OVER, epochs=[1, 10], metrics="training_loss")
    xarray.testing.assert_equal(both["training_loss"], alone["training_loss"])


def other(beta_star=PROBLEM.beta_star, *settings, noise=0.5):
    return {"problem": rs.LeastSquares(PROBLEM.X, PROBLEM.y, beta_star, *settings, noise=noise)}


ROWS = np.arange(20)


def test_other_questions_have_other_names(tmp_path, monkeypatch):
    swept(tmp_path)
    for others in (
        {"problem": rs.gaussian(20, 6, noise=0.5, seed=2)},
        other(noise=0.6),
        other(PROBLEM.beta_star, 2.0),
        other(PROBLEM.beta_star + 1e-15),
        {"problem": rs.LeastSquares(PROBLEM.X, PROBLEM.y, PROBLEM.beta_star, None, 0.5, np.full(20, 2.0))},
        {"scheme": rs.SampleReshuffling},
        {"momentum": 0.1},
        {"penalty": 0.1},
        {"start": np.ones(6)},
        {"average": rs.EMA(0.5)},
        {"rtol": 0.1},
        {"metrics": "training_loss"},
        {"epochs": [1, 11]},
        # These look alike when they are printed.
        {"over": {"alpha": [0.1]}, "scheme": rs.RandomReshuffling(batches=np.split(ROWS, 2))},
        {"over": {"alpha": [0.1]}, "scheme": rs.RandomReshuffling(batches=[ROWS[::2], ROWS[1::2]])},
    ):
        assert swept(tmp_path, **others).attrs["from_cache"] == 0, others
    assert swept(tmp_path).attrs["from_cache"] == 6
    for home, name, value in ((caches, "FORMAT", 0), (rs, "__version__", "0.0.0")):
        with monkeypatch.context() as patch:
            patch.setattr(home, name, value)
            assert swept(tmp_path).attrs["from_cache"] == 0


def flipped(content):
    middle = len(content) // 3
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def with_pickle(content):
    """An archive that is whole, with an object in it that would run code."""
    file = io.BytesIO()
    np.savez(file, words=np.array([print], dtype=object))
    return file.getvalue() + hashlib.sha256(file.getvalue()).digest()


POISONS = [
    flipped,
    with_pickle,
    lambda content: content[:-1],
    lambda content: content[: len(content) // 2],
    lambda content: b"",
    lambda content: content[:64],
    lambda content: content + b"0",
    lambda content: b"x" * 500,
]


def test_what_is_not_whole_is_computed_again(tmp_path, computed):
    first = swept(tmp_path)
    stranger, _, victim, *_ = sorted(tmp_path.iterdir())
    content, under_its_name = victim.read_bytes(), stranger.read_bytes()
    for number, poison in enumerate([*POISONS, lambda content: under_its_name]):
        victim.write_bytes(poison(content))
        again = swept(tmp_path)
        assert (again.attrs["from_cache"], again.attrs["distrusted"]) == (5, 1), number
        assert len(computed) == 7 + number
        np.testing.assert_allclose(again["risk"], first["risk"], rtol=1e-12)
        assert swept(tmp_path).attrs["distrusted"] == 0


def test_places_that_are_no_folders(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"cache must be a folder, but this is a file.*file"):
        swept(tmp_path / "file")
    with pytest.raises(OSError, match=r"cache cannot be made .*inside"):
        swept(tmp_path / "file" / "inside")
    swept(tmp_path / "kept")
    victim = sorted((tmp_path / "kept").iterdir())[0]
    victim.unlink()
    victim.mkdir()
    with pytest.raises(OSError, match="directory"):
        swept(tmp_path / "kept")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="cache must be a folder to read and write"):
        swept(tmp_path / "kept")


_INTERRUPTED = """
import os, signal, sys
import reshuffle as rs
from reshuffle.grid import cache

original = cache.Cache.put
count = 0

def put(self, key, *answers):
    global count
    if count == 3:
        # In the middle of writing the fourth.
        (self.folder / f"{key}.1.part").write_bytes(b"PK half of it")
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    original(self, key, *answers)

cache.Cache.put = put
problem = rs.gaussian(20, 6, noise=0.5, seed=1)
rs.sweep(problem, over={"batches": [2, 3], "alpha": [0.1, 0.2, 0.3]}, epochs=[1, 10], cache=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path, computed):
    killed = subprocess.run([sys.executable, "-c", _INTERRUPTED, str(tmp_path)], check=False)
    assert killed.returncode == -9
    finished = {path.name: path.stat().st_ino for path in tmp_path.glob("*.npz")}
    assert len(finished) == 3
    found = swept(tmp_path)
    assert found.attrs["from_cache"] == 3
    assert len(computed) == 3
    after = {path.name: path.stat().st_ino for path in tmp_path.glob("*.npz")}
    assert len(after) == 6
    assert finished.items() <= after.items()
    np.testing.assert_allclose(
        found["risk"], rs.sweep(PROBLEM, over=OVER, epochs=[1, 10])["risk"], rtol=1e-12
    )
