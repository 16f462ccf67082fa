"""Training as it was asked for, before there are data."""

from dataclasses import dataclass

from reshuffle.schemes import Scheme
from reshuffle.sklearn.centring import centred
from reshuffle.sklearn.checked_data import Data, with_weight
from reshuffle.sklearn.torch_words import Settings
from reshuffle.sklearn.trained_outputs import TrainedOutputs


@dataclass(frozen=True)
class Training:
    """How rows are prepared and visited: the parameters of an estimator, checked."""

    scheme: Scheme
    settings: Settings
    centre: bool
    scale: bool
    single_run: bool = False

    @property
    def least_rows(self) -> int:
        """Rows without which there is nothing to learn: one less its mean is zero."""
        return 2 if self.centre else 1

    def on(self, data: Data) -> TrainedOutputs:
        """The same on data."""
        kept = with_weight(data, self.least_rows)
        prepared = centred(kept.rows, kept.responses, kept.weights, self.centre, self.scale)
        return TrainedOutputs(prepared, self.scheme, self.settings, self.single_run)
