"""Every schedule against the scheduler of torch that it stands for, value by value."""

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as lr

import reshuffle as rs
from tests.looped import for_all

# torch 2.3 warns of what its own sequences of schedulers do.
pytestmark = pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning:torch")
S = rs.schedules
BASE = 0.06
"""torch's learning rate: ours is twice that, since MSELoss has no factor 1/2."""


def sequence(*parts, at):
    return lambda o: lr.SequentialLR(o, [made(o, *settings) for made, *settings in parts], at)


PAIRS = {
    "step": (S.StepDecay(2 * BASE, every=3, factor=0.4), lambda o: lr.StepLR(o, 3, 0.4)),
    "step by default": (S.StepDecay(2 * BASE, 5), lambda o: lr.StepLR(o, 5)),
    "exponential": (S.ExponentialDecay(2 * BASE, 0.9), lambda o: lr.ExponentialLR(o, 0.9)),
    "cosine": (S.CosineAnnealing(2 * BASE, until=7), lambda o: lr.CosineAnnealingLR(o, 7)),
    "cosine to an end": (
        S.CosineAnnealing(2 * BASE, until=30, end=0.02), lambda o: lr.CosineAnnealingLR(o, 30, 0.01)
    ),
    "constant": (S.ConstantWarmup(2 * BASE), lambda o: lr.ConstantLR(o)),
    "constant of another length": (
        S.ConstantWarmup(2 * BASE, until=9, factor=0.2), lambda o: lr.ConstantLR(o, 0.2, 9)
    ),
    "linear": (S.LinearWarmup(2 * BASE), lambda o: lr.LinearLR(o)),
    "linear decay": (
        S.LinearWarmup(2 * BASE, until=11, start=1.0, end=0.1), lambda o: lr.LinearLR(o, 1.0, 0.1, 11)
    ),
    "one cycle": (
        S.OneCycle(2 * BASE, total=40), lambda o: lr.OneCycleLR(o, BASE, total_steps=40, cycle_momentum=False)
    ),
    "one cycle in three phases": (
        S.OneCycle(2 * BASE, 41, 0.37, "linear", divisor=10, final_divisor=50, three_phase=True),
        lambda o: lr.OneCycleLR(
            o, BASE, total_steps=41, pct_start=0.37, anneal_strategy="linear", div_factor=10, final_div_factor=50,
            three_phase=True, cycle_momentum=False,
        ),
    ),
    "one cycle that begins at once": (
        S.OneCycle(2 * BASE, total=40, warmup=0.0),
        lambda o: lr.OneCycleLR(o, BASE, total_steps=40, pct_start=0.0, cycle_momentum=False),
    ),
    "warm-up, stable, decay": (
        S.WarmupStableDecay(2 * BASE, total=30, warmup=5, decay=8, start=0.1, end=0.05),
        sequence((lr.LinearLR, 0.1, 1.0, 5), (lr.ConstantLR, 1.0, 17), (lr.LinearLR, 1.0, 0.05, 8), at=[5, 22]),
    ),
    "warm-up, stable, cosine": (
        S.WarmupStableDecay(2 * BASE, total=40, warmup=5, decay=20, start=0.25, shape="cosine"),
        sequence((lr.LinearLR, 0.25, 1.0, 5), (lr.ConstantLR, 1.0, 15), (lr.CosineAnnealingLR, 20), at=[5, 20]),
    ),
    "joined": (
        S.Joined([S.LinearWarmup(2 * BASE, 6, 0.5), S.StepDecay(2 * BASE, 4, 0.3)], at=[6]),
        sequence((lr.LinearLR, 0.5, 1.0, 6), (lr.StepLR, 4, 0.3), at=[6]),
    ),
}  # fmt: skip


@for_all("name", PAIRS)
def test_value_by_value(name):
    schedule, scheduler = PAIRS[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE)
    made, theirs = scheduler(optimizer), []
    for _ in range(40):
        theirs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        made.step()
    ours = [schedule(count) for count in range(40)]
    np.testing.assert_allclose(ours, 2 * np.array(theirs), rtol=1e-12, atol=1e-15)
    assert len(set(np.round(ours, 12))) > 1
