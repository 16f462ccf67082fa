"""`reshuffle sweep` as a stranger uses it: a folder with a table, a picture and what is kept for the next time."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.grid import cache
from tests.cli.terminal import run, shown

pytestmark = pytest.mark.slow
DRAWN = "sweep --n 20 --p 6 --noise 0.5 --out grid"
SMALL = f"{DRAWN} --batches 1,2 --step 0.05,0.1 --epochs 20"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def swept(capsys, line):
    """What is printed, and sweep.json."""
    return shown(capsys, line), json.loads(Path("grid/sweep.json").read_text())


def test_a_folder_with_everything(capsys):
    out, told = swept(capsys, SMALL)
    names = {path.name for path in Path("grid").iterdir()}
    assert names == {"cells", "sweep.png", "sweep.svg", "sweep.csv", "sweep.json"}
    assert "4 points, 20 rows, 6 columns" in out
    assert "\nBest: batches " in out
    assert Path("grid/sweep.png").read_bytes().startswith(b"\x89PNG")
    problem = rs.gaussian(20, 6, noise=0.5, seed=0)
    with Path("grid/sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    epochs = sorted({float(row["epochs"]) for row in rows})
    assert len(rows) == 4 * len(epochs)
    for row in rows:
        run_ = rs.descend(problem, rs.RandomReshuffling(batches=int(row["batches"])), step=float(row["step"]))
        assert float(row["risk"]) == pytest.approx(float(run_.risk(float(row["epochs"])).total), rel=1e-10)
    least = min(rows, key=lambda row: float(row["risk"]))
    assert told["best"][0] == {
        "batches": int(least["batches"]), "step": float(least["step"]), "epoch": float(least["epochs"]),
        "risk": float(least["risk"]),
    }  # fmt: skip
    assert told["variables"]["risk"]["dims"] == ["batches", "step", "epochs"]
    # The same command has its answers already, under the former name of an option and into standard output.
    assert json.loads(shown(capsys, f"{SMALL} --ask risk --json -"))["from_cache"] == 4


def test_as_many_columns_as_rows_are_told_to_give_left_out_rows_away(capsys):
    rng = np.random.default_rng(0)
    for p in (12, 30):
        table = rng.standard_normal((20, p + 1))
        np.savetxt(
            "mine.csv", table, delimiter=",", header=",".join(f"x{k}" for k in range(p + 1)), comments=""
        )
        line = f"sweep --data mine.csv --standardize --batches 1 --alpha 0.1 --epochs 5 --out grid{p}"
        assert ("do not hold for new rows" in " ".join(shown(capsys, line).split())) == (p == 30)


def test_the_same_command_goes_on_where_it_was(capsys, monkeypatch):
    original, kept = cache.Cache.put, []

    def put(self, key, *answers):
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(key)
        original(self, key, *answers)

    with monkeypatch.context() as patched:
        patched.setattr(cache.Cache, "put", put)
        outcome = run(capsys, SMALL)
    assert outcome.code == 130
    assert "finished points are in grid/cells, and the same command goes on" in outcome.err
    assert outcome.err.count("\n") == 1
    victim = sorted(Path("grid/cells").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-9])
    out, _ = swept(capsys, SMALL)
    assert "2 answers were there already." in out
    assert "1 files there were not whole and were computed again." in out


def test_own_data_and_steps_that_are_chosen(capsys):
    table = np.random.default_rng(0).standard_normal((40, 4))
    np.savetxt("mine.csv", table, delimiter=",", header="a,price,b,c", comments="")
    line = "sweep --data mine.csv --target price --batch-size 20,40 --standardize --out grid --epochs 9 --step auto"
    out, told = swept(capsys, line)
    assert "leave-one-out" in out
    steps = told["coordinates"]["step"]
    assert len(steps) == 16
    assert steps[-1] / steps[0] > 100
    assert told["coordinates"]["batch_size"] == [20, 40]
    assert "leave_one_out_standard_error" in told["variables"]


def test_several_schemes_momenta_and_questions_in_processes(capsys):
    recipes = "--scheme cyclic,full-batch --batches 2 --momentum 0,0.5 --alpha 0.1,9"
    _, told = swept(capsys, f"{DRAWN} {recipes} --metrics stability,critical-step --jobs 2")
    assert told["coordinates"]["scheme"] == ["Cyclic", "FullBatch"]
    assert np.shape(told["variables"]["rate"]["values"]) == (2, 1, 2, 2)
    assert len(set(np.ravel(told["variables"]["critical_step"]["values"]))) == 4


def test_what_diverges_is_said_and_never_hidden_as_the_best(capsys):
    out, told = swept(capsys, f"{DRAWN} --batches 2 --step 1e9,1e10 --epochs 300")
    assert [one["epoch"] for one in told["best"]] == [1, 1]
    assert "More epochs make it diverge." in out
    assert "make it diverge" not in swept(capsys, SMALL)[0]
    out, told = swept(capsys, f"{DRAWN} --batches 2 --step 1e9 --epochs 300 --metrics limit")
    assert told["best"] == []
    assert "Best: none; every point diverges or has no answer." in out


def test_a_scheduler_that_lives(capsys):
    import distributed

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        _, told = swept(capsys, f"{SMALL} --scheduler {cluster.scheduler_address}")
    assert np.isfinite(told["best"][0]["risk"])
