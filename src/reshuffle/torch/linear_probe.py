"""Linear heads on frozen backbones: `probe` computes the features, and poses the problem that training solves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle.planning import Plan, plan
from reshuffle.problem import LeastSquares
from reshuffle.run import Run
from reshuffle.torch import samples


@dataclass(frozen=True, eq=False)
class Probe:
    """The features of a frozen backbone, and the least-squares problem of a linear head on them.

    Classes are learned as one output each, 1 for the sample's own and 0 for the others, by squared loss: all
    answers are about that. Cross-entropy trains the same head in another way, and is not predicted here.

    Attributes
    ----------
    problem : LeastSquares
        Its last column is 1 if the head has a bias.
    classes : int or None
        The number of classes, None for targets that are numbers.
    has_bias : bool
    """

    problem: LeastSquares
    classes: int | None
    has_bias: bool
    _backbone: Any = field(repr=False)

    def rows(self, loader: Any, device: Any = None) -> tuple[FloatArray, AnyArray]:
        """The features (m, p) of other samples, with the column of ones of a bias, and their targets.

        Parameters
        ----------
        loader : torch.utils.data.DataLoader
        device : optional
            As in `probe`.
        """
        return _features(self._backbone, loader, self.has_bias, device)

    def plan(self, **options: Any) -> Plan:
        """Choose batch size, step and stopping epoch of the head: by accuracy if the targets are classes.

        `plan.accuracy` is the one to expect of a single run on new samples, by leaving out those of the problem.
        Steps are for half the sum of squares per sample: for nn.MSELoss of t outputs, `lr` is t / 2 times the step.

        Parameters
        ----------
        **options
            batch_sizes, steps, momenta, penalties, epochs and others, as in `reshuffle.plan`.
        """
        made = plan(self.problem, **options)
        return made if self.classes is None else made.by_accuracy()

    def accuracy(self, run: Run, epochs: ArrayLike, loader: Any = None) -> FloatArray:
        """The accuracy of the mean iterate: the share of samples whose largest output is that of their class.

        The mean iterate is the average of the weights over all orders. A single run is mostly less accurate, often
        by a few percentage points, since its random order moves its weights away from that average: the more, the
        larger the step and the smaller the batches. `run.leave_one_out(epochs).accuracy` is what to expect of
        single runs on new samples.

        Parameters
        ----------
        run : Run
            A run of `problem`.
        epochs : number or array of any shape
        loader : optional
            Other samples, such as held-out ones; by default those of the problem.

        Returns
        -------
        array of the shape of epochs
            The accuracy of the mean iterate, not the mean of the accuracies of single runs.
        """
        if self.classes is None:
            raise ValueError("accuracy needs classes, but the targets of this probe are numbers.")
        if loader is None:
            rows, labels = self.problem.X, self.problem.y.argmax(axis=1)
        else:
            rows, labels = self.rows(loader)
        return samples.share_of_hits(lambda epoch: run.predict(rows, epoch), labels, _arrays.epochs(epochs))


def probe(
    backbone: Any, loader: Any, *, bias: bool = True, classes: int | None = None, device: Any = None
) -> Probe:
    """Compute the features of a frozen backbone, and pose the problem that training a linear head on them solves.

    Parameters
    ----------
    backbone : torch.nn.Module
        Makes features (m, d), in float32 or float64, of a batch of inputs; in evaluation mode.
    loader : torch.utils.data.DataLoader
        Pairs (inputs, targets). Every sample is taken once, in the order of the data, whatever the
        loader shuffles or drops. Whole numbers as targets are classes; others are to be predicted, (m,) or (m, t).
    bias : bool
        True if the head has a bias, a last column of ones.
    classes : int, optional
        The number of classes; by default one more than the largest label.
    device : optional
        Where features are computed; by default where the backbone is.

    Returns
    -------
    Probe
        With `problem`, `classes` and `accuracy(run, epochs)`, the accuracy of the mean iterate, which is the
        average over all orders: mostly above that of a single run.

    >>> import torch
    >>> import reshuffle as rs
    >>> from reshuffle.torch import probe
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(torch.tensor([[0.0], [1.0], [3.0], [4.0]]), torch.tensor([0, 0, 1, 1]))
    >>> made = probe(torch.nn.Identity(), DataLoader(data, batch_size=2))
    >>> made.problem, made.classes
    (LeastSquares(n=4, p=2, outputs=2, truth unknown), 2)
    >>> made.accuracy(rs.descend(made.problem, rs.SampleReshuffling(batch_size=2), step=0.1), [0, 200]).tolist()
    [0.5, 1.0]
    """
    has_bias = _arrays.flag("bias", bias)
    X, targets = _features(backbone, loader, has_bias, device)
    if targets.dtype.kind not in "iu":
        if classes is not None:
            raise ValueError(f"classes must be None where targets are numbers, but it is {classes!r}.")
        return Probe(LeastSquares(X, targets.astype(np.float64)), None, has_bias, backbone)
    y = samples.one_hot(targets, None if classes is None else _arrays.whole_number("classes", classes, 1))
    return Probe(LeastSquares(X, y), y.shape[1], has_bias, backbone)


def _features(backbone: Any, loader: Any, has_bias: bool, device: Any) -> tuple[FloatArray, AnyArray]:
    """The features (n, d), in float64, and the targets of all samples, one batch in memory at a time."""
    samples.require_deterministic(backbone)
    where = samples.device_of(backbone, device)

    def rows_of(inputs: Any) -> FloatArray:
        made = samples.checked_outputs(backbone(samples.moved(inputs, where)), "backbone")
        if made.ndim != 2:
            raise ValueError(
                f"backbone must return features of shape (samples, d), but their shape is "
                f"{tuple(made.shape)}; add torch.nn.Flatten() or a pooling."
            )
        rows = np.asarray(made.cpu(), dtype=np.float64)
        return np.column_stack([rows, np.ones(len(rows))]) if has_bias else rows

    home = samples.device_of(backbone)
    backbone.to(where)
    try:
        with samples.torch_itself().inference_mode():
            found, targets = samples.collected(loader, rows_of)
    finally:
        backbone.to(home)
    return np.concatenate(found), targets
