"""The figures: their numbers are the library's, their claims come out as they should, their files hold them."""

import io

import numpy as np
import pytest

import paper
import reshuffle as rs
from paper.figure import Claim
from paper.spectra import printed_shrinkage
from tests.looped import for_all

SMALL = {
    "spectra-under": {"n": 400, "p": 100, "alpha": 0.4, "seed": 1},
    "spectra-over": {"n": 120, "p": 180, "alpha": 0.2, "seed": 1},
    "divergence": {"n": 120, "p": 180, "alpha": 0.5, "epochs": 30, "runs": 8, "seed": 0},
    "risk-over": {
        "n": 60, "p": 90, "noise": 0.5, "alpha": 0.2, "epochs": 300, "last": 50,
        "runs": 40, "test_samples": 30, "seed": 0,
    },
    "risk-under": {
        "n": 240, "p": 60, "noise": 1.0, "alpha": 0.4, "epochs": 60, "last": 10,
        "runs": 40, "test_samples": 30, "seed": 0,
    },
    "linear-scaling": {"n": 40, "p": 20, "time": 20.0, "halvings": 5, "seed": 0},
    "limit-vectors": {"n": 40, "p": 20, "count": 5, "seed": 0},
    "two-batch": {"n": 60, "p": 40, "draws": 40, "seed": 0},
    "cross-term": {"n": 20, "p": 30, "epochs": 60, "runs": 400, "seed": 3},
    "run-risk": {"n": 60, "p": 40, "batches": 4, "share": 0.7, "epochs": 30, "runs": 400, "seed": 1},
    "shrinkage": {"p": 6, "alpha": 0.4, "sizes": (1000, 4000, 16000, 64000), "seed": 0},
    "fixed-dimension": {"rows": 30, "p": 10, "batches": 3, "alpha": 0.4, "epochs": 30, "seed": 2},
    "early-stopping": {"n": 60, "p": 90, "noise": 0.5, "count": 5, "seed": 0},
}  # fmt: skip
HEADERS = {
    "spectra-under": "batches,eigenvalue,density",
    "spectra-over": "batches,eigenvalue,density",
    "divergence": "batches,epoch,exact,simulated,standard_error",
    "risk-over": "batches,epoch,exact,expected,single_run,simulated_test_error,standard_error,"
    "simulated_mean_iterate_risk,mean_iterate_standard_error",
    "risk-under": "batches,epoch,exact,expected,single_run,simulated_test_error,standard_error,"
    "simulated_mean_iterate_risk,mean_iterate_standard_error",
    "linear-scaling": "scheme,batches,alpha,distance",
    "limit-vectors": "regime,scheme,batches,alpha_share,distance",
    "two-batch": "epoch,lower,exact,upper",
    "cross-term": "epoch,exact,as_printed,simulated,standard_error",
    "run-risk": "epoch,exact_mean_iterate,simulated_run,standard_error,spread",
    "shrinkage": "batches,sigma_eigenvalue,simulated,exact,as_printed",
    "fixed-dimension": "epoch,exact,corrected,as_printed",
    "early-stopping": "batches,alpha,best_epoch,risk",
}


def the_claims_come_out_as_they_should(name, result):
    """Whatever the paper has right agrees, and what it has wrong comes with its correction."""
    assert result.claims
    for claim in result.claims:
        assert isinstance(claim, Claim)
        assert type(claim.agrees) is bool
        assert claim.agrees != bool(claim.correction), claim


def the_table_has_its_columns(name, result):
    assert ",".join(result.table) == HEADERS[name]
    (rows,) = {len(column) for column in result.table.values()}
    assert rows > 0


def the_picture_is_drawn(name, result):
    file = io.BytesIO()
    result.picture.savefig(file, format="png")
    assert len(file.getvalue()) > 10_000


def the_risk_curves_are_the_library_s(name, result):
    problem, table = rs.gaussian(60, 90, noise=0.5, seed=0), result.table
    dots = [line.get_data() for line in result.picture.axes[0].get_lines() if line.get_marker() == "o"]
    for batches, dot in zip((1, 2, 4), dots, strict=True):
        run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=0.2)
        exact = table["exact"][table["batches"] == batches]
        np.testing.assert_allclose(exact, run.risk(np.arange(301)).total, rtol=1e-10)
        assert dot == ([run.best_epoch().epoch], [run.best_epoch().risk])


