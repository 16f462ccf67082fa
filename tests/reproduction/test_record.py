"""Figures on disk: a record stands for its own files only, whatever kills a writer and whoever writes beside it."""

import json
import os

import pytest

from paper import figure as record
from reshuffle import plotting

NAME = "small-figure"
OLD = {"size": 3, "seed": 2}
NEW = OLD | {"seed": 9}
FILES = tuple(f"small_figure.{kind}" for kind in (*record.KINDS, "json"))


class KilledError(BaseException):
    """What stands for a kill: nothing catches it."""


def small(size, seed):
    """A figure that is drawn in no time."""
    picture = plotting.figure(0.8, 0.5)
    values = [seed * number for number in range(size)]
    picture.add_subplot().plot(values)
    claim = record.Claim("here", "it is so", f"it is {seed}", False, "it is not")
    return record.Result(picture, {"value": values}, [claim])


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch):
    """Records of the same figure are then equal."""
    monkeypatch.setattr(record.time, "perf_counter", lambda: 0.0)


def write(folder, inputs):
    return record.write(folder, NAME, record.Figure(small, "Small", "A caption.", OLD), inputs)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def between_steps(patch, step, happens):
    """Let something happen once, just before the file number `step` takes its place."""
    place, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == step + 1:
            happens()
        place(source, target)

    patch.setattr(os, "replace", replace)


def test_a_file_may_be_read_by_whom_the_umask_allows(tmp_path):
    """Temporary files of the standard library are for their owner alone, and stay so when they are renamed."""
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    record.replace(tmp_path / "replaced", b"whole")
    assert (tmp_path / "replaced").stat().st_mode == plain.stat().st_mode


def test_a_disk_that_is_full_leaves_the_old_figure(tmp_path, monkeypatch):
    written = write(tmp_path, OLD)
    before = contents(tmp_path)
    path = type(tmp_path)

    def full(self, content):
        raise OSError(28, "No space left on device", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, NEW)
    assert contents(tmp_path) == before
    assert record.read(tmp_path, NAME, OLD) == written


def test_what_was_written_is_read_whatever_an_earlier_kill_left_behind(tmp_path):
    for name in FILES:
        (tmp_path / f".{name}.part").write_bytes(b"half")
    written = write(tmp_path, OLD)
    assert record.read(tmp_path, NAME, OLD) == written
    assert set(FILES) <= set(contents(tmp_path))
    assert record.read(tmp_path, NAME, NEW) is None


@pytest.mark.slow
@pytest.mark.parametrize("step", range(len(FILES)))
def test_a_kill_and_other_writers_between_two_files(tmp_path, step, monkeypatch):
    """Old inputs with some new pictures are neither the old figure nor the new one."""
    folders = [tmp_path / name for name in ("killed", "same", "old", "new", "mixed")]
    for folder in folders:
        folder.mkdir()
    killed, same, old, new, mixed = folders
    written, _, _ = write(killed, OLD), write(old, OLD), write(new, NEW)

    def kill():
        raise KilledError

    with monkeypatch.context() as patch:
        between_steps(patch, step, kill)
        with pytest.raises(KilledError):
            write(killed, NEW)
    assert record.read(killed, NAME, NEW) is None
    assert record.read(killed, NAME, OLD) == (written if step == 0 else None)
    # The second writer writes all its files between two of the first: none dies, and both mean the same figure.
    with monkeypatch.context() as patch:
        between_steps(patch, step, lambda: write(same, OLD))
        assert write(same, OLD) == record.read(same, NAME, OLD) == written
    assert set(contents(same)) == set(FILES)
    # Of two figures one may have to be computed again; what is read has the files that were written for it.
    with monkeypatch.context() as patch:
        between_steps(patch, step, lambda: write(mixed, NEW))
        write(mixed, OLD)
    for inputs, folder in ((OLD, old), (NEW, new)):
        if record.read(mixed, NAME, inputs) is not None:
            assert contents(mixed) == contents(folder)


@pytest.mark.slow
def test_what_is_damaged_or_out_of_date_does_not_count_as_finished(tmp_path):
    written = write(tmp_path, OLD)
    kept = contents(tmp_path)
    stored = json.loads(kept["small_figure.json"])
    damages = [lambda content: b"", lambda content: content[:-1], lambda content: b" " + content[1:]]
    damaged = {name: [one(kept[name]) for one in damages] for name in FILES[:-1]}
    without = {key: value for key, value in stored.items() if key != "digests"}
    others = [stored | {"inputs": {}}, stored | {"version": "0.0"}, without, [1, 2]]
    damaged["small_figure.json"] = [
        kept["small_figure.json"][:50],
        *(json.dumps(one).encode() for one in others),
    ]
    for name, versions in damaged.items():
        path = tmp_path / name
        for content in versions:
            path.write_bytes(content)
            assert record.read(tmp_path, NAME, OLD) is None, (name, content[:60])
        path.unlink()
        assert record.read(tmp_path, NAME, OLD) is None, name
        path.mkdir()
        assert record.read(tmp_path, NAME, OLD) is None, name
        path.rmdir()
        path.write_bytes(kept[name])
        assert record.read(tmp_path, NAME, OLD) == written
