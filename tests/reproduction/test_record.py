"""Figures on disk: a record stands for its own files only, whatever kills a writer and whoever writes beside it."""

import dataclasses
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


@pytest.fixture
def between_steps(monkeypatch):
    """Let something happen once, just before the file number `step` takes its place."""

    def arrange(step, happens):
        place, calls = os.replace, []

        def replace(source, target):
            calls.append(target)
            if len(calls) == step + 1:
                happens()
            place(source, target)

        monkeypatch.setattr(os, "replace", replace)

    return arrange


def test_what_was_written_is_read(tmp_path):
    written = write(tmp_path, OLD)
    assert record.read(tmp_path, NAME, OLD) == written
    assert set(contents(tmp_path)) == set(FILES)
    assert record.read(tmp_path, NAME, NEW) is None


@pytest.mark.slow
@pytest.mark.parametrize("step", range(len(FILES)))
def test_a_kill_between_two_files_leaves_nothing_that_passes_for_finished(tmp_path, between_steps, step):
    """Old inputs with some new pictures are neither the old figure nor the new one."""
    written = write(tmp_path, OLD)

    def kill():
        raise KilledError

    between_steps(step, kill)
    with pytest.raises(KilledError):
        write(tmp_path, NEW)
    assert record.read(tmp_path, NAME, NEW) is None
    assert record.read(tmp_path, NAME, OLD) == (written if step == 0 else None)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(len(FILES)))
def test_two_writers_of_the_same_figure_leave_it_finished(tmp_path, between_steps, step):
    """The second one writes all its files between two of the first: none dies, and both mean the same figure."""
    between_steps(step, lambda: write(tmp_path, OLD))
    written = write(tmp_path, OLD)
    assert record.read(tmp_path, NAME, OLD) == written
    assert set(contents(tmp_path)) == set(FILES)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(len(FILES)))
def test_two_writers_of_different_figures_are_not_mixed(tmp_path, between_steps, step):
    """One of them may have to be computed again; what is read has the files that were written for it."""
    both = {}
    for inputs in (OLD, NEW):
        folder = tmp_path / str(inputs["seed"])
        folder.mkdir()
        write(folder, inputs)
        both[inputs["seed"]] = contents(folder)
    shared = tmp_path / "shared"
    shared.mkdir()
    between_steps(step, lambda: write(shared, NEW))
    write(shared, OLD)
    for inputs in (OLD, NEW):
        if record.read(shared, NAME, inputs) is not None:
            assert contents(shared) == both[inputs["seed"]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", record.KINDS)
@pytest.mark.parametrize("damage", ["empty", "cut off", "changed", "missing", "a folder"])
def test_a_damaged_file_does_not_count_as_finished(tmp_path, kind, damage):
    write(tmp_path, OLD)
    path = tmp_path / f"small_figure.{kind}"
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes({"empty": b"", "cut off": content[:-1], "changed": b" " + content[1:]}[damage])
    assert record.read(tmp_path, NAME, OLD) is None


def test_what_an_earlier_kill_left_behind_is_in_nobody_s_way(tmp_path):
    for name in FILES:
        (tmp_path / f".{name}.part").write_bytes(b"half")
    written = write(tmp_path, OLD)
    assert record.read(tmp_path, NAME, OLD) == written


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


def test_a_record_without_digests_is_of_another_age(tmp_path):
    written = write(tmp_path, OLD)
    stored = dataclasses.asdict(written)
    del stored["digests"]
    (tmp_path / "small_figure.json").write_text(record.json.dumps(stored))
    assert record.read(tmp_path, NAME, OLD) is None
