"""Results as dicts, pandas tables and HTML."""

import json
import math
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import reshuffle as rs
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
