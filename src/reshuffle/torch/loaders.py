"""How a DataLoader visits its samples, as a scheme."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle.errors import UnsupportedError
from reshuffle.schemes import (
    Cyclic,
    FullBatch,
    GroupReshuffling,
    SampleReshuffling,
    SampleWithReplacement,
    Scheme,
)
from reshuffle.schemes.base import rows_of
from reshuffle.torch.torch_models import kind, torch_itself


@dataclass(frozen=True)
class Visits:
    """What a loader goes through in an epoch.

    Attributes
    ----------
    scheme : type of scheme
        How samples are put in order.
    partition : Cyclic
        How the ordered samples are cut into batches.
    samples : int
        n.
    rows : int
        How many rows a sample is: more than one where its outputs share their parameters.
    """

    scheme: type[Scheme]
    partition: Cyclic
    samples: int
    rows: int = 1

    @property
    def rows_per_visit(self) -> float:
        """The mean number of rows of a batch."""
        return float(self.rows * self.partition.sizes(self.samples).mean())

    def averaged(self) -> Scheme:
        """The scheme where the loss of a batch is a mean over its rows."""
        cut = self.partition
        if cut.sizes(self.samples)[0] == self.samples and self.scheme is not SampleWithReplacement:
            return FullBatch()
        return self._made("own")

    def _made(self, normalize: str) -> Scheme:
        cut, rows = self.partition, self.rows
        if cut.is_explicit:
            return Cyclic([rows_of(part, rows) for part in cut.partition(self.samples)], normalize=normalize)
        assert cut.batch_size is not None
        if self.scheme is SampleWithReplacement:
            if rows > 1:
                raise UnsupportedError(
                    "samples whose outputs share their parameters must be visited without replacement, but the "
                    "loader's sampler draws with it; use shuffle=True, or shuffle=False."
                )
            return SampleWithReplacement(batch_size=cut.batch_size, drop_last=cut.drop_last)
        if self.scheme is SampleReshuffling and rows > 1:
            return GroupReshuffling(
                rows, batch_size=cut.batch_size, drop_last=cut.drop_last, normalize=normalize
            )
        return self.scheme(batch_size=rows * cut.batch_size, drop_last=cut.drop_last, normalize=normalize)

    def summed(self) -> Scheme:
        """The scheme where it is a sum: rows weigh alike, and steps are `rows_per_visit` times as long."""
        sizes = self.partition.sizes(self.samples)
        if sizes.min() == sizes.max():
            return self.averaged()
        if self.scheme is SampleWithReplacement:
            raise UnsupportedError(
                "a loss that is summed over draws with replacement must have batches of one size, but the last has "
                f'{sizes[-1]} rows and the others {sizes[0]}; use drop_last=True, or reduction="mean".'
            )
        return self._made("equal")


def visits(loader: Any) -> Visits:
    """Read how a torch.utils.data.DataLoader visits its samples.

    >>> torch = torch_itself()
    >>> data = torch.utils.data.TensorDataset(torch.zeros(10, 2), torch.zeros(10))
    >>> visits(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)).averaged()
    SampleReshuffling(batch_size=4)
    """
    torch = torch_itself()
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, but it is a {kind(loader)}.")
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        raise UnsupportedError(
            "the loader's dataset must have a length and be indexed, but it is an IterableDataset, whose order and "
            "length are its own affair; collect its samples in a TensorDataset."
        )
    cutter = loader.batch_sampler
    if cutter is None:
        raise UnsupportedError(
            "the loader must make batches, but its batch_size is None; give a batch_size, or batch_size=1."
        )
    if isinstance(cutter, (list, tuple)):
        return _listed(cutter, len(loader.dataset))
    if type(cutter) is not torch.utils.data.BatchSampler:
        raise UnsupportedError(
            f"the loader's batch_sampler must be torch's own, or a list of lists of rows, but it is a "
            f"{kind(cutter)}, whose order cannot be read off; describe it by a scheme of reshuffle."
        )
    scheme, samples = _order(cutter.sampler, len(loader.dataset))
    cut = Cyclic(batch_size=cutter.batch_size, drop_last=bool(cutter.drop_last))
    # Refused here if there are fewer rows than a batch takes, and these are dropped.
    cut.sizes(samples)
    return Visits(scheme, cut, samples)


def _order(sampler: Any, length: int) -> tuple[type[Scheme], int]:
    """When the order is drawn, and of how many samples."""
    utils = torch_itself().utils.data
    if type(sampler) is utils.SequentialSampler:
        return Cyclic, length
    if type(sampler) is utils.SubsetRandomSampler:
        return SampleReshuffling, len(sampler)
    if type(sampler) is utils.RandomSampler:
        if sampler.num_samples != length:
            raise UnsupportedError(
                f"the loader's sampler must draw as many samples as there are, {length}, but its num_samples is "
                f"{sampler.num_samples}; an epoch is one turn of all of them."
            )
        return (SampleWithReplacement if sampler.replacement else SampleReshuffling), length
    raise UnsupportedError(
        "the loader's sampler must be a SequentialSampler, RandomSampler or SubsetRandomSampler, but it is "
        f"a {kind(sampler)}, whose samples are not all visited alike; describe it by a scheme of reshuffle."
    )


def _listed(batches: Any, length: int) -> Visits:
    rows = tuple(tuple(int(row) for row in batch) for batch in batches)
    samples = len(np.unique(np.concatenate(rows))) if rows else 0
    if samples != length or sum(map(len, rows)) != length:
        raise UnsupportedError(
            f"a list of batches must name each of the {length} samples once, but it names {sum(map(len, rows))}, "
            f"of which {samples} are different."
        )
    return Visits(Cyclic, Cyclic([list(batch) for batch in rows]), length)


def outputs(loader: Any, given: int | None = None) -> int:
    """How many numbers the target of a sample holds: what nn.MSELoss averages over beside the rows.

    >>> torch = torch_itself()
    >>> data = torch.utils.data.TensorDataset(torch.zeros(10, 2), torch.zeros(10, 3))
    >>> outputs(torch.utils.data.DataLoader(data, batch_size=4))
    3
    """
    if given is not None:
        return _arrays.whole_number("outputs", given, 1)
    sample = loader.dataset[0]
    if not (isinstance(sample, (list, tuple)) and len(sample) == 2):
        length = f" of {len(sample)}" if isinstance(sample, (list, tuple)) else ""
        raise UnsupportedError(
            "the loader's dataset must hold pairs (features, target), but its first entry is "
            f"a {kind(sample)}{length}."
        )
    target = np.asarray(sample[1])
    if target.dtype.kind in "iub":
        raise ValueError(
            "outputs must be given where targets are whole numbers, as classes are: how many numbers does the loop "
            "make of one? For ten classes, one output each, outputs=10."
        )
    return int(target.size)
