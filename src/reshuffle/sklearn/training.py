"""Training as it was asked for, before there are data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from reshuffle._core import checks
from reshuffle.problem.sources.stream import Stream
from reshuffle.schemes import Scheme
from reshuffle.sklearn import torch_words
from reshuffle.sklearn.estimator_data import Data, centred, with_weight
from reshuffle.sklearn.streamed_data import centred_stream
from reshuffle.sklearn.trained_outputs import TrainedOutputs


@dataclass(frozen=True)
class Training:
    """How rows are prepared and visited: the parameters of an estimator, checked."""

    scheme: Scheme
    settings: torch_words.Settings
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

    def on_stream(self, stream: Stream) -> TrainedOutputs:
        """The same on rows that are read in chunks."""
        prepared = centred_stream(stream, self.centre, self.scale)
        return TrainedOutputs(prepared, self.scheme, self.settings, self.single_run)


def untrained(model: Any) -> Training:
    """The parameters of a MiniBatchRegressor, checked."""
    single_run = checks.flag("single_run", model.single_run)
    return Training(
        scheme=torch_words.scheme(model.batch_size, model.shuffle, model.drop_last),
        settings=torch_words.settings(
            learning_rate=model.learning_rate,
            weight_decay=model.weight_decay,
            momentum=model.momentum,
            nesterov=model.nesterov,
            average=model.average,
            rtol=model.rtol,
            budget=model.budget,
            seed=_seed(model.random_state, is_needed=single_run),
        ),
        centre=checks.flag("fit_intercept", model.fit_intercept),
        scale=checks.flag("standardize", model.standardize),
        single_run=single_run,
    )


def _seed(random_state: Any, is_needed: bool) -> int:
    """Of the order of a single run, or of sampled orders, which are the same in every fit if none is given."""
    if random_state is None and not is_needed:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))
