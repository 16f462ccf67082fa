"""What tabs show: the Python lines really compute it, the programs run, and pictures say what they draw."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import reshuffle.page
from reshuffle import plotting
from reshuffle.page import own_data
from reshuffle.page.answers import message
from reshuffle.page.tabs import LINES, TABS
from reshuffle.page.workers import answer
from tests.looped import for_all

LIMIT, DATA, SHUFFLE, FREE = (tab.defaults for tab in TABS.values())


def executed(program):
    """The names that a program leaves behind."""
    names = {}
    exec(compile(program, "shown", "exec"), names)
    return names


@pytest.mark.slow
@for_all(
    "stage, changes",
    [
        (0, {}),
        (0, {"batches": 1, "noise": 0.0}),
        (0, {"aspect": 0.5, "alpha": 2.5}),
        (0, {"aspect": 1.0}),
        (0, {"batches": 4}),
        (0, {"batches": 2, "momentum": 0.5}),
        (0, {"batches": 1, "momentum": 0.9, "aspect": 0.1}),
        (1, {"batches": 3, "aspect": 3.0}),
    ],
)
def test_without_data_the_lines_compute_what_is_shown(stage, changes, capsys):
    shown = answer("limit", stage, LIMIT | changes, None)
    assert not shown.is_refusal, shown
    names = executed(shown.programs[LINES])
    risk, total = names["risk"], shown.charts[0].series[0]
    drawn = dict(zip(names["epochs"], risk.total, strict=True))
    for epoch, height in zip(total.x, total.y, strict=True):
        assert (math.inf if height is None else height) == pytest.approx(drawn[epoch], rel=1e-9)
    limit = getattr(names["limit"], "risk", names["limit"]).total
    assert shown.facts["Test error in the end"] == ("without bound" if limit > 1e300 else f"{limit:.4g}")
    best = shown.facts["Best epoch"]
    if "first look" not in shown.note and "The best epoch is" not in shown.note:
        assert best == ("never" if names["best"].epoch > 1e300 else f"{names['best'].epoch:g}")


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1])
def test_ways_to_shuffle_are_those_of_the_lines(stage, capsys):
    values = SHUFFLE | {"rows": 20, "columns": 4, "batches": 2, "epochs": 5, "alpha": 0.3}
    shown = answer("shuffling", stage, values, None)
    assert not shown.is_refusal, shown
    names = executed(shown.programs[LINES])
    rows = {row[0]: row for row in shown.tables[0].rows}
    place = shown.tables[0].headings.index("one run")
    for row in names["found"]:
        # A hundred runs, with fresh noise each, know it much worse than the exact answer.
        total = float(rows[row.name][place])
        assert total == pytest.approx(float(row.total.value), rel=1e-2 if stage else 0.5)
    scatter = shown.charts[0]
    scheme = scatter.y.names.index("samples reshuffled")
    third = scheme * 30 + 3
    assert scatter.series[0].y[third] == scheme
    assert [frame[0][third] for frame in scatter.frames] == pytest.approx(names["runs"][:, 3])


@pytest.mark.slow
def test_steps_that_diverge_are_named_with_the_step_to_stay_below():
    values = SHUFFLE | {"alpha": 4.0, "rows": 12, "columns": 60, "epochs": 100}
    assert "diverges" in answer("shuffling", 0, values, None).sentence
    # After twenty epochs test errors are 1e8 to 1e37: no scheme is better than another.
    shown = answer("shuffling", 0, SHUFFLE | {"alpha": 3.9}, None)
    assert shown.sentence == "This step diverges, however the rows are shuffled; take a smaller alpha."
    assert set(shown.facts.values()) == {"diverges"}
    shown = answer("limit", 0, LIMIT | {"alpha": 0.7}, None)
    assert shown.sentence == "This step diverges; stay below 0.6124."
    assert shown.facts["Test error in the end"] == "without bound"
    assert shown.charts[0].y.is_log


@pytest.mark.slow
def test_as_many_columns_as_rows_do_not_make_a_step_diverge():
    for stage in (0, 1):
        shown = answer("limit", stage, LIMIT | TABS["limit"].examples["stop early"], None)
        assert re.fullmatch(
            r"Stop after \d+ epochs, at .* In the end it grows without bound.", shown.sentence
        )
        assert not shown.charts[0].y.is_log
        # A hard edge does not hide the rest of the spectrum.
        assert shown.charts[-1].y.high < 10


@pytest.mark.slow
def test_curves_between_steps_are_those_of_the_limit():
    values = LIMIT | {"noise": 0.8}
    steps = answer("limit", 1, values, None).charts[1]
    assert steps.marks[0][0] == pytest.approx(0.6124, abs=1e-4)
    (positions, heights), exact = steps.morph, answer("limit", 0, values, None).charts[0]
    place = int(np.searchsorted(positions, 0.2))
    share = math.log(0.2 / positions[place - 1]) / math.log(positions[place] / positions[place - 1])
    for part in range(4):
        mixed = (1 - share) * np.array(heights[place - 1][part]) + share * np.array(heights[place][part])
        # What the browser draws until the server answers: within a hundredth of the axis.
        assert mixed == pytest.approx(np.array(exact.series[part].y), abs=0.01)


@pytest.mark.slow
@for_all("name", ["two mini-batches", "commutator", "a compression"])
def test_laws_are_those_of_the_lines(name, capsys):
    values = FREE | {"size": 60} | TABS["free"].examples[name]
    shown = answer("free_laws", 1, values, None)
    assert not shown.is_refusal, shown
    law = executed(shown.programs[LINES])["law"]
    cells = dict(shown.tables[0].rows)
    for number, end in enumerate([end for interval in law.support for end in interval], 1):
        assert float(cells[f"edge {number}"]) == pytest.approx(end, rel=1e-6)
    assert [float(cells[f"moment {k}"]) for k in range(1, 5)] == pytest.approx(law.moments(4), abs=1e-6)
    assert len(law.atoms) == sum(key.startswith("atom") for key in cells)


def test_names_that_python_keeps_for_itself_are_variables_all_the_same(capsys):
    values = FREE | {"expression": "lambda*2", "laws": "lambda = sc(1)", "size": 20}
    law = executed(answer("free_laws", 0, values, None).programs[LINES])["law"]
    assert law.support[0][1] == pytest.approx(4.0)


@for_all(
    "changes, reason",
    [
        ({"expression": ""}, "must not be empty"),
        ({"expression": "__import__('os').system('touch exploded')"}, "expected"),
        ({"expression": "x.__class__"}, "expected"),
        ({"expression": "x*y"}, "self-adjoint"),
        ({"expression": "x + z"}, "one of the variables x, y"),
        ({"expression": "7"}, "must have a variable"),
        ({"expression": "x/0"}, "divides by 0"),
        ({"expression": "(x+y)**6"}, "at most 60 terms"),
        ({"expression": "x**12"}, "at most 8 factors"),
        ({"expression": "(" * 60 + "x" + ")" * 60}, "nest deeper"),
        ({"laws": "x = mp(-1, 2)\ny = sc(1)"}, "atio must be"),
        ({"laws": "x = open('a')"}, "expected a law"),
        ({"laws": ""}, "needs the law of every variable"),
    ],
)
def test_what_is_no_expression_is_refused_in_a_sentence(tmp_path, monkeypatch, changes, reason):
    monkeypatch.chdir(tmp_path)
    for stage in (0, 1):
        found = answer("free_laws", stage, FREE | changes, None)
        assert found.is_refusal
        assert reason in found.sentence
        assert found.sentence.endswith(".")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@for_all("source", own_data.SETS)
def test_the_plan_shown_is_that_of_the_lines(source, capsys):
    shown = answer(
        "own_data", 1, DATA | {"source": source, "epochs": 50, "standardize": source != "wine"}, None
    )
    assert not shown.is_refusal, shown
    plan = executed(shown.programs[LINES])["plan"]
    assert f"learning rate {plan.best.step:.3g}, " in shown.sentence
    assert shown.facts["Test error (mean square)"] == f"{plan.test_error:.4g}"
    assert plan.notes
    assert shown.remarks[0].startswith("Expect a test error of ")
    told = [remark.lower().rstrip(".") for remark in shown.remarks[1 : 1 + len(plan.notes)]]
    words = {
        "the step ": "the learning rate ",
        "plan.accuracy": "the accuracy of reshuffle advise --classes",
        "plan with classes=true": "reshuffle advise --classes learns them",
    }
    notes = [note.lower() for note in plan.notes]
    for python, page in words.items():
        notes = [note.replace(python, page) for note in notes]
    assert told == notes


@pytest.mark.slow
@for_all("tab", TABS.values())
def test_every_chart_has_words_and_numbers_that_json_takes(tab):
    shown = answer(tab.module, 0, tab.defaults, None)
    assert shown.charts
    for chart in shown.charts:
        assert any(sign.isdigit() for sign in chart.words)
        for series in chart.series:
            assert len(series.x) - len(series.y) == (series.kind == "bars")
    sent = message(shown, tab)
    assert json.loads(json.dumps(sent, allow_nan=False))["charts"]
    identities = [part.partition('"')[0] for part in sent["html"].split(' id="')[1:]]
    assert len(identities) == len(set(identities))


def test_warnings_of_the_library_become_remarks(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a;y\n" + "".join(f"{k},5;{k * k % 7},25\n" for k in range(12)))
    shown = answer("own_data", 1, DATA | {"source": "upload"}, str(path))
    assert any("decimal commas" in remark for remark in shown.remarks)
    assert 'decimal=","' in shown.programs[LINES]


def test_pure_noise_is_not_worth_training(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,c,y", *(",".join(f"{value:.4f}" for value in row) for row in rng.normal(size=(80, 4)))]
    (tmp_path / "noise.csv").write_text("\n".join(lines))
    shown = answer("own_data", 0, DATA | {"source": "upload"}, str(tmp_path / "noise.csv"))
    assert shown.sentence.startswith("Training gains nothing that is sure: the mean of y predicts")
    assert answer("own_data", 0, DATA, None).sentence.startswith("Train with ")


def test_colours_of_the_page_are_those_of_the_library():
    sheet = (Path(reshuffle.page.__file__).parent / "www" / "page.css").read_text()
    given = dict(zip(("first", "second", "third", "fourth", "fifth"), plotting.COLOURS, strict=False))
    for name, colour in {**given, "grey": plotting.GREY}.items():
        parts = bytes.fromhex(colour[1:])
        for other, share in ((0, 0.2), (255, 0.45)):
            mixed = bytes(round((1 - share) * part + share * other) for part in parts).hex()
            assert f"--{name}: #{mixed};" in sheet


def test_what_nobody_expects_is_a_sentence_too():
    sentence = answer("limit", 0, {}, None).sentence
    assert sentence.endswith(".")
    assert "Traceback" not in sentence
