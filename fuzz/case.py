"""One input of the fuzz: a problem, a scheme, a recipe and a question, as data and as three lines of Python."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

IMPORTS = (
    "from math import inf; import numpy as np; import reshuffle as rs; "
    "from scipy.sparse.linalg import aslinearoperator"
)


def literal(value: Any) -> str:
    """Python source of numbers, lists of them, flags and words."""
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return repr(value)


@dataclass(frozen=True)
class Problem:
    """Data and truth. `form` is how Sigma is given: "none", "number", "vector", "matrix" or "operator"."""

    X: list[list[float]]
    y: list[float]
    beta_star: list[float] | None
    noise: float | None
    form: str
    sigma: Any

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.X)

    @property
    def p(self) -> int:
        """Columns."""
        return len(self.X[0])

    @property
    def dense_sigma(self) -> list[list[float]]:
        """Sigma (p, p)."""
        if self.form in ("matrix", "operator"):
            dense: list[list[float]] = self.sigma
            return dense
        diagonal = self.sigma if self.form == "vector" else [self.sigma] * self.p
        return [[diagonal[i] if i == j else 0.0 for j in range(self.p)] for i in range(self.p)]

    def source(self) -> str:
        """The call that makes it."""
        words = [f"np.array({literal(self.X)})", literal(self.y)]
        if self.beta_star is not None:
            words.append(f"beta_star={literal(self.beta_star)}")
        if self.form == "matrix":
            words.append(f"covariance=np.array({literal(self.sigma)})")
        elif self.form == "operator":
            words.append(f"covariance=aslinearoperator(np.array({literal(self.sigma)}))")
        elif self.form != "none":
            words.append(f"covariance={literal(self.sigma)}")
        if self.noise is not None:
            words.append(f"noise={self.noise!r}")
        return f"rs.LeastSquares({', '.join(words)})"


@dataclass(frozen=True)
class Scheme:
    """A way of visiting: the name of its class and what it is called with."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def source(self) -> str:
        """The call that makes it."""
        words = [f"{name}={literal(value)}" for name, value in self.arguments.items()]
        return f"rs.{self.name}({', '.join(words)})"


@dataclass(frozen=True)
class Recipe:
    """Step, penalty, momentum, start and method. A schedule is a number, a list, or the source of a function."""

    keyword: str
    schedule: float | list[float] | str
    penalty: float = 0.0
    momentum: float = 0.0
    start: list[float] | None = None
    method: str | None = None
    budget: float | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all epochs are alike."""
        return isinstance(self.schedule, float)

    def step_of(self, epoch: int) -> float:
        """What the schedule says for the epoch after `epoch` others."""
        if isinstance(self.schedule, str):
            function: Callable[[int], float] = eval(self.schedule)
            return function(epoch)
        return self.schedule[epoch] if isinstance(self.schedule, list) else self.schedule

    def source(self) -> str:
        """The keywords of `descend`."""
        schedule = self.schedule if isinstance(self.schedule, str) else literal(self.schedule)
        words = [f"{self.keyword}={schedule}"]
        words += [f"penalty={self.penalty!r}"] if self.penalty else []
        words += [f"momentum={self.momentum!r}"] if self.momentum else []
        words += [f"start={literal(self.start)}"] if self.start is not None else []
        words += [f"method={self.method!r}"] if self.method is not None else []
        words += [f"budget={self.budget!r}"] if self.budget is not None else []
        return ", ".join(words)


@dataclass(frozen=True)
class Case:
    """An input: what is asked, of which run. `options` are those of the question: epochs, flags."""

    seed: int
    problem: Problem
    scheme: Scheme
    recipe: Recipe
    question: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether the mean of an epoch is a symmetric map."""
        fixed = self.scheme.name in ("Cyclic", "ShuffleOnce")
        return not (fixed or self.recipe.penalty or self.recipe.momentum) and self.recipe.is_constant

    def expression(self) -> str:
        """The question, as Python source."""
        run = f"rs.descend(problem, {self.scheme.source()}, {self.recipe.source()})"
        words = [f"{name}={literal(value)}" for name, value in self.options.items() if name != "epochs"]
        if "epochs" in self.options:
            words.insert(0, literal(self.options["epochs"]))
        if self.question == "critical_step":
            words += [] if "mean_square" in self.options else ["mean_square=False"]
            words += [f"{name}={value!r}" for name, value in self._visit_options() if value]
            return f"rs.critical_step({', '.join(['problem', self.scheme.source(), *words])})"
        if self.question == "simulate":
            words = [f"{name}={literal(value)}" for name, value in self.options.items()]
            words.append(self.recipe.source())
            return f"rs.simulate({', '.join(['problem', self.scheme.source(), *words])})"
        if self.question in ("frozen", "range_assumption"):
            return f"{run}.{self.question}"
        if self.question == "Z":
            return f"{run}.epoch.Z, {run}.epoch.error"
        asked = f"{run}.{self.question}({', '.join(words)})"
        if self.question in ("iterate", "training_loss"):
            # What belongs to the iterate but is told apart from it: how far it may be off.
            return f"{asked}, {run}.iterate_error({literal(self.options['epochs'])})"
        return asked

    def _visit_options(self) -> list[tuple[str, float]]:
        return [("penalty", self.recipe.penalty), ("momentum", self.recipe.momentum)]

    def lines(self) -> list[str]:
        """Three lines of Python that reproduce the answer."""
        return [IMPORTS, f"problem = {self.problem.source()}", f"print({self.expression()})"]
