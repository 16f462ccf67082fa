"""The step at another batch size that gives the nearest trajectory, beside two rules of thumb, as a result."""

from dataclasses import dataclass
from typing import Any

from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed, Table, plain
from reshuffle._uncertainty import factor, significant
from reshuffle.run import Run
from reshuffle.run.critical_steps import CriticalStep


@dataclass(frozen=True, eq=False)
class ScalingRule(Displayed):
    """What a rule for the step makes of another batch size.

    Attributes
    ----------
    step : float
    distance : float
        Of its trajectory from the one that was to be matched, as in `Match`; inf where it leaves all bounds.
    converges : bool
        Whether its mean iterate does.
    distances : (k,)
        At each of the epochs of the match.
    """

    _shown = ("step", "distance", "converges")

    step: float
    distance: float
    converges: bool
    distances: FloatArray

    def __repr__(self) -> str:
        step, distance = significant(self.step, 4), significant(self.distance, 3)
        return f"ScalingRule(step={step}, distance={distance}{'' if self.converges else ', diverges'})"

    @property
    def learning_rate(self) -> float:
        """The step, in torch's word."""
        return self.step


@dataclass(frozen=True, eq=False)
class Match(Displayed):
    """The step at another batch size whose mean iterate stays nearest to that of a run.

    Attributes
    ----------
    step : float
        The best of all steps below `critical_step`.
    batch_size : int
        Rows per visit, of the largest batch.
    distance : float
        The root mean square over `epochs` of |X (b_k - b'_k)| / |X (b_k - b_0)|: how far the predictions for the
        training rows are apart, relative to how far the run has moved them. 0.01 is one per cent.
    linear : ScalingRule
        Step in proportion to the batch size.
    square_root : ScalingRule
        Step in proportion to its square root.
    run : Run
        The matched run: the same recipe at the new batch size with the best step.
    original : Run
        The run that was to be matched.
    critical_step : float
        Up to which step the mean iterate converges at the new batch size.
    epochs : (k,)
        Those at which trajectories are compared.
    distances : (k,)
        The distance at each of them.
    """

    step: float
    batch_size: int
    distance: float
    linear: ScalingRule
    square_root: ScalingRule
    run: Run
    original: Run
    critical_step: CriticalStep
    epochs: FloatArray
    distances: FloatArray

    def __repr__(self) -> str:
        return str(self.table())

    @property
    def learning_rate(self) -> float:
        """The step, in torch's word."""
        return self.step

    def table(self) -> Table:
        """The match and the two rules, a row each."""
        columns = self._columns()
        cells = [
            [name, significant(step, 4), _share(distance), "" if converges else "diverges"]
            for name, step, distance, converges in zip(*columns.values(), strict=True)
        ]
        lines = [f"{'rule':<12}{'step':>11}{'distance':>11}"]
        lines += [f"{a:<12}{b:>11}{c:>11}" + f"  {fate}" * bool(fate) for a, b, c, fate in cells]
        title, below = self._title(), f"converges below {significant(float(self.critical_step), 4)}"
        text = "\n".join([title, *lines, below])
        return Table(columns, text, ["rule", "step", "distance", ""], cells, title, below)

    def _columns(self) -> dict[str, Any]:
        rules = {"linear": self.linear, "square root": self.square_root}
        return {
            "rule": ["nearest", *rules],
            "learning_rate": [self.step, *(rule.step for rule in rules.values())],
            "distance": [self.distance, *(rule.distance for rule in rules.values())],
            "converges": [True, *(rule.converges for rule in rules.values())],
        }

    def _title(self) -> str:
        original = self.original
        rows, step = original.scheme.sizes(original.problem.n).max(), original.recipe.at(0).step
        return (
            f"from batches of {rows} to {self.batch_size}, step {significant(step, 4)}, "
            f"compared at epochs {self.epochs[0]:g} to {self.epochs[-1]:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The match, with `linear` and `square_root` beside it, in numbers, words and lists."""
        names = "batch_size learning_rate distance linear square_root critical_step epochs distances"
        return {name: plain(getattr(self, name)) for name in names.split()}

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _share(distance: float) -> str:
    return f"{distance:.2%}" if distance < 100 else factor(distance)