def runs_of_different_schemes_share_their_noise(name, result):
    """Differences between schemes are then not drowned by the noise of the responses."""
    last = result.table["epoch"] == 300
    one, two, _ = result.table["simulated_mean_iterate_risk"][last]
    assert abs(one - two) < result.table["mean_iterate_standard_error"][last][0]


def the_eigenvalues_are_those_of_z(name, result):
    Z = rs.descend(rs.gaussian(120, 180, seed=1), rs.RandomReshuffling(batches=2), alpha=0.2).epoch.Z
    heights, cuts, _ = result.picture.axes[0].patches[1].get_data()
    eigenvalues = np.linalg.eigvalsh(0.2 * Z)[60:]
    np.testing.assert_allclose(cuts[[0, -1]], eigenvalues[[0, -1]], atol=1e-12)
    counts, _ = np.histogram(eigenvalues, [cuts[0] - 1e-12, *cuts[1:-1], cuts[-1] + 1e-12])
    np.testing.assert_allclose(180 * heights * np.diff(cuts), counts, atol=1e-9)


def the_divergence_is_that_of_the_iterate(name, result):
    full, two = np.split(result.table["exact"], 2)
    assert full[-1] > 100 * full[0]
    assert two[-1] < two[0]
    # Full batch has no orders to average over: the simulation is the recursion itself.
    np.testing.assert_allclose(result.table["simulated"][: len(full)], full, rtol=1e-8)


OF_EVERY_FIGURE = (
    the_claims_come_out_as_they_should,
    the_table_has_its_columns,
    the_picture_is_drawn,
)
OF_ONE = {
    "risk-over": (the_risk_curves_are_the_library_s, runs_of_different_schemes_share_their_noise),
    "spectra-over": (the_eigenvalues_are_those_of_z,),
    "divergence": (the_divergence_is_that_of_the_iterate,),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", paper.FIGURES)
def test_a_figure_and_what_it_claims(name):
    """One test per figure, so that its numbers are computed once, however the tests are spread over processes."""
    result = paper.FIGURES[name].make(**SMALL[name])
    for check in (*OF_EVERY_FIGURE, *OF_ONE.get(name, ())):
        check(name, result)


def test_every_figure_is_tried_here():
    assert set(SMALL) == set(HEADERS) == set(paper.FIGURES)


@for_all("name", paper.FIGURES)
def test_full_and_quick_are_the_same_computation(name):
    figure = paper.FIGURES[name]
    assert set(figure.full) == set(SMALL[name])
    assert set(figure.quick) <= set(figure.full)
    quick, full = figure.inputs(True), figure.inputs(False)
    assert {key for key in full if quick[key] != full[key]} == set(figure.quick)


@for_all("captioned, caption", [
        ("spectra-under", {"n": 4000, "p": 1000, "alpha": 0.4}),
        ("spectra-over", {"n": 1000, "p": 1500, "alpha": 0.2}),
        ("divergence", {"n": 1000, "p": 1500, "alpha": 0.5}),
        (
            "risk-over",
            {"n": 1000, "p": 1500, "noise": 0.5, "alpha": 0.2, "epochs": 300, "last": 50, "runs": 1000,
             "test_samples": 1000},
        ),
        (
            "risk-under",
            {"n": 4000, "p": 1000, "noise": 1.0, "alpha": 0.4, "epochs": 100, "last": 10, "runs": 1000,
             "test_samples": 1000},
        ),
    ])  # fmt: skip
def test_the_sizes_are_those_of_the_captions(captioned, caption):
    full = paper.FIGURES[captioned].full
    assert {key: full[key] for key in caption} == caption


def test_the_printed_shrinkage_is_right_up_to_three_batches_only():
    x = np.array([0.5, 1.0])
    for batches in (2, 3):
        np.testing.assert_allclose(
            printed_shrinkage(batches, 0.4, x),
            (1 - (1 - 0.4 * x / batches) ** batches) / 0.4,
            rtol=1e-12,
        )
    # (3! 2! / 2!) / 10 - (3! 1! / 3!) / 100 + (3! 0! / 4!) / 1000, as the proposition has it.
    assert printed_shrinkage(4, 0.4, np.array([1.0]))[0] == pytest.approx(1 - 0.59025, rel=1e-12)
    assert abs(printed_shrinkage(4, 0.4, x) - (1 - (1 - 0.1 * x) ** 4) / 0.4).max() > 0.1
