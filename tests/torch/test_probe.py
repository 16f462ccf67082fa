"""Linear probes on frozen backbones against really training their heads."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import reshuffle as rs
from reshuffle.torch import probe, recipe
from tests.looped import for_all


def data(n=30, seed=0, dtype=torch.float32, classes=3):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    inputs = torch.randn(n, 5, generator=generator, dtype=dtype) + labels[:, None].to(dtype)
    return TensorDataset(inputs, labels)


def backbone(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype))
    return model.eval()


def trained_head(frozen, loader, lr, epochs, dtype, classes=3, **settings):
    """A head that really begins at zero and is trained on one-hot classes by torch."""
    head = torch.nn.Linear(4, classes).to(dtype)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    optimizer = torch.optim.SGD(head.parameters(), lr=lr, **settings)
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            wanted = torch.nn.functional.one_hot(labels, classes).to(dtype)
            torch.nn.functional.mse_loss(head(frozen(inputs)), wanted).backward()
            optimizer.step()
    weights = torch.column_stack([head.weight, head.bias]).detach().numpy().T
    return weights, optimizer, head


@for_all("dtype, atol", [(torch.float64, 1e-11), (torch.float32, 1e-6)])
@for_all("settings", [{}, {"momentum": 0.8, "weight_decay": 0.1}])
def test_a_head_trained_in_order_is_predicted(dtype, atol, settings):
    frozen, loader = backbone(dtype), DataLoader(data(dtype=dtype), batch_size=8)
    weights, optimizer, head = trained_head(frozen, loader, 0.05, 4, dtype, **settings)
    made = probe(frozen, loader)
    run = recipe(optimizer, loader, outputs=made.classes).descend(made.problem)
    np.testing.assert_allclose(weights, run.iterate(4), rtol=0, atol=atol)
    inputs, labels = loader.dataset.tensors
    hits = (head(frozen(inputs)).argmax(dim=1) == labels).double().mean()
    assert float(made.accuracy(run, 4)) == pytest.approx(float(hits))
    fresh = DataLoader(data(seed=5, dtype=dtype), batch_size=7)
    inputs, labels = fresh.dataset.tensors
    hits = (head(frozen(inputs)).argmax(dim=1) == labels).double().mean()
    assert made.accuracy(run, [0, 4], fresh)[1] == pytest.approx(float(hits))


def test_accuracy_is_that_of_the_mean_iterate():
    """Not the mean of the accuracies of single runs, which is lower: against all 720 orders of six samples."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(6) % 3
    inputs = torch.eye(3, dtype=torch.float64)[labels] + 0.3 * torch.randn(6, 3, generator=generator)
    made = probe(torch.nn.Identity(), DataLoader(TensorDataset(inputs, labels), batch_size=2))
    X, y, heads = made.problem.X, made.problem.y, []
    for order in permutations(range(6)):
        weights = np.zeros((4, 3))
        for batch in np.split(np.array(order), 3):
            weights -= 0.9 * X[batch].T @ (X[batch] @ weights - y[batch]) / 2
        heads.append(weights)
    single = np.mean([((X @ head).argmax(axis=1) == labels.numpy()).mean() for head in heads])
    of_mean = ((X @ np.mean(heads, axis=0)).argmax(axis=1) == labels.numpy()).mean()
    found = float(made.accuracy(rs.descend(made.problem, rs.SampleReshuffling(batch_size=2), step=0.9), 1))
    assert found == pytest.approx(of_mean)
    assert found > single + 0.05


def test_every_sample_is_taken_once_in_order_whatever_the_loader_does():
    plain = probe(backbone(), DataLoader(data(), batch_size=7)).problem
    for loader in (
        DataLoader(data(), batch_size=4, shuffle=True, drop_last=True),
        DataLoader(data(), batch_sampler=[[29, 0], list(range(1, 29))]),
        [data()[:10], data()[10:]],
    ):
        again = probe(backbone(), loader).problem
        # Products of another shape round differently.
        np.testing.assert_allclose(again.X, plain.X, rtol=1e-5, atol=1e-6)
        assert np.array_equal(again.y, plain.y)
    some = probe(backbone(), DataLoader(data(), 4, sampler=SubsetRandomSampler([5, 3, 9]))).problem
    np.testing.assert_allclose(some.X, plain.X[[3, 5, 9]], rtol=1e-5, atol=1e-6)


def test_numbers_are_learned_as_they_are():
    inputs, labels = data().tensors
    made = probe(backbone(), DataLoader(TensorDataset(inputs, labels / 2), 8), bias=False)
    assert (made.classes, made.problem.p, made.problem.outputs) == (None, 4, None)
    assert np.array_equal(made.problem.y, labels.numpy() / 2)
    with pytest.raises(ValueError, match="accuracy needs classes"):
        made.accuracy(rs.descend(made.problem, rs.FullBatch(), step=0.1), 1)
    several = probe(backbone(), DataLoader(TensorDataset(inputs, inputs), 8)).problem
    assert several.outputs == 5


def test_a_probe_plans_by_accuracy():
    loader = DataLoader(data(n=60), batch_size=8)
    made = probe(backbone(), loader)
    plan = made.plan(batch_sizes=[10, 60], epochs=50)
    assert plan.problem is made.problem
    assert 0 < plan.accuracy <= 1
    assert plan.accuracy == rs.plan(made.problem, batch_sizes=[10, 60], epochs=50).by_accuracy().accuracy
    fresh = made.rows(DataLoader(data(n=300, seed=7), batch_size=300))
    held_out = (fresh[0] @ plan.run.iterate(plan.best.epochs)).argmax(axis=1) == fresh[1]
    error = np.hypot(plan.classification.standard_error, held_out.std() / np.sqrt(300))
    assert abs(plan.accuracy - held_out.mean()) < 3 * error
    inputs, labels = data().tensors
    numbers = probe(backbone(), DataLoader(TensorDataset(inputs, labels / 2), 8))
    assert numbers.plan(batch_sizes=[30], epochs=5).classes is None
