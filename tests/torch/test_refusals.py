"""What probes and linearized networks refuse, and how they say it."""

import math

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

import reshuffle as rs
from reshuffle.torch import compare, linearize, probe, recipe
from tests.looped import for_all
from tests.torch.test_linearize import DOUBLE, data, network
from tests.torch.test_probe import data as classes

SAMPLE = torch.zeros(3, dtype=DOUBLE), torch.zeros(2, dtype=DOUBLE)


class Endless(IterableDataset):
    """It has no end."""

    def __iter__(self):
        while True:
            yield SAMPLE


class Changing(Endless):
    """It says five and gives three."""

    def __len__(self):
        return 5

    def __iter__(self):
        return iter([SAMPLE] * 3)


class Pair(torch.nn.Module):
    """Returns more than outputs."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2, dtype=DOUBLE)

    def forward(self, inputs):
        return inputs, inputs


def followed_by(*layers):
    return torch.nn.Sequential(network(), *layers)


IDENTITY, FLAT = torch.nn.Identity(), torch.nn.Flatten(0, 1)
HALF = DataLoader(classes(dtype=torch.float16))
WIDER = [(torch.zeros(1, 3, dtype=DOUBLE), torch.tensor([2]))]
OF_BOTH = [
    ("returns a tuple", rs.UnsupportedError, {"model": Pair()}),
    ("must be a torch.nn.Module", TypeError, {"model": len}),
    ("device must be", ValueError, {"device": "cuda:7"}),
    ("BatchNorm1d, is in training", rs.UnsupportedError, {"model": followed_by(torch.nn.BatchNorm1d(2))}),
    ("Dropout, is in training", rs.UnsupportedError, {"model": followed_by(torch.nn.Dropout())}),
    ("its length must not change", ValueError, {"loader": DataLoader(Changing(), batch_size=2)}),
    ("add torch.nn.Flatten", ValueError, {"model": followed_by(torch.nn.Unflatten(1, (2, 1)))}),
    ("empty", ValueError, {"loader": []}),
    ("loader must be", TypeError, {"loader": 3}),
]
OF_NETWORKS = [
    ("require gradients, .* it has none", rs.UnsupportedError, {"model": network().requires_grad_(False)}),
    ("float16", rs.UnsupportedError, {"model": network().half()}),
    ("bfloat16", rs.UnsupportedError, {"model": network().bfloat16()}),
    ("a target has numbers, 1, but it has 2", ValueError, {"loader": DataLoader(data(outputs=1))}),
    ("classes from 0 to 1", ValueError, {"loader": WIDER}),
    ("inputs must be a tensor", rs.UnsupportedError, {"loader": [([1.0], torch.zeros(1))]}),
    ("by must be", ValueError, {"by": "magic"}),
]
OF_PROBES = [
    ("float16", rs.UnsupportedError, {"loader": HALF, "model": IDENTITY}),
    ("one row per sample", ValueError, {"model": FLAT, "loader": [(torch.zeros(2, 1, 5), [0, 0, 1])]}),
    ("device must be", ValueError, {"device": "abacus"}),
    ("classes from 0 to 1, but one is 2", ValueError, {"classes": 2, "loader": WIDER}),
    ("from 0 to 0, but one is -1", ValueError, {"loader": [(WIDER[0][0], torch.tensor([-1]))]}),
    ("one class per sample", ValueError, {"loader": [(WIDER[0][0], torch.tensor([[1, 2]]))]}),
    ("pairs", rs.UnsupportedError, {"loader": [torch.zeros(1, 5)]}),
    ("classes must be None", ValueError, {"loader": [(WIDER[0][0], torch.zeros(1))], "classes": 2}),
]


@pytest.mark.filterwarnings("ignore:Length of IterableDataset:UserWarning")
@for_all(
    "make, case",
    [
        *((make, case) for make in (linearize, probe) for case in OF_BOTH),
        *((linearize, case) for case in OF_NETWORKS),
        *((probe, case) for case in OF_PROBES),
    ],
)
def test_bad_input_is_named(make, case):
    match, error, change = case
    arguments = {"model": network(), "loader": DataLoader(data(), batch_size=4), **change}
    with pytest.raises(error, match=match):
        make(arguments.pop("model"), arguments.pop("loader"), **arguments)


def test_loops_that_have_no_counterpart_are_refused(monkeypatch):
    model, loader = network(), DataLoader(data(), batch_size=4, shuffle=True)
    lazy = linearize(model, loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    decayed = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    drawn = DataLoader(data(), batch_size=4, sampler=RandomSampler(data(), replacement=True))
    labels = DataLoader(classes(), batch_size=8)
    for ask, error, match in (
        (lambda: lazy.descend(recipe(decayed, loader)), rs.UnsupportedError, "weight_decay must be 0"),
        (lambda: lazy.descend(recipe(optimizer, drawn)), rs.UnsupportedError, "without replacement"),
        (lambda: lazy.descend(recipe(optimizer, loader, outputs=3)), ValueError, "must have 3 outputs"),
        (
            lambda: lazy.descend(recipe(optimizer, DataLoader(data(n=11)))),
            ValueError,
            "22 rows of the loader",
        ),
        *(
            (lambda epochs=epochs: compare(model, loader, optimizer, epochs), ValueError, "epochs must")
            for epochs in (1.5, math.inf, [])
        ),
        (lambda: recipe(optimizer, labels), ValueError, "outputs must be given"),
    ):
        with pytest.raises(error, match=match):
            ask()
    monkeypatch.setattr("reshuffle.torch.samples._MOST", 100)
    for make in (linearize, probe):
        with pytest.raises(rs.BudgetError, match="more than 100 samples and does not tell its length"):
            make(model, DataLoader(Endless(), batch_size=8))
