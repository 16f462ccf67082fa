"""Section 3: the modified features and Z."""

import numpy as np
import pytest
from hypothesis import given

import reshuffle as rs
from tests.looped import for_all
from tests.problems import case, cases, close


@given(cases())
def test_lemma_batch_Z_symmetric(tiny):
    run = tiny.run("reshuffling")
    Z, modified, X = run.epoch.Z, run.epoch.modified_features, tiny.problem.X
    close(Z, Z.T)
    # Straight from the definition, where symmetry is not built in.
    raw = np.mean([tiny.modifiers(batch)[0] @ W for batch, W in enumerate(tiny.W)], axis=0)
    close(raw, raw.T)
    close(raw, Z)
    # Range(Z) in Range(Xtilde') in Range(X').
    in_rows_of_X = np.linalg.pinv(X) @ X
    close(in_rows_of_X @ modified.T, modified.T, 1e-10)
    in_rows_of_modified = np.linalg.pinv(modified, rcond=1e-10) @ modified
    close(in_rows_of_modified @ Z, Z, 1e-8)


@for_all("batches", [2, 3, 4])
def test_equation_Z_W_firstorder(batches):
    tiny = case(12, 7, batches)
    W = tiny.problem.X.T @ tiny.problem.X / 12
    steps = np.array([1e-2, 1e-3, 1e-4])
    gaps = [
        np.linalg.norm(rs.descend(tiny.problem, rs.RandomReshuffling(batches=batches), step).epoch.Z - W)
        for step in steps
    ]
    order = np.polyfit(np.log(steps), np.log(gaps), 1)[0]
    assert order == pytest.approx(1, abs=0.05)


def test_example_two_batch():
    tiny = case(10, 6, 2, step=0.2)
    X1, X2 = tiny.problem.X[:5], tiny.problem.X[5:]
    W1, W2 = X1.T @ X1 / 5, X2.T @ X2 / 5
    epoch = tiny.run("reshuffling").epoch
    close(epoch.Z, (W1 + W2) / 2 - 0.2 / 4 * (W2 @ W1 + W1 @ W2))
    close(epoch.modified_features[:5], X1 @ (np.eye(6) - 0.1 * W2))
    close(epoch.modified_features[5:], X2 @ (np.eye(6) - 0.1 * W1))
