"""Laws that take long show it: on standard error, after two seconds of an injected clock, and never when quick."""

import itertools
from contextlib import contextmanager
from functools import partial

import numpy as np

from reshuffle import _progress, asymptotics, free
from reshuffle.free import progress
from tests.looped import for_all

X, Y = free.variables(free.MarchenkoPastur(0.5), free.Semicircle())
QUESTIONS = {
    "density": lambda: free.spectrum(X * Y + Y * X).density([0.1, 0.2]),
    "cauchy": lambda: free.spectrum(X * Y + Y * X).cauchy(0.1 + 0.1j),
    "support": lambda: free.spectrum(X + Y).support,
    "weighted": lambda: free.spectrum(X + Y).weighted(X).cauchy(1j),
    "brown": lambda: free.brown(X + 1j * Y).density([0.1, 0.2j]),
    "convolution": lambda: free.add(free.Uniform(0, 1), free.Semicircle()).density(0.2),
    "convolved support": lambda: free.additive_power(free.Semicircle(), 1.5).support,
    "batch density": lambda: asymptotics.batch_spectrum(0.5, 0.2, 3).density(0.3),
    "batch support": lambda: asymptotics.batch_spectrum(0.5, 0.2, 3).support,
    "learning curve": lambda: asymptotics.learning_curve(0.5, 0.2, 3).risk([1, 10]),
    "best epoch": lambda: asymptotics.learning_curve(0.5, 0.2, 3).best_epoch(),
    "stability": lambda: asymptotics.learning_curve(0.5, 0.2, 3).stability,
    "critical alpha": lambda: asymptotics.critical_alpha(0.5, 3),
    "best recipe": lambda: asymptotics.best_recipe(0.5, batches=3, epochs=1),
}


@for_all("question", QUESTIONS)
def test_what_may_take_long_is_shown_once_and_in_steps(question, monkeypatch):
    shown, steps = [], []

    @contextmanager
    def display(what):
        shown.append(what)
        yield lambda: steps.append(what)

    monkeypatch.setattr(progress, "display", display)
    QUESTIONS[question]()
    assert shown
    assert set(steps) == set(shown)


def clock(monkeypatch, *times):
    """Let the clock of the module show these seconds, the last from then on."""
    passing = itertools.chain(times, itertools.repeat(times[-1]))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(passing)))


def work(steps):
    with progress.working("a law"):
        for _ in range(steps):
            with progress.working("a part of it"):
                progress.step()


def test_a_plain_line_comes_after_two_seconds_and_now_and_then_later(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 2.0)
    monkeypatch.setattr(progress, "display", progress.lines)
    # It begins at 0 s, and steps end at these seconds.
    clock(monkeypatch, 0, 1, 2, 3, 8, 12, 14)
    work(6)
    assert capsys.readouterr() == ("", "reshuffle: 3 s, a law: step 3\nreshuffle: 14 s, a law: step 6\n")


def test_a_terminal_has_one_line_that_is_cleared(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 2.0)
    monkeypatch.setattr(progress, "display", progress.lines)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    clock(monkeypatch, 0, 1, 3, 3.01, 4)
    work(4)
    clear = "\r\x1b[K"
    shown = f"{clear}reshuffle: 3 s, a law: step 2{clear}reshuffle: 4 s, a law: step 4{clear}"
    assert capsys.readouterr() == ("", shown)


def test_limits_and_laws_share_the_lines_of_loops(monkeypatch, capsys):
    assert isinstance(progress.display, partial)
    assert progress.display.func is _progress.ticking
    monkeypatch.setattr(_progress, "PATIENCE", 2.0)
    monkeypatch.setattr(_progress, "lines", _progress.Lines())
    clock(monkeypatch, 0, 0, 5)
    for _ in _progress.track(range(1), 1, "batches"):
        assert np.isfinite(free.spectrum(X + Y).density(0.1))
    error = capsys.readouterr().err
    assert error == "reshuffle: 5 s, batches 0 of 1; the law of x1 + x2: step 1\n"
    assert _progress.lines.open == []
