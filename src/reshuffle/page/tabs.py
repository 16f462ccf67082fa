"""The tabs of the page as data, which is all that the server knows of them: their inputs, examples and words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from reshuffle.page.inputs import LARGEST_FILE, Input

LINES = "The Python lines that compute this"
"""Title of the program that every answer has."""


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    Attributes
    ----------
    name, title, question, lead, advice : str
        In addresses, on the tab, as its heading, what one sees in two sentences, and what to try if it takes long.
    module : str
        The module of `reshuffle.page` with its function `answer(values, stage, upload) -> TabAnswer`, called in
        another process. Stage 0 answers at once; each later one replaces it, until `TabAnswer.is_final`.
    charts, programs : list of str
        Names of charts, the first two above the fold; and titles of programs to copy.
    examples : dict
        Values worth trying, by name; the other inputs have their defaults.
    """

    name: str
    title: str
    question: str
    lead: str
    module: str
    charts: Sequence[str]
    inputs: Sequence[Input]
    programs: Sequence[str] = (LINES,)
    advice: str = "try smaller numbers"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of all inputs as the page opens."""
        return {one.name: one.default for one in self.inputs}

    @property
    def keys(self) -> dict[str, Input]:
        """The inputs that an address holds, by their names there."""
        return {f"{self.name}_{one.name}": one for one in self.inputs if one.kind != "file"}


LIMIT = Tab(
    name="limit",
    title="Without data",
    question="What does mini-batch descent do, whatever the data?",
    lead="Gaussian data with many rows and columns behave alike: the shape of the problem decides. Move a slider, "
    "or the handle on the second chart, and see when to stop, how large the test error is and of what it is made, "
    "and which step diverges.",
    module="limit",
    charts=("risk", "steps", "spectrum"),
    inputs=(
        Input("aspect", "Shape, p / n", 1.5, "range", 0.1, 4.0, 0.05, help="Parameters per row."),
        Input("noise", "Noise", 0.5, "range", 0.0, 2.0, 0.05,
              help="Standard deviation of labels; the truth has length 1."),
        Input("alpha", "Step, alpha", 0.2, "range", 0.02, 3.0, 0.02,
              help="Each of B batches is visited with alpha / B."),
        Input("batches", "Batches, B", 2, "range", 1, 8, help="1 is full-batch descent."),
        Input("momentum", "Momentum", 0.0, "range", 0.0, 0.9, 0.05, help="The heavy ball of torch's SGD."),
    ),
    examples={
        "the default": {},
        "stop early": {"aspect": 1.0, "noise": 1.0, "alpha": 0.3},
        "many batches": {"batches": 8, "alpha": 0.5},
        "a step that diverges": {"alpha": 0.7},
        "momentum": {"momentum": 0.8, "batches": 2, "alpha": 0.1},
    },
)  # fmt: skip
DRAWN = "drawn"
_SCIKIT_LEARN = {
    "diabetes": ("Diabetes: 442 patients, progression after a year", "load_diabetes", "target"),
    "breast-cancer": ("Breast cancer: 569 samples, benign or not", "load_breast_cancer", "target"),
    "wine": ("Wine: 178 bottles, which of three growers", "load_wine", "target"),
    "linnerud": ("Linnerud: 20 people, exercise and weight", "load_linnerud", "Weight"),
}
SETS = (_SCIKIT_LEARN if find_spec("sklearn") else {}) | {DRAWN: ("Drawn: 200 rows, 20 columns", "", "y")}
"""Data that need no file, by name: words, the function of scikit-learn that has them, and the usual target."""
OWN_DATA = Tab(
    name="data",
    title="My data",
    question="How should I train on my data?",
    lead="Every row is left out in turn, for every batch size, learning rate and number of epochs at once, and "
    "without training: that estimates the test error of each recipe on rows it has not seen.",
    module="own_data",
    charts=("leave-one-out", "choices"),
    programs=("Train like this in torch", "Train like this in scikit-learn", LINES),
    inputs=(
        Input("source", "Data", next(iter(SETS)), "select",
              options={name: words for name, (words, *_) in SETS.items()} | {"upload": "The file I sent"}),
        Input("file", "Send a CSV file", None, "file", help="With a line of names, at most "
              f"{LARGEST_FILE >> 20} MB. It stays on this machine, and is deleted with this page."),
        Input("target", "Target", "", "column", help="The column to be predicted."),
        Input("leave_out", "Leave out", (), "columns"),
        Input("categories", "Columns of categories", (), "columns",
              help="Each category becomes a column of 0 and 1."),
        Input("standardize", "Standardise the columns", True, "checkbox",
              help="Divide each by its standard deviation."),
        Input("epochs", "Longest training, epochs", 1000, "number", 1, 10_000),
    ),
    advice="send fewer rows, or leave out columns",
    examples={words.partition(":")[0].lower(): {"source": name} for name, (words, *_) in SETS.items()},
)  # fmt: skip
SHUFFLING = Tab(
    name="shuffle",
    title="Shuffling",
    question="Does it matter how I shuffle?",
    lead="Seven ways to visit the rows, on one problem and with the same step. The mean over all orders is exact; "
    "a single run has the spread of its order on top, and that is the price of not taking all rows at once.",
    module="shuffling",
    charts=("runs", "means"),
    inputs=(
        Input("rows", "Rows, n", 60, "range", 12, 120),
        Input("columns", "Columns, p", 20, "range", 2, 120),
        Input("noise", "Noise", 1.0, "range", 0.0, 2.0, 0.05),
        Input("batches", "Batches, B", 4, "range", 2, 6, help="Steps per epoch."),
        Input("alpha", "Step, alpha", 0.5, "range", 0.05, 4.0, 0.05, help="Each of B visits takes alpha / B."),
        Input("epochs", "Epochs", 20, "range", 1, 100),
        Input("seed", "Seed of the problem", 0, "number", 0, 9999),
    ),
    advice="take fewer rows, columns or batches",
    examples={
        "the default": {},
        "large steps": {"alpha": 1.5},
        "more columns than rows": {"rows": 40, "columns": 80, "alpha": 0.3},
        "no noise": {"noise": 0.0, "alpha": 1.0},
    },
)  # fmt: skip
FREE = Tab(
    name="free",
    title="Free",
    question="Which law does this expression of random matrices have?",
    lead="Type an expression of free variables and the law of each. The curve is the law of the limit, computed "
    "without any matrix; the bars are the eigenvalues of one.",
    module="free_laws",
    charts=("law",),
    inputs=(
        Input("expression", "Expression", "x + y - (x*y + y*x)/2", "text", longest=400,
              help="Self-adjoint: + - * / ** and brackets."),
        Input("laws", "Law of each variable", "x = mp(3, 0.1)\ny = mp(3, 0.1)", "text", longest=1000, lines=4,
              help="A line each: mp(ratio, variance), sc(variance), poisson(rate, jump), projection(rank), "
              "bernoulli(probability, low, high), arcsine(low, high), uniform(low, high), wachter(first, second), "
              "kesten(degree), discrete([points], [weights]), affine(law, scale, shift)."),
        Input("size", "Size of the matrix", 300, "range", 20, 800),
        Input("seed", "Its seed", 0, "number", 0, 9999),
        Input("moments", "Moments", 4, "range", 1, 8),
    ),
    advice="try a shorter expression, or one of lower degree",
    examples={
        "two mini-batches": {},
        "anticommutator": {"expression": "x*y + y*x", "laws": "x = sc(1)\ny = sc(1)"},
        "commutator": {"expression": "1j*(x*y - y*x)", "laws": "x = sc(1)\ny = poisson(1, 1)"},
        "a compression": {"expression": "p*x*p", "laws": "p = projection(0.5)\nx = arcsine(-2, 2)"},
        "a resolvent": {"expression": "(3 + x + y)**-1", "laws": "x = sc(1)\ny = bernoulli(0.5, -1, 1)"},
    },
)  # fmt: skip
TABS = {tab.name: tab for tab in (LIMIT, OWN_DATA, SHUFFLING, FREE)}
