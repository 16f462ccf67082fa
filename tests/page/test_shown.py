"""What tabs show: the Python lines really compute it, the programs run, and pictures say what they draw."""

import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

import reshuffle as rs
from reshuffle.page import address, own_data, without_data
from reshuffle.page.answer_html import body, comma_separated
from reshuffle.page.drawing import inline
from reshuffle.page.shown import Shown
from reshuffle.page.tabs import TABS
from reshuffle.page.worker import answer

LIMIT = {field.name: field.default for field in without_data.TAB.fields}
DATA = {field.name: field.default for field in own_data.TAB.fields}


def executed(program):
    """The names that a program leaves behind."""
    names = {}
    exec(compile(program, "shown", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("quick", {}),
        ("quick", {"batches": 1, "noise": 0.0}),
        ("quick", {"aspect": 0.5, "alpha": 2.5}),
        ("quick", {"aspect": 1.0}),
        ("quick", {"batches": 4}),
        ("quick", {"batches": 2, "momentum": 0.5}),
        ("thorough", {"batches": 1, "momentum": 0.5}),
        ("quick", {"batches": 1, "momentum": 0.9, "aspect": 0.1}),
        ("thorough", {"batches": 3, "aspect": 0.3}),
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


@pytest.mark.parametrize("source", list(own_data.SETS))
def test_the_plan_shown_is_that_of_the_lines(source, capsys):
    shown = answer(
        "own_data", "thorough", DATA | {"source": source, "epochs": 50, "standardize": source != "wine"}, None
    )
    assert isinstance(shown, Shown), shown
    plan = executed(shown.python)["plan"]
    assert f"learning rate {plan.best.step:.3g}, " in shown.sentence
    assert shown.facts["Test error (mean square)"] == f"{plan.test_error:.4g}"


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
