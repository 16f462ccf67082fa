"""What `--plot` draws: all of the mass, and no half batches."""

import numpy as np
import pytest

from reshuffle.cli import render
from tests.cli.terminal import run


@pytest.fixture
def drawn(monkeypatch, capsys, tmp_path):
    """Run a command and get the axes of its picture."""

    def draw(*arguments):
        pictures = []

        def deliver(answer, options):
            pictures.append(answer.picture)
            pictures[-1].savefig(options.plot)
            pictures[-1].answer = answer

        monkeypatch.setattr(render, "deliver", deliver)
        outcome = run(capsys, *arguments, "--plot", str(tmp_path / "picture.png"))
        assert outcome.code == 0, outcome.err
        return pictures[0].axes[0], pictures[0].answer

    return draw


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["1,2,3", "2", "1", "1,2,4,8"])
def test_batches_are_whole_on_the_axis(drawn, batches):
    ax, _ = drawn("stability", "--n", "24", "--p", "30", "--batches", batches)
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert ticks
    assert all(tick == round(tick) for tick in ticks)


@pytest.mark.slow
def test_a_law_over_decades_is_drawn_whole_in_picture_and_sketch(drawn):
    """Three quarters of its mass were above the top of both."""
    laws = [argument for name in "xyz" for argument in ("--law", f"{name}=mp(0.5, 1)")]
    ax, answer = drawn("spectrum", "--expression", "x*y*z*y*x", *laws, "--sample", "50")
    t, y = ax.get_lines()[0].get_data()
    assert y.max() < ax.get_ylim()[1]
    assert np.trapezoid(y, np.log10(t)) == pytest.approx(1, abs=2e-3)
    (series,) = answer.series
    assert np.trapezoid(series.y, series.x) == pytest.approx(1, abs=2e-3)
    assert answer.xlabel == "log10 of the eigenvalue"


@pytest.mark.slow
def test_hard_edges_leave_the_picture_and_the_rest_stays(drawn):
    ax, answer = drawn("spectrum", "--expression", "x", "--law", "x=arcsine(-1, 1)")
    t, y = ax.get_lines()[0].get_data()
    top = ax.get_ylim()[1]
    assert np.trapezoid(np.minimum(y, top), t) > 0.9
    np.testing.assert_allclose(answer.series[0].x[[0, -1]], [-1, 1], rtol=1e-12)
    assert np.isfinite(answer.series[0].y).all()
    assert render.csv_text(answer).splitlines()[1].endswith(",inf")
