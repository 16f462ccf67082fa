"""`reshuffle sweep` as a stranger uses it: a folder with a table, a picture and what is kept for the next time."""

import csv
import json
import socket
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.grid import cache
from tests.cli.terminal import run

DRAWN = ("--n", "20", "--p", "6", "--noise", "0.5")
SMALL = (*DRAWN, "--batches", "1,2", "--step", "0.05,0.1", "--epochs", "20", "--out", "grid")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    table = np.random.default_rng(0).standard_normal((40, 4))
    np.savetxt("mine.csv", table, delimiter=",", header="a,price,b,c", comments="")
    return tmp_path


def swept(capsys, *arguments):
    outcome = run(capsys, "sweep", *arguments)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    return outcome.out, json.loads(Path("grid/sweep.json").read_text())


@pytest.mark.slow
def test_a_folder_with_everything(capsys):
    out, told = swept(capsys, *SMALL)
    assert {path.name for path in Path("grid").iterdir()} == {
        "cells",
        "sweep.png",
        "sweep.svg",
        "sweep.csv",
        "sweep.json",
    }
    assert "4 points, 20 rows, 6 columns" in out
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


@pytest.mark.slow
def test_the_same_command_goes_on_where_it_was(capsys, monkeypatch):
    original = cache.Cache.put
    kept = []

    def put(self, key, *answers):
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(key)
        original(self, key, *answers)

    with monkeypatch.context() as patched:
        patched.setattr(cache.Cache, "put", put)
        outcome = run(capsys, "sweep", *SMALL)
    assert outcome.code == 130
    assert "finished points are kept in grid/cells, and the same command goes on" in outcome.err
    assert outcome.err.count("\n") == 1
    victim = sorted(Path("grid/cells").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-9])
    out, _ = swept(capsys, *SMALL)
    assert "2 answers were there already." in out
    assert "1 files there were not whole and were computed again." in out


@pytest.mark.slow
def test_own_data_and_steps_that_are_chosen(capsys):
    arguments = (
        "--data",
        "mine.csv",
        "--target",
        "price",
        "--batch-size",
        "20,40",
        "--standardize",
        "--out",
        "grid",
    )
    out, told = swept(capsys, *arguments, "--epochs", "9", "--step", "auto")
    assert "leave-one-out" in out
    steps = told["coordinates"]["step"]
    assert len(steps) == 16
    assert steps[-1] / steps[0] > 100
    assert told["coordinates"]["batch_size"] == [20, 40]
    assert "leave_one_out_standard_error" in told["variables"]


@pytest.mark.slow
def test_several_schemes_momenta_and_questions_in_processes(capsys):
    _, told = swept(
        capsys, *DRAWN, "--scheme", "cyclic,full-batch", "--batches", "2", "--momentum", "0,0.5",
        "--alpha", "0.1,9", "--ask", "stability,critical-step", "--jobs", "2", "--out", "grid",
    )  # fmt: skip
    assert told["coordinates"]["scheme"] == ["Cyclic", "FullBatch"]
    assert np.shape(told["variables"]["rate"]["values"]) == (2, 1, 2, 2)
    assert len(set(np.ravel(told["variables"]["critical_step"]["values"]))) == 4


@pytest.mark.slow
def test_where_all_diverges_there_is_no_best(capsys):
    out, told = swept(
        capsys, *DRAWN, "--batches", "2", "--step", "1e9,1e10", "--epochs", "300", "--out", "grid"
    )
    assert len(told["best"]) <= 2
    assert "2 points" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (DRAWN, "out"),
        ((*DRAWN, "--out", ""), "--out must name a folder"),
        ((*DRAWN, "--out", "mine.csv"), "--out must be a folder, but mine.csv is a file."),
        ((*DRAWN, "--out", "grid", "--ask", "luck"), "--ask must be among risk, expected-risk"),
        ((*DRAWN, "--out", "grid", "--batches", "21"), "between 1 and 20"),
        ((*DRAWN, "--out", "grid", "--batches", "two"), "--batches must be whole numbers"),
        (
            (*DRAWN, "--out", "grid", "--batches", "2", "--batch-size", "5"),
            "exactly one of --batches and --batch-size",
        ),
        ((*DRAWN, "--out", "grid", "--step", "0.1", "--alpha", "0.1"), "exactly one of --step and --alpha"),
        ((*DRAWN, "--out", "grid", "--step", "fast"), "--step must be numbers of at least 0"),
        (
            (*DRAWN, "--out", "grid", "--momentum", "1"),
            "--momentum must be numbers of at least 0 and below 1",
        ),
        ((*DRAWN, "--out", "grid", "--drop-last"), "--drop-last needs --batch-size"),
        ((*DRAWN, "--out", "grid", "--epochs", "0"), "--epochs must be a whole number between 1"),
        ((*DRAWN, "--out", "grid", "--jobs", "0"), "--jobs must be"),
        ((*DRAWN, "--out", "grid", "--scheme", "luck"), "--scheme must be among"),
        (
            (*DRAWN, "--out", "grid", "--jobs", "2", "--scheduler", "tcp://a:1"),
            "at most one of --jobs and --scheduler",
        ),
        (("--data", "mine.csv", "--out", "grid", "--ask", "risk"), "needs beta_star and noise"),
        (("--out", "grid"), "give --n and --p"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, words):
    outcome = run(capsys, "sweep", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("grid").exists()


@pytest.mark.parametrize("address", ["nonsense", "luck://127.0.0.1:1", None])
def test_a_dead_scheduler_is_one_line(capsys, monkeypatch, address):
    from reshuffle.cli import sweep

    monkeypatch.setattr(sweep, "_PATIENCE", 0.2)
    with socket.socket() as unheard:
        # Bound, so that nobody else answers there, but not listening.
        unheard.bind(("127.0.0.1", 0))
        address = address or f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        outcome = run(capsys, "sweep", *SMALL, "--scheduler", address)
    assert outcome.code == 1
    assert f"{address}: no Dask scheduler answers there" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_a_scheduler_that_lives(capsys):
    import distributed

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        _, told = swept(capsys, *SMALL, "--scheduler", cluster.scheduler_address)
    assert np.isfinite(told["best"][0]["risk"])
