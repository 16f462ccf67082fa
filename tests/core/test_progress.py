"""The progress bar: on standard error, when it takes long, and never in the way."""

import itertools

import pytest

from reshuffle._core import progress


@pytest.mark.parametrize("show", [None, False, True])
def test_every_item_passes_through(show):
    assert list(progress.track(range(5), 5, "counting", show)) == [0, 1, 2, 3, 4]


def test_a_bar_is_drawn_on_standard_error_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    clock = itertools.count(0, 3)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    list(progress.track(range(3), 3, "counting", True))
    printed = capsys.readouterr()
    assert "counting" in printed.err
    assert printed.out == ""


def test_nothing_is_drawn_when_it_is_quick_or_not_a_terminal(capsys):
    list(progress.track(range(3), 3, "counting", None))
    assert capsys.readouterr() == ("", "")


def test_bars_inside_a_display_join_it_and_leave_when_they_are_done(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.display() as outer:
        outer.add_task("figures", total=2)
        for _ in progress.track(range(3), 3, "simulating", True):
            assert [task.description for task in outer.tasks] == ["figures", "simulating"]
        assert [task.description for task in outer.tasks] == ["figures"]
        with progress.display() as inner:
            assert inner is outer
    with progress.display() as another:
        assert another is not outer
