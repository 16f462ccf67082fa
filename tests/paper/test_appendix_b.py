"""Appendices B.1 and B.2: the algebra behind the proofs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle._linalg import power_and_sum
from tests.looped import for_all
from tests.problems import case, cases, close


@for_all("batches", [1, 2, 3, 4, 5])
@for_all("equal", [True, False])
def test_the_three_forms_of_Pi_b(batches, equal):
    tiny = case(10, 6, batches, equal=equal, step=0.2)
    for batch in range(batches):
        for form in tiny.modifiers(batch):
            close(tiny.run("reshuffling").epoch.modifier(batch), form)


def test_footnote_modified_batches_with_three_batches():
    tiny = case(9, 4, 3, step=0.3)
    _, W2, W3 = tiny.W
    expected = np.eye(4) - 0.15 * (W2 + W3) + 0.09 / 6 * (W2 @ W3 + W3 @ W2)
    close(tiny.run("reshuffling").epoch.modifier(0), expected)


@given(cases())
def test_equation_batch_dynamics_Z_ident(tiny):
    A, _ = tiny.mean_map("reshuffling")
    left = sum(tiny.modifiers(batch)[1] @ (tiny.step * W) for batch, W in enumerate(tiny.W))
    close(left, np.eye(len(A)) - A)
    close(np.eye(len(A)) - tiny.run("reshuffling").epoch.matrix, left)


@given(st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=5), st.integers(0, 12), st.integers(0, 10**6))
def test_lemma_geometric_series_pinv(eigenvalues, terms, seed):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))
    # An eigenvalue of exactly one makes the k P_0 term appear.
    values = np.append(eigenvalues[1:], 1.0)
    A = (Q * values) @ Q.T
    series = sum((np.linalg.matrix_power(A, j) for j in range(terms)), np.zeros_like(A))
    _, total = power_and_sum(1 - values, np.array(float(terms)))
    close((Q * total) @ Q.T, series, 1e-10)
    # As the lemma states it.
    away = np.abs(1 - values) > 1e-3
    if np.all(away | (values == 1.0)):
        inverse = (Q[:, away] / (1 - values[away])) @ Q[:, away].T
        null = Q[:, ~away] @ Q[:, ~away].T
        close((np.eye(len(A)) - np.linalg.matrix_power(A, terms)) @ inverse + terms * null, series, 1e-8)


@given(cases())
def test_range_assumption_when_overparameterized_with_full_rank(tiny):
    if tiny.problem.rank == tiny.problem.n:
        assert tiny.run("reshuffling").range_assumption.holds


def test_range_assumption_when_Z_has_rank_p():
    tiny = case(12, 4, 3)
    run = tiny.run("reshuffling")
    assert run.frozen.dimension == 0
    assert run.range_assumption.holds
    assert run.range_assumption.violation == 0


def test_the_noise_enters_with_a_plus_when_sampling_with_replacement():
    """The proof prints a minus before the noise term."""
    problem = rs.LeastSquares([[1.0], [1.0]], [1.0, 1.0], beta_star=[0.0], noise=1.0)
    assert rs.descend(problem, rs.WithReplacement(batches=2), step=0.1).iterate(1)[0] > 0


def test_equation_twobatch_generr_Zonly_pf1():
    tiny = case(10, 6, 2, step=0.15)
    W1, W2 = tiny.W
    epoch = tiny.run("reshuffling").epoch
    half = 0.15 / 2
    correction = (half * W1 - np.eye(6)) @ W2 @ W1 + (half * W2 - np.eye(6)) @ W1 @ W2
    close(epoch.modified_features.T @ epoch.modified_features / 10, epoch.Z + 0.15 / 4 * correction)


@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(0.01, 1.0))
def test_the_loewner_bounds_of_the_two_batch_proofs(p, seed, share):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((2, p, 3))
    W1, W2 = (root @ root.T for root in roots)
    norm = np.linalg.norm(W1 + W2, 2)
    step = share * 2 / norm
    Z = (W1 + W2) / 2 - step / 4 * (W1 @ W2 + W2 @ W1)
    correction = (step / 2 * W1 - np.eye(p)) @ W2 @ W1 + (step / 2 * W2 - np.eye(p)) @ W1 @ W2
    correction = (correction + correction.T) / 8
    for matrix in (Z, np.eye(p) - step * Z, norm / 2 * Z - correction, norm / 2 * Z + correction):
        assert np.linalg.eigvalsh(matrix).min() > -1e-9 * (1 + norm) ** 2


def test_the_anticommutator_of_the_lower_bound_is_indefinite_and_the_bound_holds():
    """c K is replaced by 2 K, c in [1, 2], as if K >= 0; but S S >= 0 and S S >= 2 K give S S >= c K for all c."""
    W1, W2 = np.diag([1.0, 0.0]), np.array([[1.0, 1.0], [1.0, 1.0]])
    K, square = W1 @ W2 + W2 @ W1, (W1 + W2) @ (W1 + W2)
    assert np.linalg.eigvalsh(K).min() < -0.4
    assert np.linalg.eigvalsh(1.5 * K - 2 * K).max() > 0.2
    for c in (0.0, 1.0, 1.5, 2.0):
        assert np.linalg.eigvalsh(square - c * K).min() > -1e-12
