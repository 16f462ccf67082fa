"""The progress bar: on standard error, when it takes long, and never in the way."""

import itertools

from reshuffle import _progress


def test_a_bar_is_drawn_on_standard_error_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    patience(monkeypatch)
    clock = itertools.count(0, 3)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: float(next(clock)))
    list(_progress.track(range(3), 3, "counting", True))
    printed = capsys.readouterr()
    assert "counting" in printed.err
    assert printed.out == ""


def test_bars_inside_a_display_join_it_and_leave_when_they_are_done(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _progress.display() as outer:
        outer.add_task("figures", total=2)
        for _ in _progress.track(range(3), 3, "simulating", True):
            assert [task.description for task in outer.tasks] == ["figures", "simulating"]
        assert [task.description for task in outer.tasks] == ["figures"]
        with _progress.display() as inner:
            assert inner is outer
    with _progress.display() as another:
        assert another is not outer


def clock(monkeypatch, *times):
    """Let the clock of the module show these seconds, the last from then on."""
    passing = itertools.chain(times, itertools.repeat(times[-1]))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: float(next(passing)))


def patience(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 2.0)
    monkeypatch.setattr(_progress, "lines", _progress.Lines())


def test_the_library_prints_a_plain_line_where_there_is_no_terminal_and_it_takes_long(monkeypatch, capsys):
    patience(monkeypatch)
    # It begins at 0 s, and the parts end at these seconds.
    clock(monkeypatch, 0, 1, 2, 3, 8, 12, 14)
    list(_progress.track(range(6), 6, "counting"))
    assert capsys.readouterr() == ("", "reshuffle: 3 s, counting 3 of 6\nreshuffle: 14 s, counting 6 of 6\n")


def test_loops_inside_each_other_share_a_line(monkeypatch, capsys):
    patience(monkeypatch)
    clock(monkeypatch, 0, 1, 12)
    for _ in _progress.track(range(1), 1, "points"):
        list(_progress.track(iter("ab"), None, "rows"))
    assert capsys.readouterr().err == "reshuffle: 12 s, points 0 of 1; rows 1\n"
    assert _progress.lines.open == []


def test_a_command_has_a_line_after_two_seconds_before_the_first_part_of_a_loop_is_done(monkeypatch, capsys):
    patience(monkeypatch)
    _progress.lines.command = 0.0
    for _ in _progress.track(range(1), 1, "points"):
        begin = _progress.lines.open[0].begin
        _progress.lines.command = begin - 1.0
        for later in (0.5, 3.0, 4.0, 13.5):
            monkeypatch.setattr(_progress.time, "monotonic", lambda at=begin + later: at)
            _progress.lines.of_command()
    assert capsys.readouterr().err == "reshuffle: 4 s, points 0 of 1\nreshuffle: 14 s, points 0 of 1\n"
