"""What tabs show: the Python lines really compute it, the programs run, and pictures say what they draw."""

import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

import reshuffle as rs
from reshuffle.page import address
from reshuffle.page.drawing import inline
from reshuffle.page.page_elements import body, comma_separated
from reshuffle.page.tab import Refused, Shown
from reshuffle.page.tabs import TABS, free_laws, own_data, ways_to_shuffle, without_data
from reshuffle.page.worker import answer

LIMIT = {field.name: field.default for field in without_data.TAB.fields}
DATA = {field.name: field.default for field in own_data.TAB.fields}
SHUFFLE = {field.name: field.default for field in ways_to_shuffle.TAB.fields}
FREE = {field.name: field.default for field in free_laws.TAB.fields}


def executed(program):
    """The names that a program leaves behind."""
    names = {}
    exec(compile(program, "shown", "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("quick", {}),
        ("quick", {"batches": 1, "noise": 0.0}),
        ("quick", {"aspect": 0.5, "alpha": 2.5}),
        ("quick", {"aspect": 1.0}),
        ("quick", {"batches": 4}),
        ("quick", {"batches": 2, "momentum": 0.5}),
        ("quick", {"batches": 1, "momentum": 0.9, "aspect": 0.1}),
        ("thorough", {"batches": 3, "aspect": 3.0}),
    ],
)
def test_without_data_the_lines_compute_what_is_shown(stage, changes, capsys):
    shown = answer("without_data", stage, LIMIT | changes, None)
    assert isinstance(shown, Shown), shown
    names = executed(shown.python)
    risk, columns = names["risk"], shown.pictures[0].columns
    drawn = dict(zip(names["epochs"], risk.total, strict=True))
    for epoch, total in zip(columns["epoch"], columns["total"], strict=True):
        assert total == pytest.approx(drawn[epoch], rel=1e-9)
    limit = getattr(names["limit"], "risk", names["limit"]).total
    assert shown.facts["Test error in the end"] == ("without bound" if limit > 1e300 else f"{limit:.4g}")
    best = shown.facts["Best epoch"]
    if "first look" not in shown.note and "The best epoch is" not in shown.note:
        assert best == ("never" if names["best"].epoch > 1e300 else f"{names['best'].epoch:g}")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["quick", "thorough"])
def test_ways_to_shuffle_are_those_of_the_lines(stage, capsys):
    values = SHUFFLE | {"rows": 20, "columns": 4, "batches": 2, "epochs": 5, "alpha": 0.3}
    shown = answer("ways_to_shuffle", stage, values, None)
    assert isinstance(shown, Shown), shown
    names = executed(shown.python)
    found = {row.name: float(row.total.value) for row in names["found"]}
    columns = shown.pictures[1].columns
    assert columns["scheme"] == list(found)
    for name, mean, spread in zip(columns["scheme"], columns["mean"], columns["spread"], strict=True):
        # A hundred runs, with fresh noise each, know it much worse than the exact answer.
        assert mean + spread == pytest.approx(found[name], rel=1e-2 if stage == "thorough" else 0.5)
    columns = shown.pictures[0].columns
    drawn = [
        risk
        for scheme, run, risk in zip(columns["scheme"], columns["run"], columns["risk"], strict=True)
        if (scheme, run) == ("samples reshuffled", "3")
    ]
    assert drawn == pytest.approx(names["runs"][:, 3])


@pytest.mark.slow
def test_steps_that_diverge_are_told_in_words():
    values = SHUFFLE | {"alpha": 4.0, "rows": 12, "columns": 60, "epochs": 100}
    assert "diverge" in answer("ways_to_shuffle", "quick", values, None).sentence
    shown = answer("without_data", "quick", LIMIT | {"alpha": 3.0}, None)
    assert shown.facts["Test error in the end"] == "without bound"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two mini-batches", "commutator", "a compression"])
def test_laws_are_those_of_the_lines(name, capsys):
    values = FREE | {"size": 60} | free_laws.TAB.examples[name]
    shown = answer("free_laws", "thorough", values, None)
    assert isinstance(shown, Shown), shown
    law = executed(shown.python)["law"]
    cells = dict(shown.tables[0].rows)
    for number, end in enumerate([end for interval in law.support for end in interval], 1):
        assert float(cells[f"edge {number}"]) == pytest.approx(end, rel=1e-6)
    assert [float(cells[f"moment {k}"]) for k in range(1, 5)] == pytest.approx(law.moments(4), abs=1e-6)
    assert len(law.atoms) == sum(key.startswith("atom") for key in cells)


