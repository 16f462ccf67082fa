"""Results as dicts, tables and text: every number within half of its last digit."""

import json
import math
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle._uncertainty import factor, plus_minus, significant
from tests.looped import for_all

PROBLEM = rs.gaussian(40, 4, noise=1.0, seed=0)
BOTH = rs.LeastSquares(
    PROBLEM.X, np.column_stack([PROBLEM.y, -PROBLEM.y]), beta_star=np.zeros((4, 2)), noise=1.0
)
RUN = rs.descend(PROBLEM, rs.RandomReshuffling(batches=4), step=0.1)
PLAN = rs.plan(PROBLEM.X, PROBLEM.y, batch_sizes=[10, 40], epochs=50, penalties=[0.0, 0.1])
RESULTS = {
    "risk": RUN.risk([0, 5, math.inf]),
    "risk of two outputs": rs.descend(BOTH, rs.RandomReshuffling(batches=4), step=0.1).risk([0, 5]),
    "expected risk": RUN.expected_risk(5),
    "limit": RUN.limit(),
    "limit comparison": RUN.compare_limit(),
    "stability": RUN.stability(),
    "mean-square stability": RUN.mean_square_stability(),
    "best epoch": RUN.best_epoch(),
    "critical step": rs.critical_step(PROBLEM, rs.RandomReshuffling(batches=4), mean_square=False),
    "leave-one-out": RUN.leave_one_out([1, 10]),
    "cross-validation": RUN.cross_validate([1, 10]),
    "ridge equivalent": RUN.ridge_equivalent([1, 10]),
    "plan": PLAN,
    "recipe": PLAN.best,
    "ridge": PLAN.ridge,
    "plan's table": PLAN.table(),
    "match": rs.match(RUN, batch_size=20, epochs=5),
    "rule": rs.match(RUN, batch_size=20, epochs=5).linear,
    "explanation": rs.explain(PROBLEM.X, PROBLEM.y, RUN.iterate(3), RUN, epochs=3),
    "modes": rs.explain(PROBLEM.X, PROBLEM.y, RUN.iterate(3), RUN, epochs=3).table(),
    "comparison": rs.compare_schemes(
        PROBLEM, {"<b>": rs.Cyclic(batches=4)}, step=0.1, epochs=[1, 5], thresholds=False
    ),
}


