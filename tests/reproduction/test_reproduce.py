"""`reshuffle reproduce`: files, report, what is kept, what an interruption leaves."""

import dataclasses
import json
import re
from functools import cache

import pytest

from reshuffle import paper, plotting
from reshuffle.paper import figure, report
from tests.cli.terminal import run
from tests.reproduction.test_figures import SMALL

CHOSEN = ("two-batch", "cross-term", "fixed-dimension")


@cache
def computed(compute, *inputs):
    """The numbers of a figure, once for all tests."""
    return compute(**dict(inputs))


def small_picture(numbers):
    """Drawn in no time; test_figures has the real ones."""
    picture = plotting.figure(0.8, 0.5)
    picture.add_subplot().plot(numbers.epochs, numbers.exact)
    return picture


@pytest.fixture(autouse=True)
def small_figures(monkeypatch):
    """Three of the figures, at small sizes."""
    load = paper.load

    def small(name):
        figure = load(name)
        return dataclasses.replace(
            figure,
            full=SMALL[name],
            quick=SMALL[name] | {"seed": 9},
            compute=lambda **inputs: computed(figure.compute, *inputs.items()),
            draw=small_picture,
        )

    monkeypatch.setattr(paper, "NAMES", CHOSEN)
    monkeypatch.setattr(paper, "load", small)


def interrupting(monkeypatch, name):
    """Let Ctrl-C be pressed while a figure is computed."""
    load = paper.load

    def compute(**_):
        raise KeyboardInterrupt

    def interrupted(wanted):
        return dataclasses.replace(load(wanted), compute=compute) if wanted == name else load(wanted)

    monkeypatch.setattr(paper, "load", interrupted)


@pytest.mark.slow
def test_every_figure_leaves_its_files_and_the_report(capsys, tmp_path):
    outcome = run(capsys, "reproduce", "--out", str(tmp_path / "deep" / "out"))
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "deep" / "out"
    expected = {
        f"{name.replace('-', '_')}.{kind}" for name in CHOSEN for kind in ("png", "svg", "csv", "json")
    }
    assert {path.name for path in folder.iterdir()} == expected | {"report.html"}
    assert "8 claims: 4 agree, 4 do not" in outcome.out
    assert f"Open {folder / 'report.html'}" in outcome.out


@pytest.mark.slow
def test_the_report_needs_nothing_but_itself(capsys, tmp_path):
    run(capsys, "reproduce", "--out", str(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 3
    targets = re.findall(r'(?:src|href)="([^"]*)"', page)
    outside = [target for target in targets if not target.startswith(("data:", "#"))]
    assert all(
        re.fullmatch(r"\w+\.(png|svg|csv)", target) and (tmp_path / target).exists() for target in outside
    )
    assert "@import" not in page
    assert "<script" not in page
    for claim in paper.load("two-batch").claims(paper.load("two-batch").compute(**SMALL["two-batch"])):
        assert report.escape(claim.computed) in page
    for word in ("agrees?", "Corrections", "Seeds, versions, times", "numpy", "outside the assumption"):
        assert word in page
    assert "quick run" not in page


@pytest.mark.slow
def test_a_quick_run_says_so_and_does_not_pass_for_a_full_one(capsys, tmp_path):
    assert run(capsys, "reproduce", "two-batch", "--out", str(tmp_path), "--quick").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "This is a quick run" in page
    assert "Not computed yet:</strong> cross-term, fixed-dimension" in page
    again = run(capsys, "reproduce", "two-batch", "--out", str(tmp_path))
    assert " kept " not in again.out


@pytest.mark.slow
def test_finished_figures_are_kept(capsys, tmp_path):
    run(capsys, "reproduce", "two-batch", "--out", str(tmp_path))
    before = (tmp_path / "two_batch.png").stat().st_mtime_ns
    outcome = run(capsys, "reproduce", "--out", str(tmp_path))
    assert outcome.out.count(" kept ") == 1
    assert (tmp_path / "two_batch.png").stat().st_mtime_ns == before
    assert "Not computed yet" not in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_finished_and_the_next_run_goes_on(capsys, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupting(patch, "cross-term")
        outcome = run(capsys, "reproduce", "--out", str(tmp_path))
    assert outcome.code == 130
    assert outcome.err.count("\n") == 1
    assert "finished figures are kept" in outcome.err
    assert "Traceback" not in outcome.err
    assert {path.suffix for path in tmp_path.glob("two_batch.*")} == {".png", ".svg", ".csv", ".json"}
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".*"))
    assert "Not computed yet:</strong> cross-term, fixed-dimension" in (tmp_path / "report.html").read_text()
    outcome = run(capsys, "reproduce", "--out", str(tmp_path))
    assert outcome.code == 0
    assert outcome.out.count(" kept ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut off", "other inputs", "other version", "no picture", "not a record"])
def test_what_is_damaged_or_out_of_date_is_computed_again(capsys, tmp_path, damage):
    run(capsys, "reproduce", "two-batch", "--out", str(tmp_path))
    path = tmp_path / "two_batch.json"
    stored = json.loads(path.read_text())
    if damage == "cut off":
        path.write_text(path.read_text()[:50])
    elif damage == "other inputs":
        path.write_text(json.dumps(stored | {"inputs": {}}))
    elif damage == "other version":
        path.write_text(json.dumps(stored | {"version": "0.0"}))
    elif damage == "no picture":
        (tmp_path / "two_batch.svg").unlink()
    else:
        path.write_text("[1, 2]")
    assert figure.read(tmp_path, "two-batch", SMALL["two-batch"]) is None
    assert " kept " not in run(capsys, "reproduce", "two-batch", "--out", str(tmp_path)).out


@pytest.mark.slow
def test_the_same_inputs_give_the_same_files(capsys, tmp_path):
    for folder in ("one", "two"):
        computed.cache_clear()
        run(capsys, "reproduce", "cross-term", "--out", str(tmp_path / folder))
    for kind in figure.KINDS:
        one, two = ((tmp_path / folder / f"cross_term.{kind}").read_bytes() for folder in ("one", "two"))
        assert one == two, kind