def test_names_that_python_keeps_for_itself_are_variables_all_the_same(capsys):
    values = FREE | {"expression": "lambda*2", "laws": "lambda = sc(1)", "size": 20}
    law = executed(answer("free_laws", "quick", values, None).python)["law"]
    assert law.support[0][1] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
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
    for stage in ("quick", "thorough"):
        found = answer("free_laws", stage, FREE | changes, None)
        assert isinstance(found, Refused)
        assert reason in found.sentence
        assert found.sentence.endswith(".")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", list(own_data.SETS))
def test_the_plan_shown_is_that_of_the_lines(source, capsys):
    shown = answer(
        "own_data", "thorough", DATA | {"source": source, "epochs": 50, "standardize": source != "wine"}, None
    )
    assert isinstance(shown, Shown), shown
    plan = executed(shown.python)["plan"]
    assert f"learning rate {plan.best.step:.3g}, " in shown.sentence
    assert shown.facts["Test error (mean square)"] == f"{plan.test_error:.4g}"


@pytest.mark.slow
def test_the_programs_train_as_the_plan_says():
    torch = pytest.importorskip("torch")
    shown = answer("own_data", "quick", DATA | {"source": "linnerud", "standardize": False}, None)
    plan = executed(shown.python)["plan"]
    slopes, _ = plan.coefficients
    # The programs have six digits of the learning rate.
    size = abs(slopes).max()
    estimator = executed(shown.programs["Train like this in scikit-learn"])["model"]
    assert estimator.coef_.ravel() == pytest.approx(slopes, abs=1e-4 * size)
    trained = executed(shown.programs["Train like this in torch"])
    with torch.no_grad():
        weights = trained["model"].weight.numpy().ravel()
    # All rows at once: every run is the mean run, but for single precision.
    assert plan.best.batch_size == plan.run.problem.n
    assert weights == pytest.approx(slopes, abs=1e-3 * size)


def test_first_looks_are_followed_by_thorough_ones_only_where_there_is_more_to_say():
    assert without_data.thorough(LIMIT) is None
    assert "first look" in without_data.quick(LIMIT | {"batches": 5}).note


@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.name)
def test_every_picture_is_svg_with_words_and_numbers_and_leaves_no_state_behind(tab):
    values = address.initial(TABS).values[tab.name]
    before = dict(matplotlib.rcParams)
    shown = answer(tab.module, tab.stages[0].function, values, None)
    assert dict(matplotlib.rcParams) == before
    assert shown.pictures
    for picture in shown.pictures:
        assert ElementTree.fromstring(picture.svg).tag.endswith("svg")
        assert any(sign.isdigit() for sign in picture.words)
        lengths = {len(column) for column in picture.columns.values()}
        assert len(lengths) == 1
        assert comma_separated(picture).count("\n") == lengths.pop() + 1
        element = ElementTree.fromstring(inline(picture.svg, 'say "<hi>"', "here-"))
        assert element.attrib["role"] == "img"
        assert element.attrib["aria-label"] == 'say "<hi>"'
        named = [one.attrib["id"] for one in element.iter() if "id" in one.attrib]
        assert all(name.startswith("here-") for name in named)
    html = body(shown, tab.name)
    assert "http" not in html.replace("http://www.w3.org/", "")
    identities = [part.partition('"')[0] for part in html.split(' id="')[1:]]
    assert len(identities) == len(set(identities))


def test_the_same_question_has_the_same_picture():
    assert without_data.quick(LIMIT).pictures[0].svg == without_data.quick(LIMIT).pictures[0].svg


def test_warnings_of_the_library_become_remarks(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a;y\n" + "".join(f"{k},5;{k * k % 7},25\n" for k in range(12)))
    shown = answer("own_data", "thorough", DATA | {"source": "upload"}, str(path))
    assert any("decimal commas" in remark for remark in shown.remarks)
    assert 'decimal=","' in shown.python


def test_what_nobody_expects_is_a_sentence_too():
    told = answer("without_data", "quick", {}, None).sentence
    assert told.endswith(".")
    assert "Traceback" not in told
    assert rs.__version__
