"""`reshuffle limits`, `spectrum` and `stability`: what the library finds, with no data at all, and files."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid

import reshuffle as rs
from reshuffle import asymptotics, free
from reshuffle.cli import limits, render
from reshuffle.free import parser
from reshuffle.run.critical_steps import CriticalStep
from tests.cli.terminal import answer, run, shown
from tests.looped import for_all

SETTING = "limits --aspect 0.5 --noise 0.5"
TWO_BATCH = 'spectrum --expression "x + y - (x*y + y*x)/2" --law x=mp(0.5,0.2) --law y=mp(0.5,0.2)'
SEMICIRCLES = 'spectrum --expression "x*y + y*x" --law x=sc(1) --law y=sc(1)'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.slow
def test_learning_curves_are_the_library_s(capsys):
    line = "limits --aspect 1.5 --alpha 0.2 --noise 0.5 --batches 1,2 --epochs 50"
    for one, batches in zip(answer(capsys, line)["curves"], (1, 2), strict=True):
        exact = asymptotics.learning_curve(1.5, 0.2, batches, noise=0.5)
        np.testing.assert_allclose(one["risk"]["total"], exact.risk(np.arange(51)).total, rtol=1e-9)
        assert one["best_epoch"]["epoch"] == exact.best_epoch().epoch
        assert one["limit"] == pytest.approx(float(exact.limit().total), rel=1e-9)
        assert one["converges"] is True
    assert "risk there" in shown(capsys, line, "--plot", "limits.png", "--csv", "limits.csv")
    assert Path("limits.png").stat().st_size > 10_000
    lines = Path("limits.csv").read_text().splitlines()
    assert lines[0] == "batches,epoch,risk,frozen,bias,cross,variance"
    assert len(lines) == 1 + 2 * 51


@pytest.mark.slow
def test_best_tells_what_the_library_finds(capsys):
    found = answer(capsys, f"{SETTING} --best --budget 1 --batches 1,2")
    expected = asymptotics.best_recipe(0.5, noise=0.5, batches=[1, 2], epochs=1)
    for recipe, one in zip(found["recipes"], expected, strict=True):
        assert [recipe[name] for name in ("risk", "alpha", "error")] == pytest.approx(
            [one.risk, one.alpha, one.error], rel=1e-9, abs=0
        )
    assert found["beside"]["Bayes"] == pytest.approx(expected[0].bayes)
    assert found["budget"] == 1
    text = shown(capsys, f"{SETTING} --best --batches 1,2 --plot best.png")
    assert "the best recipe of any number of epochs" in text
    assert "-> 0" in text
    assert Path("best.png").stat().st_size > 10_000


@pytest.mark.slow
@for_all(
    "text, sigma",
    [
        ("power:1.2:30", asymptotics.PowerLaw(1.2, 30)),
        ("powerlaw:1.2:30", asymptotics.PowerLaw(1.2, 30)),
        ("toeplitz:0.5:20", asymptotics.toeplitz(0.5, 20)),
        ("0.5,1,2", [0.5, 1.0, 2.0]),
    ],
)
def test_a_covariance_by_name_is_that_of_the_library(capsys, text, sigma):
    (curve,) = answer(capsys, f"{SETTING} --alpha 0.5 --batches 2 --epochs 20 --covariance {text}")["curves"]
    expected = asymptotics.learning_curve(0.5, 0.5, 2, noise=0.5, covariance=sigma).risk(curve["epochs"])
    np.testing.assert_allclose(curve["risk"]["total"], expected.total, rtol=1e-9)


# -------------------------------------------------------------------------------------------------------- spectra


@pytest.mark.slow
def test_an_expression_has_the_law_that_the_library_finds(capsys):
    (found,) = answer(capsys, f"{TWO_BATCH} --moments 6 --sample 100")["laws"]
    law = free.MarchenkoPastur(ratio=0.5, variance=0.2)
    x, y = free.variables(law, law)
    exact = free.spectrum(x + y - (x * y + y * x) / 2)
    np.testing.assert_allclose(found["support"], exact.support, rtol=1e-12)
    np.testing.assert_allclose(found["moments"], exact.moments(6), rtol=1e-12)
    np.testing.assert_allclose(found["density"], exact.density(np.array(found["eigenvalue"])), rtol=1e-9)
    assert found["atoms"] == []
    assert len(found["sampled_eigenvalues"]) == 100
    assert np.mean(found["sampled_eigenvalues"]) == pytest.approx(found["moments"][0], rel=0.05)
    lines = shown(capsys, f"{TWO_BATCH} --csv -").splitlines()
    assert (lines[0], len(lines)) == ("law,eigenvalue,density", 301)


@pytest.mark.slow
def test_batches_have_the_law_of_asymptotics(capsys):
    found = answer(capsys, "spectrum --aspect 1.5 --alpha 0.2 --batches 1,2 --sample 100")["laws"]
    for one, batches in zip(found, (1, 2), strict=True):
        exact = asymptotics.batch_spectrum(1.5, 0.2, batches)
        np.testing.assert_allclose(one["support"], exact.support, rtol=1e-9)
        np.testing.assert_allclose(one["atoms"], [[0.0, 1 / 3]], atol=1e-9)
        np.testing.assert_allclose(one["moments"], exact.moments(4), rtol=1e-9)
        assert np.mean(one["sampled_eigenvalues"]) == pytest.approx(one["moments"][0], rel=0.05)
    # The end of the two-batch support, as known from its closed form.
    assert found[1]["support"][0][1] == pytest.approx(0.82682557, abs=1e-8)


def test_laws_of_atoms_alone_are_shown(capsys):
    line = "spectrum --expression p --law p=projection(0.25)"
    text = shown(capsys, f"{line} --plot atoms.png --csv atoms.csv")
    atoms = [one.split() for one in text.splitlines() if " at " in one]
    assert atoms == [["atoms", "0.75", "at", "0"], ["0.25", "at", "1"]]
    assert Path("atoms.csv").read_text() == "law,eigenvalue,density\n"
    for number in (10, 15, 20):
        law = f"x=discrete([{','.join(map(str, range(number)))}],[{','.join([repr(1 / number)] * number)}])"
        (found,) = answer(capsys, "spectrum --expression x", "--law", law)["laws"]
        assert found["support"] == []
        assert found["moments"][0] == pytest.approx((number - 1) / 2)


def test_the_help_names_every_law_with_its_arguments():
    text = inspect.getdoc(limits.spectrum).partition("For example")[0]
    described = dict(re.findall(r"(\w+)\(([^()]*)\)", text))
    for law in set(parser.LAWS.values()):
        (arguments,) = (described[name] for name in described if parser.LAWS.get(name) is law)
        taken = len([name for name in inspect.signature(law).parameters if not name.endswith("_")])
        assert len(arguments.split(",")) == taken, f"{law.__name__} takes {taken} arguments"


# ------------------------------------------------------------------------------------------------------- pictures


@pytest.fixture
def drawn(monkeypatch, capsys):
    """Run a command and get the axes of its picture, and the answer."""

    def draw(line):
        answers = []
        monkeypatch.setattr(render, "deliver", lambda made, _: answers.append(made))
        outcome = run(capsys, line)
        assert outcome.code == 0, outcome.err
        answers[0].picture.savefig("picture.png")
        return answers[0].picture.axes[0], answers[0]

    return draw


@pytest.mark.slow
@for_all("batches", ["1,2,3", "2", "1", "1,2,4,8"])
def test_batches_are_whole_on_the_axis(drawn, batches):
    ax, _ = drawn(f"stability --aspect 1.5 --batches {batches}")
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert ticks
    assert all(tick == round(tick) for tick in ticks)


@pytest.mark.slow
def test_a_law_over_decades_is_drawn_whole_in_picture_and_sketch(drawn):
    """Three quarters of its mass were above the top of both."""
    laws = "--law x=mp(0.5,1) --law y=mp(0.5,1) --law z=mp(0.5,1)"
    ax, made = drawn(f"spectrum --expression x*y*z*y*x {laws} --sample 50")
    t, y = ax.get_lines()[0].get_data()
    assert y.max() < ax.get_ylim()[1]
    assert trapezoid(y, np.log10(t)) == pytest.approx(1, abs=2e-3)
    (series,) = made.series
    assert trapezoid(series.y, series.x) == pytest.approx(1, abs=2e-3)
    assert made.xlabel == "log10 of the eigenvalue"


@pytest.mark.slow
def test_hard_edges_leave_the_picture_and_the_rest_stays(drawn):
    ax, made = drawn("spectrum --expression x --law x=arcsine(-1,1)")
    t, y = ax.get_lines()[0].get_data()
    assert trapezoid(np.minimum(y, ax.get_ylim()[1]), t) > 0.9
    np.testing.assert_allclose(made.series[0].x[[0, -1]], [-1, 1], rtol=1e-12)
    assert np.isfinite(made.series[0].y).all()
    assert render.csv_text(made).splitlines()[1].endswith(",inf")


@pytest.mark.slow
def test_beyond_convergence_the_limit_is_inf_and_other_odd_ends(capsys):
    line = "limits --aspect 1.5 --alpha 0.5 --batches 1 --epochs 5"
    (found,) = answer(capsys, line)["curves"]
    assert (found["converges"], found["limit"]) == (False, "inf")
    line = f"{SETTING} --alpha 3 --batches 1 --covariance power:1:10 --epochs 9"
    assert re.search(r"^ +1 +no .* inf$", shown(capsys, line), re.MULTILINE)
    # A sketch reaches from zero to the top of the density.
    text, (found,) = shown(capsys, SEMICIRCLES), answer(capsys, SEMICIRCLES)["laws"]
    assert f"{max(found['density']):.4g} │" in text
    assert "\n        0 │" in text
    # A negative expression is not an option; several intervals are drawn with a gap.
    (found,) = answer(capsys, "spectrum --expression -x --law x=mp(0.5)")["laws"]
    assert found["moments"][0] == pytest.approx(-1.0)
    line = 'spectrum --expression "d + s/10" --law d=discrete([0,5]) --law s=sc(1) --plot gap.png'
    assert len(answer(capsys, line)["laws"][0]["support"]) == 2


@pytest.mark.slow
def test_one_pass_is_the_library_s(capsys):
    line = "limits --one-pass --features 50 --step-size 0.1 --steps 300 --noise 0.5 --batch-size 2,8"
    laws = asymptotics.PowerLaw(1.5, 50), asymptotics.PowerLaw(0.5, 50)
    for curve, batch in zip(answer(capsys, line)["curves"], (2, 8), strict=True):
        expected = asymptotics.one_pass(*laws, batch, 0.1, curve["steps"], noise=0.5)
        np.testing.assert_allclose(curve["risk"], expected.risk)
        assert curve["limit"] == pytest.approx(expected.limit)
        assert curve["converges"]
    text = shown(capsys, "limits --one-pass --steps 5 --batch-size 1 --plot stream.png --csv stream.csv")
    assert "risk after 5" in text
    assert Path("stream.png").stat().st_size > 10_000
    lines = Path("stream.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("batch_size,step,risk,spread,error", 7)
    text = shown(capsys, "limits --one-pass --step 1.9 --batch-size 1 --steps 10")
    assert "the largest eigenvalue diverges" in text


SAMPLES = "stability --n 24 --p 2 --scheme sample-reshuffling --mean"


def test_the_largest_steps_on_data_are_the_library_s(capsys):
    line = "stability --n 24 --p 30 --batches 1,2,3 --scheme reshuffling,with-replacement --mean"
    found = answer(capsys, line)["thresholds"]
    names = [("full-batch", 1), ("reshuffling", 2), ("reshuffling", 3)]
    assert [(one["name"], one["batches"]) for one in found[:3]] == names
    problem = rs.gaussian(24, 30)
    for one, scheme in (
        (found[2], rs.RandomReshuffling(batches=3)),
        (found[-1], rs.WithReplacement(batches=3)),
    ):
        assert one["step"] == pytest.approx(rs.critical_step(problem, scheme, mean_square=False), rel=1e-8)
        assert one["alpha"] == pytest.approx(3 * one["step"])


def rows_of(text):
    """The rows of shuffled samples in a table."""
    return [line.split() for line in text.splitlines() if line.startswith("sample-reshuffling ")]


@pytest.mark.slow
def test_thresholds_have_their_errors(capsys, monkeypatch):
    known, critical_step = {}, rs.critical_step

    def kept(problem, scheme, **asked):
        known[scheme.batches] = critical_step(problem, scheme, **asked)
        return known[scheme.batches]

    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", kept)
    rows = rows_of(shown(capsys, SAMPLES))
    assert [row[1] for row in rows] == ["2", "4", "8"]
    assert "±" in rows[-1]
    found = answer(capsys, SAMPLES)["thresholds"]
    exact = critical_step(rs.gaussian(24, 2), rs.SampleReshuffling(batches=2), mean_square=False)
    assert found[1]["step"] == pytest.approx(exact, rel=1e-8)
    assert found[2]["step"] == pytest.approx(known[4], rel=1e-8)
    assert found[3]["error"] == pytest.approx(known[8].error, rel=1e-6)


def test_what_is_known_is_printed_and_what_is_not_says_why(capsys, monkeypatch):
    def refuses_eight(problem, scheme, **asked):
        if scheme.batches == 8:
            raise rs.BudgetError("there are 8 batches, but at most 4 are known")
        return CriticalStep(0.5)

    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", refuses_eight)
    text = shown(capsys, SAMPLES)
    assert rows_of(text)[-1][2:] == ["-", "-"]
    assert "sample-reshuffling, 8 batches: " in text
    last = answer(capsys, SAMPLES)["thresholds"][3]
    assert (last["step"], last["alpha"]) == (None, None)
    assert "at most 4" in last["reason"]
    # Without any answer it is an error.
    outcome = run(capsys, f"{SAMPLES} --batches 8")
    assert (outcome.code, outcome.out) == (1, "")
    assert "descend" not in outcome.err


@pytest.mark.slow
def test_single_runs_come_first_and_the_mean_by_name(capsys):
    problem, scheme = rs.gaussian(20, 4), rs.RandomReshuffling(batches=2)
    line = "stability --n 20 --p 4 --batch-size 10"
    for options, asked in {
        "": {"mean_square": True},
        "--mean-square": {"mean_square": True},
        "--mean": {"mean_square": False},
        "--mean --momentum 0.3": {"mean_square": False, "momentum": 0.3},
    }.items():
        told = answer(capsys, f"{line} {options}")
        assert told["mean_square"] == asked["mean_square"]
        expected = rs.critical_step(problem, scheme, **asked)
        assert told["thresholds"][0]["step"] == pytest.approx(expected, rel=1e-5)
    assert "the largest step at which single runs converge in mean square" in shown(capsys, line)
    assert "2% apart" in shown(capsys, f"{line} --mean --momentum 0.3")


@pytest.mark.slow
def test_the_limit_few_rows_the_table_and_the_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = answer(capsys, "stability --aspect 1.5 --batches 1,2")["thresholds"]
    assert found[0]["alpha"] == pytest.approx(2 / (1 + 1.5**0.5) ** 2, rel=1e-8)
    assert found[1]["alpha"] == pytest.approx(asymptotics.critical_alpha(1.5, 2), rel=1e-8)
    line = "stability --n 5 --p 3 --mean"
    assert [one["batches"] for one in answer(capsys, line)["thresholds"]] == [1, 2, 4]
    text = shown(capsys, line, "--plot", "stability.svg", "--csv", "stability.csv")
    assert text.startswith("n = 5, p = 3: the largest step at which the mean over all orders converges\n")
    assert Path("stability.svg").read_text().startswith("<?xml")
    assert Path("stability.csv").read_text().startswith("scheme,batches,step,alpha,error,reason\n")