class Cells(HTMLParser):
    """The text of the cells of a table; fails where tags do not close each other."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.cell = [], [], None
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ("table", "thead", "tbody", "tr", "th", "td", "pre")
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


@for_all("name", RESULTS)
def test_every_result_is_a_dict_a_frame_and_a_table_in_a_notebook(name):
    result = RESULTS[name]
    made = result.to_dict()
    assert json.loads(json.dumps(made)).keys() == made.keys()
    assert not {"step", "penalty"} & made.keys()
    frame = result.to_frame()
    assert len(frame) >= 1
    assert not {"step", "penalty"} & {*frame.columns}
    header, *rows = Cells(result._repr_html_()).rows
    assert rows
    assert {len(row) for row in rows} == {len(header)}


def test_frames_hold_the_numbers():
    risk = RESULTS["risk"]
    np.testing.assert_array_equal(risk.to_frame()["total"], risk.total)
    outputs = RESULTS["risk of two outputs"]
    frame = outputs.to_frame()
    assert frame["epochs"].tolist() == [0, 0, 5, 5]
    assert frame["output"].tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(frame["total"], outputs.total.ravel())
    plan = PLAN.to_frame()
    assert plan["choice"].tolist()[0] == "best"
    assert plan["choice"].tolist()[-2:] == ["least squares", "ridge"]
    assert plan["learning_rate"][0] == PLAN.best.step == PLAN.best.learning_rate
    assert plan["weight_decay"].iloc[-1] == PLAN.ridge.penalty == PLAN.ridge.weight_decay
    assert plan["test_error"].iloc[-1] == PLAN.ridge.test_error == PLAN.ridge.mean_square
    assert "&lt;b&gt;" in RESULTS["comparison"]._repr_html_()
    assert RESULTS["comparison"].to_frame()["epochs"].tolist() == [1, 5, 1, 5]


def test_the_table_of_a_plan_has_a_row_for_each_batch_size_and_step():
    table = PLAN.table()
    frame = table.to_frame()
    assert len(table) == len(list(table)) == len(frame) == PLAN.at_best_epoch.size
    np.testing.assert_array_equal(frame["test_error"], PLAN.at_best_epoch.ravel())
    np.testing.assert_array_equal(
        PLAN.table(at_chosen_epoch=True).to_frame()["test_error"], PLAN.at_chosen_epoch.ravel()
    )
    first = next(iter(table))
    assert first["batch_size"] == 10
    place = list(PLAN.penalties).index(PLAN.best.penalty)
    assert first["learning_rate"] == PLAN.safe_steps[place, 0] * PLAN.shares[0]
    assert str(table).splitlines()[1].split()[:2] == ["batch", "size"]
    assert len(str(table).splitlines()) == 2 + len(PLAN.batch_sizes)


def test_long_results_are_cut_in_notebooks():
    shown = RUN.risk(np.arange(100))._repr_html_()
    assert len(Cells(shown).rows) == 61
    assert "40 more rows" in shown


def test_pandas_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="to_frame needs pandas"):
        RESULTS["risk"].to_frame()


FINITE = st.floats(-1e300, 1e300)
PLAIN = st.floats(1e-4, 900_000.0) | st.floats(-900_000.0, -1e-4)
POSITIVE = st.floats(1e-300, 1e300)


def last_digit(text):
    """The size of the last digit of a number as it is written."""
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def read(text):
    """The value and the error in a text, and the size of the last digit of both."""
    together = re.fullmatch(r"\((\S+) ± (\S+)\)(e\S+)", text)
    value, error = (
        [one + together[3] for one in together.groups()[:2]] if together else text.split(" ± ", maxsplit=1)
    )
    return value, error


@given(value=FINITE, digits=st.integers(1, 6))
@example(value=999_999.7, digits=6)
@example(value=-0.0, digits=6)
@example(value=9.9999999e-5, digits=3)
def test_a_number_is_read_back(value, digits):
    text = significant(value, digits)
    # Zeros before the point stand for digits that are not known.
    size = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 1.0
    assert abs(float(text) - value) <= 0.5000001 * max(last_digit(text), size)
    assert len(re.sub(r"e.*|[-.]", "", text).strip("0")) <= digits
    assert text != "-0"


@given(value=PLAIN, error=POSITIVE, digits=st.integers(1, 6))
def test_no_exponent_between_a_ten_thousandth_and_a_million(value, error, digits):
    assert "e" not in significant(value, digits)
    assert "e" not in factor(abs(value))
    if 1e-4 <= error < 900_000:
        assert "e" not in plus_minus(value, error)


@given(value=FINITE, error=POSITIVE)
@example(value=3001.2, error=178.2)
@example(value=0.0, error=0.00996)
@example(value=-2.5, error=30.0)
@example(value=1e300, error=1e-300)
@example(value=1e-300, error=1e300)
@example(value=999_999.6, error=99.7)
def test_a_value_and_its_error_are_read_back(value, error):
    text = plus_minus(value, error)
    value_text, error_text = read(text)
    # The error has two digits, and the value ends where it does, or after its own sixth digit.
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    assert abs(float(error_text) - error) <= 0.5000001 * max(unit, last_digit(error_text))
    own = 10.0 ** (math.floor(math.log10(abs(value))) - 5) if value else 0.0
    assert abs(float(value_text) - value) <= 0.5000001 * max(
        10 * unit if error_text.startswith("1") else unit, own
    )
    assert not value_text.startswith("-0 ")


@given(value=FINITE, error=st.sampled_from([0.0, math.inf]))
def test_what_has_no_digits_of_an_error(value, error):
    assert plus_minus(value, error) == significant(value) + (" ± inf" if error else "")


def test_what_is_no_number():
    assert [significant(one) for one in (math.inf, -math.inf, math.nan, 0.0, -0.0)] == [
        "inf",
        "-inf",
        "nan",
        "0",
        "0",
    ]
    assert plus_minus(math.inf, 3.0) == "inf ± 3"
    assert plus_minus(math.inf, math.inf) == "inf ± inf"
    assert plus_minus(math.nan, 0.0) == "nan"


@for_all(
    "value, error, text",
    [
        (3001.2, 178.2, "3000 ± 180"),
        (0.03328, 0.00056, "0.03328 ± 0.00056"),
        (0.9996, 0.0099, "0.9996 ± 0.0099"),
        (1.0, 0.0996, "1.00 ± 0.10"),
        (123456.7, 30.0, "123457 ± 30"),
        (3e7, 1.8e6, "(3.00 ± 0.18)e+07"),
        (1e-9, 2e-11, "(1.000 ± 0.020)e-09"),
        (0.00002, 0.3, "0.00 ± 0.30"),
        (-12.34, 5.6, "-12.3 ± 5.6"),
        (12.0, 3.4e8, "(0.0 ± 3.4)e+08"),
        (999_999.6, 42.0, "(1.000000 ± 0.000042)e+06"),
    ],
)
def test_examples(value, error, text):
    assert plus_minus(value, error) == text


def test_factors():
    assert [factor(one) for one in (1.04, 6.731, 67.3, 6731.0, 6.7e7)] == [
        "x1",
        "x6.7",
        "x67",
        "x6700",
        "x6.7e+07",
    ]
