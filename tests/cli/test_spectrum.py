"""`reshuffle spectrum`: laws of expressions and of mini-batch descent."""

import inspect
import json
import re

import numpy as np
import pytest

from reshuffle import asymptotics, free
from reshuffle.cli.limits import spectrum
from reshuffle.free import parser
from tests.cli.terminal import run

TWO_BATCH = (
    "spectrum",
    "--expression",
    "x + y - (x*y + y*x)/2",
    "--law",
    "x=mp(0.5,0.2)",
    "--law",
    "y=mp(0.5,0.2)",
)


def laws(capsys, *arguments):
    outcome = run(capsys, *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["laws"]


@pytest.mark.slow
def test_an_expression_has_the_law_that_the_library_finds(capsys):
    (found,) = laws(capsys, *TWO_BATCH, "--moments", "6")
    law = free.MarchenkoPastur(ratio=0.5, variance=0.2)
    x, y = free.variables(law, law)
    exact = free.spectrum(x + y - (x * y + y * x) / 2)
    np.testing.assert_allclose(found["support"], exact.support, rtol=1e-12)
    np.testing.assert_allclose(found["moments"], exact.moments(6), rtol=1e-12)
    np.testing.assert_allclose(found["density"], exact.density(np.array(found["eigenvalue"])), rtol=1e-9)
    assert found["atoms"] == []


def test_batches_have_the_law_of_asymptotics(capsys):
    found = laws(capsys, "spectrum", "--aspect", "1.5", "--alpha", "0.2", "--batches", "1,2")
    for one, batches in zip(found, (1, 2), strict=True):
        exact = asymptotics.batch_spectrum(1.5, 0.2, batches)
        np.testing.assert_allclose(one["support"], exact.support, rtol=1e-9)
        np.testing.assert_allclose(one["atoms"], [[0.0, 1 / 3]], atol=1e-9)
        np.testing.assert_allclose(one["moments"], exact.moments(4), rtol=1e-9)
    # The end of the two-batch support, as known from its closed form.
    assert found[1]["support"][0][1] == pytest.approx(0.82682557, abs=1e-8)


@pytest.mark.slow
def test_a_sampled_matrix_has_the_mean_of_the_law(capsys):
    (found,) = laws(
        capsys, "spectrum", "--aspect", "0.5", "--alpha", "0.3", "--batches", "2", "--sample", "100"
    )
    assert len(found["sampled_eigenvalues"]) == 100
    assert np.mean(found["sampled_eigenvalues"]) == pytest.approx(found["moments"][0], rel=0.05)
    (found,) = laws(capsys, *TWO_BATCH, "--sample", "100")
    assert np.mean(found["sampled_eigenvalues"]) == pytest.approx(found["moments"][0], rel=0.05)


def test_the_sketch_reaches_from_zero_to_the_top_of_the_density(capsys, tmp_path):
    arguments = ("spectrum", "--expression", "x*y + y*x", "--law", "x=sc(1)", "--law", "y=sc(1)")
    shown = run(capsys, *arguments, "--json", str(tmp_path / "law.json")).out
    (found,) = json.loads((tmp_path / "law.json").read_text())["laws"]
    assert f"{max(found['density']):.4g} │" in shown
    assert "\n        0 │" in shown


def test_the_csv_holds_the_density(capsys):
    lines = run(capsys, *TWO_BATCH, "--csv", "-").out.splitlines()
    assert lines[0] == "law,eigenvalue,density"
    assert len(lines) == 301


def test_laws_of_atoms_alone_are_shown(capsys, tmp_path):
    arguments = ("spectrum", "--expression", "p", "--law", "p=projection(0.25)")
    outcome = run(capsys, *arguments, "--plot", str(tmp_path / "atoms.png"))
    assert outcome.code == 0, outcome.err
    assert [line.split() for line in outcome.out.splitlines() if " at " in line] == [
        ["atoms", "0.75", "at", "0"],
        ["0.25", "at", "1"],
    ]
    assert run(capsys, *arguments, "--csv", "-").out == "law,eigenvalue,density\n"


@pytest.mark.parametrize("number", [10, 15, 20])
def test_laws_of_many_atoms_are_their_own_spectrum(capsys, number):
    law = f"x=discrete([{','.join(map(str, range(number)))}],[{','.join([repr(1 / number)] * number)}])"
    (found,) = laws(capsys, "spectrum", "--expression", "x", "--law", law)
    assert found["support"] == []
    assert found["moments"][0] == pytest.approx((number - 1) / 2)


@pytest.mark.slow
def test_several_intervals_are_drawn_with_a_gap(capsys, tmp_path):
    arguments = ("spectrum", "--expression", "d + s/10", "--law", "d=discrete([0,5])", "--law", "s=sc(1)")
    files = [str(tmp_path / name) for name in ("gap.png", "gap.json")]
    assert run(capsys, *arguments, "--plot", files[0], "--json", files[1]).code == 0
    (found,) = json.loads((tmp_path / "gap.json").read_text())["laws"]
    assert len(found["support"]) == 2


def test_a_negative_expression_is_not_an_option(capsys):
    (found,) = laws(capsys, "spectrum", "--expression", "-x", "--law", "x=mp(0.5)")
    assert found["moments"][0] == pytest.approx(-1.0)


@pytest.mark.parametrize("law", sorted(set(parser.LAWS.values()), key=lambda law: law.__name__))
def test_the_help_names_every_law_with_its_arguments(law):
    text = inspect.getdoc(spectrum).partition("For example")[0]
    described = dict(re.findall(r"(\w+)\(([^()]*)\)", text))
    (arguments,) = (described[name] for name in described if parser.LAWS.get(name) is law)
    taken = len([name for name in inspect.signature(law).parameters if not name.endswith("_")])
    assert len(arguments.split(",")) == taken, f"{law.__name__} takes {taken} arguments"
