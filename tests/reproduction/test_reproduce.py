"""`reshuffle reproduce`: files, report, what is kept, what an interruption leaves."""

import multiprocessing
import re
from html import escape
from pathlib import Path

import pytest

import paper
from paper import figure, reproduce
from reshuffle import plotting
from reshuffle.cli import launch
from tests.cli.terminal import run

CHOSEN = ("two-batch", "cross-term", "fixed-dimension")
ALONE = ("--jobs", "1")
"""In this process, where figures can be replaced."""
CLAIMS = [
    figure.Claim("Section 1", "it is so", "0.5 < 1", True),
    figure.Claim("Section 2", "and so", "0.5 > 1", False, "and not so, by <much>"),
]


def small(seed):
    """Drawn in no time; test_figures has the real ones."""
    picture = plotting.figure(0.8, 0.5)
    picture.add_subplot().plot([seed, 1.0])
    return figure.Result(picture, {"epoch": [0, 1], "risk": [float(seed), 1.0]}, CLAIMS)


@pytest.fixture(autouse=True)
def small_figures(monkeypatch):
    """Three figures, in the places of all others."""
    made = {
        name: figure.Figure(small, f"The {name}", "As it is.", {"seed": 0}, {"seed": 9}) for name in CHOSEN
    }
    monkeypatch.setattr(paper, "FIGURES", made)


def interrupted(**_):
    """Let Ctrl-C be pressed while a figure is computed."""
    raise KeyboardInterrupt


@pytest.mark.slow
def test_every_figure_leaves_its_files_and_a_report_that_needs_nothing_but_itself(capsys, tmp_path):
    folder = tmp_path / "deep" / "out"
    outcome = run(capsys, "reproduce", "--out", str(folder), *ALONE)
    assert outcome.code == 0, outcome.err
    expected = {
        f"{name.replace('-', '_')}.{kind}" for name in CHOSEN for kind in ("png", "svg", "csv", "json")
    }
    assert {path.name for path in folder.iterdir()} == expected | {"report.html"}
    assert "6 claims: 3 agree, 3 corrected." in outcome.out
    assert f"Open {folder / 'report.html'}" in outcome.out
    assert (folder / "two_batch.csv").read_text() == "epoch,risk\n0,0.0\n1,1.0\n"
    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 3
    targets = re.findall(r'(?:src|href)="([^"]*)"', page)
    outside = [target for target in targets if not target.startswith(("data:", "#"))]
    assert all(
        re.fullmatch(r"\w+\.(png|svg|csv)", target) and (folder / target).exists() for target in outside
    )
    assert "@import" not in page
    assert "<script" not in page
    for claim in CLAIMS:
        assert escape(claim.computed) in page
    for word in ("agrees?", "Corrections", "Seeds, versions, times", "numpy", "and not so, by &lt;much&gt;"):
        assert word in page
    assert "quick run" not in page


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_finished_and_the_next_run_goes_on(capsys, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(paper.FIGURES, "cross-term", figure.Figure(interrupted, "", "", {"seed": 0}))
        outcome = run(capsys, "reproduce", "--out", str(tmp_path), *ALONE)
    assert outcome.code == 130
    assert outcome.err.count("\n") == 1
    assert "finished figures are in" in outcome.err
    assert "Traceback" not in outcome.err
    assert {path.suffix for path in tmp_path.glob("two_batch.*")} == {".png", ".svg", ".csv", ".json"}
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".*"))
    assert "Not computed yet:</strong> cross-term, fixed-dimension" in (tmp_path / "report.html").read_text()
    outcome = run(capsys, "reproduce", "--out", str(tmp_path), *ALONE)
    assert outcome.code == 0
    assert outcome.out.count(" kept ") == 1


@pytest.mark.slow
def test_figures_are_computed_side_by_side_and_an_interruption_ends_all_processes(
    capsys, tmp_path, monkeypatch
):
    """In processes of their own, where the figures are the real ones."""
    names = "fixed-dimension", "two-batch"
    monkeypatch.undo()
    with monkeypatch.context() as patch:
        patch.setattr(reproduce, "wait", lambda *_, **__: interrupted())
        assert run(capsys, "reproduce", *names, "--out", str(tmp_path), "--quick", "--jobs", "2").code == 130
    assert multiprocessing.active_children() == []
    outcome = run(capsys, "reproduce", *names, "--out", str(tmp_path), "--quick", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    assert "7 claims: 4 agree, 3 corrected." in outcome.out
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_an_installed_package_says_where_the_figures_are(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "CHECKOUT", Path(tmp_path))
    outcome = run(capsys, "reproduce", "--out", str(tmp_path / "out"))
    assert outcome.code == 2
    assert "in the folder paper/ of its repository" in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_same_inputs_give_the_same_files(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        figure.write(tmp_path / folder, "cross-term", paper.FIGURES["cross-term"], {"seed": 3})
    for kind in figure.KINDS:
        one, two = ((tmp_path / folder / f"cross_term.{kind}").read_bytes() for folder in ("one", "two"))
        assert one == two, kind


@pytest.mark.slow
def test_finished_figures_are_kept_and_quick_or_damaged_ones_are_not(capsys, tmp_path):
    two = ("reproduce", "two-batch", "--out", str(tmp_path))
    assert run(capsys, *two, "--quick").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "This is a quick run" in page
    assert "Not computed yet:</strong> cross-term, fixed-dimension" in page
    assert " kept " not in run(capsys, *two).out
    (tmp_path / "two_batch.svg").unlink()
    assert " kept " not in run(capsys, *two).out
    before = (tmp_path / "two_batch.png").stat().st_mtime_ns
    outcome = run(capsys, "reproduce", "--out", str(tmp_path), *ALONE)
    assert outcome.out.count(" kept ") == 1
    assert (tmp_path / "two_batch.png").stat().st_mtime_ns == before
    assert "Not computed yet" not in (tmp_path / "report.html").read_text()
