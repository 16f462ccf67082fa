"""Commands that take long say so on standard error, also where there is no terminal."""

from threading import Event

from reshuffle import _progress
from reshuffle.cli import console, curves, main
from reshuffle.cli.console import InputError, hush, watched


def _speaking(monkeypatch):
    """Lines are due at once; an event tells that one was printed."""
    printed = Event()

    class Told(_progress.Lines):
        def of_command(self) -> None:
            super().of_command()
            if self._last > 0:
                printed.set()

    monkeypatch.setattr(_progress, "PATIENCE", -1.0)
    monkeypatch.setattr(_progress, "PATIENCE_OUTSIDE", -1.0)
    monkeypatch.setattr(_progress, "lines", Told())
    monkeypatch.setattr(console, "_INTERVAL", 0.001)
    return printed


def test_a_line_is_printed_while_one_long_call_lasts(monkeypatch, capsys):
    printed = _speaking(monkeypatch)
    with watched():
        assert printed.wait(60)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "reshuffle: 0 s, still working\n"
    assert _progress.lines.command is None


def test_the_line_names_the_open_loop(monkeypatch, capsys):
    printed = _speaking(monkeypatch)
    for _ in _progress.track(range(1), 1, "reading"):
        with watched():
            assert printed.wait(60)
    assert capsys.readouterr().err == "reshuffle: 0 s, reading 0 of 1\n"


def test_nothing_is_printed_once_it_is_hushed(monkeypatch, capsys):
    monkeypatch.setattr(console, "_INTERVAL", 1e9)
    with watched():
        _speaking(monkeypatch)
        hush()
    assert capsys.readouterr() == ("", "")


def test_every_command_is_watched(monkeypatch, capsys):
    printed = _speaking(monkeypatch)

    def slow(options):
        assert printed.wait(60)
        raise InputError("that is enough.")

    monkeypatch.setattr(curves, "pose", slow)
    assert main(["stability", "--n", "5", "--p", "2"]) == 2
    assert capsys.readouterr().err == "reshuffle: 0 s, still working\nreshuffle: that is enough.\n"
