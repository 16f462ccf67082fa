"""The step at another batch size that gives the nearest trajectory, beside two rules of thumb, as a result."""

from dataclasses import dataclass

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import factor, significant
from reshuffle.run import Run
from reshuffle.run.critical_steps import CriticalStep


@dataclass(frozen=True, eq=False)
class ScalingRule:
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

    step: float
    distance: float
    converges: bool
    distances: FloatArray

    def __repr__(self) -> str:
        step, distance = significant(self.step, 4), significant(self.distance, 3)
        return f"ScalingRule(step={step}, distance={distance}{self._fate})"

    @property
    def _fate(self) -> str:
        return "" if self.converges else ", diverges"


@dataclass(frozen=True, eq=False)
class Match:
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
        return "\n".join(self.table())

    def table(self) -> list[str]:
        """The match and the two rules, a line each."""
        rows = self.original.scheme.sizes(self.original.problem.n).max()
        lines = [
            f"from batches of {rows} to {self.batch_size}, step {significant(self.original.recipe.at(0).step, 4)}, "
            f"compared at epochs {self.epochs[0]:g} to {self.epochs[-1]:g}",
            f"{'rule':<12}{'step':>11}{'distance':>11}",
            f"{'nearest':<12}{significant(self.step, 4):>11}{_share(self.distance):>11}",
        ]
        for name, rule in (("linear", self.linear), ("square root", self.square_root)):
            fate = "" if rule.converges else "  diverges"
            lines.append(f"{name:<12}{significant(rule.step, 4):>11}{_share(rule.distance):>11}{fate}")
        return [*lines, f"converges below {significant(float(self.critical_step), 4)}"]


def _share(distance: float) -> str:
    return f"{distance:.2%}" if distance < 100 else factor(distance)
