"""One's own data: every format gives the same problem."""

import csv
import json

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.cli import problem as problems
from reshuffle.cli import reader
from tests.cli.terminal import run

rng = np.random.default_rng(0)
X = rng.standard_normal((12, 3))
y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(12)


def write_csv(path, header, table, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        if header:
            writer.writerow(header)
        writer.writerows(table.tolist())
    return path


def write_parquet(path, **columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    write_csv(tmp_path / "a.csv", None, np.column_stack([X, y]))
    write_csv(tmp_path / "named.csv", ["a", "y", "b", "c"], np.column_stack([X[:, 0], y, X[:, 1:]]))
    write_csv(tmp_path / "other.csv", ["a", "b", "c", "price"], np.column_stack([X, y]), ";")
    write_csv(
        tmp_path / "middle.csv", ["a", "price", "b", "c"], np.column_stack([X[:, 0], y, X[:, 1:]]), "\t"
    )
    write_parquet(tmp_path / "a.parquet", a=X[:, 0], b=X[:, 1], y=y, c=X[:, 2])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("a.npz", None),
        ("a.npy", None),
        ("a.csv", None),
        ("named.csv", None),
        ("other.csv", None),
        ("other.csv", "price"),
        ("middle.csv", "price"),
        ("a.parquet", None),
        ("a.parquet", "y"),
    ],
)
def test_every_format_gives_the_same_problem(files, name, target):
    found = reader.read(str(files / name), () if target is None else (target,))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y[:, 0], y)
    assert found.truth == {}


def test_the_truth_is_unknown_and_the_training_loss_is_not(capsys, files):
    outcome = run(
        capsys, "curve", "--data", str(files / "a.csv"), "--step", "0.05", "--batches", "3", "--json", "-"
    )
    (curve,) = json.loads(outcome.out)["curves"]
    exact = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=3), step=0.05)
    np.testing.assert_allclose(curve["training_loss"], exact.training_loss(np.arange(301)), rtol=1e-10)
    assert "risk" not in curve
    assert curve["best_epoch"] is None
    assert curve["limit"]["distance_from_minimum_norm"] == pytest.approx(
        exact.compare_limit().distance, rel=1e-9
    )
    assert curve["limit"]["training_loss_error"] == 0
    shown = run(capsys, "curve", "--data", str(files / "a.csv"), "--step", "0.05", "--batches", "3")
    assert "The truth behind this data is unknown" in shown.out
    header = run(
        capsys, "curve", "--data", str(files / "a.csv"), "--step", "0.05", "--csv", "-"
    ).out.splitlines()[0]
    assert header == "scheme,batches,epoch,training_loss,training_loss_error"


def test_held_out_rows_show_their_loss(capsys, files, tmp_path):
    features = rng.standard_normal((5, 3))
    responses = rng.standard_normal(5)
    np.savez(tmp_path / "test.npz", X=features, y=responses)
    arguments = (
        "curve", "--data", str(files / "a.npz"), "--test", str(tmp_path / "test.npz"), "--step", "0.05",
        "--batches", "2", "--epochs", "100",
    )  # fmt: skip
    (curve,) = json.loads(run(capsys, *arguments, "--json", "-").out)["curves"]
    iterates = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=2), step=0.05).iterate(
        np.arange(101)
    )
    expected = [np.mean((features @ b - responses) ** 2) / 2 for b in iterates]
    np.testing.assert_allclose(curve["held_out_loss"], expected, rtol=1e-10)
    assert run(capsys, *arguments, "--csv", "-").out.startswith(
        "scheme,batches,epoch,training_loss,training_loss_error,held_out_loss,held_out_loss_error\n"
    )


def test_a_file_that_knows_the_truth_gives_the_risk(capsys, tmp_path):
    np.savez(
        tmp_path / "known.npz", X=X, y=y, beta_star=[1.0, -2.0, 0.5], noise=0.1, covariance=[1.0, 2.0, 3.0]
    )
    outcome = run(
        capsys,
        "curve",
        "--data",
        str(tmp_path / "known.npz"),
        "--alpha",
        "0.1",
        "--batches",
        "2",
        "--json",
        "-",
    )
    problem = rs.LeastSquares(X, y, beta_star=[1.0, -2.0, 0.5], noise=0.1, covariance=[1.0, 2.0, 3.0])
    exact = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.1)
    (curve,) = json.loads(outcome.out)["curves"]
    np.testing.assert_allclose(curve["risk"]["total"], exact.risk(np.arange(301)).total, rtol=1e-10)


def test_the_noise_and_covariance_of_the_command_line_override_the_file_s(tmp_path):
    from reshuffle.cli.options import ProblemOptions

    np.savez(tmp_path / "known.npz", X=X, y=y, beta_star=[1.0, -2.0, 0.5], noise=0.1)
    asked = ProblemOptions(data=str(tmp_path / "known.npz"), noise=0.3, covariance="powerlaw:1")
    problem = problems.pose(asked).problem
    assert problem.noise == 0.3
    np.testing.assert_allclose(problem.covariance.value, np.array([1, 1 / 2, 1 / 3]) * 18 / 11)
