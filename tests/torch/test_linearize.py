"""Linearized networks against really training them, and against gradients by hand."""

import copy
import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import reshuffle as rs
from reshuffle.torch import compare, linearize, recipe
from reshuffle.torch.tangents import Tangents, tangent_kernel
from tests.looped import for_all

DOUBLE = torch.float64


def data(n=12, outputs=2, dtype=DOUBLE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 3, generator=generator, dtype=dtype)
    targets = torch.stack([inputs[:, 0].sin(), inputs[:, 1] * inputs[:, 2]], dim=1)
    return TensorDataset(inputs, targets[:, :outputs])


def network(width=4, outputs=2, dtype=DOUBLE, seed=1):
    generator = torch.Generator().manual_seed(seed)
    layers = [torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, outputs)]
    model = torch.nn.Sequential(*layers).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype) / 2)
    return model.eval()


class Tangent(torch.nn.Module):
    """The tangent of a model, as a module that torch trains by itself; one gradient after the other."""

    def __init__(self, model):
        super().__init__()
        self.model, self.known = [copy.deepcopy(model)], {}
        weights = sum(one.numel() for one in model.parameters())
        self.change = torch.nn.Parameter(torch.zeros(weights, dtype=next(model.parameters()).dtype))

    def seen(self, sample):
        """What is said of a sample, and the gradients of that."""
        if tuple(sample.tolist()) not in self.known:
            said = self.model[0](sample[None])[0]
            weights = list(self.model[0].parameters())
            gradients = [torch.autograd.grad(one, weights, retain_graph=True) for one in said]
            rows = [torch.cat([part.ravel() for part in gradient]) for gradient in gradients]
            self.known[tuple(sample.tolist())] = said.detach(), torch.stack(rows)
        return self.known[tuple(sample.tolist())]

    def forward(self, inputs):
        before, rows = zip(*map(self.seen, inputs), strict=True)
        return torch.stack(before) + torch.stack(rows) @ self.change


def trained(module, loader, epochs, lr, loss=None, **settings):
    """torch's own loop."""
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, **settings)
    loss = loss or torch.nn.MSELoss()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(module(inputs), targets).backward()
            optimizer.step()
    return module(loader.dataset.tensors[0]).detach().numpy()


@for_all("by", ["features", "kernel"])
@for_all("dtype, atol", [(DOUBLE, 1e-11), (torch.float32, 1e-6)])
@for_all(
    "settings",
    [
        {},
        {"momentum": 0.7},
        {"momentum": 0.7, "nesterov": True, "loss": torch.nn.MSELoss(reduction="sum")},
    ],
)
def test_its_tangent_trained_in_order_by_torch_is_predicted(by, dtype, atol, settings):
    model = network(dtype=dtype)
    loader = DataLoader(data(n=11, dtype=dtype), batch_size=4)
    lr = 0.05 if "loss" not in settings else 0.01
    said = trained(Tangent(model), loader, 3, lr, **settings)
    lazy = linearize(model, loader, by=by)
    settings = dict(settings)
    loss = settings.pop("loss", None)
    loop = recipe(torch.optim.SGD(model.parameters(), lr=lr, **settings), loader, loss=loss)
    run = lazy.descend(loop)
    assert run.method == "exact"
    np.testing.assert_allclose(lazy.predict(run, None, 3), said, rtol=0, atol=atol)
    np.testing.assert_allclose(
        lazy.predict(run, loader.dataset.tensors[0], [0, 3])[1], said, rtol=0, atol=atol
    )
    mse = np.square(said - loader.dataset.tensors[1].numpy()).mean()
    assert float(lazy.loss(run, 3)) == pytest.approx(mse, abs=20 * atol)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [{"batch_size": 4}, {"batch_size": 5, "drop_last": True}], ids=str)
def test_the_mean_over_two_hundred_seeds_is_predicted(cut):
    model, seeds, lr = network(), 200, 0.3
    ends = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        loader = DataLoader(data(), shuffle=True, generator=generator, **cut)
        ends.append(trained(Tangent(model), loader, 3, lr))
    lazy = linearize(model, loader)
    run = lazy.descend(recipe(torch.optim.SGD(model.parameters(), lr=lr), loader))
    assert run.scheme == rs.GroupReshuffling(2, **cut)
    mean, std = lazy.predict(run, None, 3, return_std=True)
    error = np.std(ends, axis=0, ddof=1) / math.sqrt(seeds)
    assert error.max() > 1e-3
    assert (np.abs(np.mean(ends, axis=0) - mean) <= 4 * error).all()
    # The spread over seeds too, whose own standard error is about 1 / sqrt(2 seeds) of it.
    spread = np.std(ends, axis=0, ddof=1)
    assert np.linalg.norm(spread - std) < 4 * np.linalg.norm(std) / math.sqrt(2 * seeds)


def test_outputs_that_share_weights_are_not_those_that_do_not():
    """A probe has one head per output: there the outputs are strangers, and every sample is one row."""
    model = torch.nn.Linear(3, 2).double()
    loader = DataLoader(data(), batch_size=4, shuffle=True)
    lazy, made = linearize(model, loader), rs.torch.probe(torch.nn.Identity(), loader)
    loop = recipe(torch.optim.SGD(model.parameters(), lr=0.1), loader)
    start = np.column_stack([model.weight.detach().numpy(), model.bias.detach().numpy()]).T
    head = loop.descend(made.problem, start=start)
    # The mean is the same: each sample's two rows are orthogonal.
    said = made.problem.X @ head.iterate(3)
    np.testing.assert_allclose(lazy.predict(lazy.descend(loop), None, 3), said, atol=1e-10)


class Twice(torch.nn.Module):
    """A layer that is called twice, one whose weights are used beside its calls, or weights of its own."""

    def __init__(self, way):
        super().__init__()
        self.way, self.layer = way, network(3, 3)
        self.last = torch.nn.Linear(3, 2).double()
        if way == "scaled":
            self.scale = torch.nn.Parameter(torch.tensor(0.7, dtype=DOUBLE))

    def forward(self, inputs):
        made = self.last(self.layer(inputs))
        if self.way == "twice":
            return made + self.last(inputs)
        if self.way == "beside":
            return made + inputs @ self.last.weight.T
        return self.scale * made


def test_the_kernel_of_layers_is_that_of_gradients():
    inputs, _ = data().tensors
    model = torch.nn.Sequential(network(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2, bias=False).double())
    model[0][0].bias.requires_grad_(False)
    tangents = Tangents(model)
    rows = tangents.rows(inputs)
    assert tangents.count == rows.shape[1] == 3 * 6 + 6 * 5 + 5 + 10
    np.testing.assert_allclose(tangent_kernel(tangents, inputs, 2), rows @ rows.T, atol=1e-12)
    np.testing.assert_allclose(tangent_kernel(tangents, inputs[:4], 2, inputs), rows[:8] @ rows.T, atol=1e-12)


@pytest.mark.parametrize("way", ["twice", "beside", "scaled"])
def test_other_networks_go_by_their_gradients(way, monkeypatch):
    model = Twice(way)
    inputs, _ = data().tensors
    # Blocks of a few samples.
    monkeypatch.setattr("reshuffle.torch.tangents._BYTES", 8 * 2 * 40 * 10)
    tangents = Tangents(model)
    assert 1 < len(tangents.blocks(12, 4)) < 12
    rows = tangents.rows(inputs)
    np.testing.assert_allclose(tangent_kernel(tangents, inputs, 2), rows @ rows.T, atol=1e-12)
    np.testing.assert_allclose(
        tangent_kernel(tangents, inputs[:7], 2, inputs), rows[:14] @ rows.T, atol=1e-12
    )
    step = 1e-6
    with torch.no_grad():
        before = model(inputs)
        model.last.weight[1, 2] += step
        after = model(inputs)
    names = [name for name, one in model.named_parameters() for _ in range(one.numel())]
    column = names.index("last.weight") + 5
    slope = (after - before).numpy().ravel() / step
    np.testing.assert_allclose(rows[:, column], slope, atol=1e-5)


def test_convolutions_are_linearized():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 1)]
    model = torch.nn.Sequential(*layers).double()
    inputs = torch.randn(6, 1, 4, 4, dtype=DOUBLE)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=(1, 2, 3)) / 4), batch_size=2, shuffle=True)
    lazy = linearize(model, loader)
    assert (lazy.outputs, lazy.weights, lazy.problem.n) == (1, 29, 6)
    run = lazy.descend(recipe(torch.optim.SGD(model.parameters(), lr=0.01), loader))
    assert run.scheme == rs.SampleReshuffling(batch_size=2)
    assert lazy.loss(run, 10) < lazy.loss(run, 0)


@pytest.mark.slow
def test_the_learning_rate_at_which_it_diverges():
    model, loader = network(), DataLoader(data(), batch_size=4, shuffle=True)
    lazy = linearize(model, loader)
    loop = recipe(torch.optim.SGD(model.parameters(), lr=0.1), loader)
    single, mean = lazy.critical_learning_rate(loop), lazy.critical_learning_rate(loop, mean_square=False)
    assert single < mean
    for largest, mean_square in ((single, True), (mean, False)):
        for lr, converges in ((0.98 * largest, True), (1.02 * largest, False)):
            loop = recipe(torch.optim.SGD(model.parameters(), lr=lr), loader)
            run = lazy.descend(loop)
            found = run.mean_square_stability() if mean_square else run.stability()
            assert found.converges == converges


def test_classes_are_one_output_each_and_training_afterwards_changes_nothing():
    inputs, targets = data(n=20).tensors
    labels = (targets[:, 0] > 0).long()
    model = network(8)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=5, shuffle=True)
    lazy = linearize(model, loader)
    assert lazy.classes == 2
    assert np.array_equal(lazy.targets.round(12), np.eye(2)[labels.numpy()])
    run = lazy.descend(recipe(torch.optim.SGD(model.parameters(), lr=0.2), loader, outputs=2))
    said = lazy.predict(run, inputs[:3], 5)
    with torch.no_grad():
        model[0].weight.zero_()
    np.testing.assert_allclose(lazy.predict(run, inputs[:3], 5), said)
    right = (lazy.predict(run, None, 50).argmax(axis=1) == labels.numpy()).mean()
    assert lazy.accuracy(run, [0, 50])[1] == lazy.accuracy(run, 50, loader) == right
    numbers = linearize(network(), DataLoader(data(), batch_size=4))
    with pytest.raises(ValueError, match="accuracy needs classes"):
        numbers.accuracy(run, 1)


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.5, "nesterov": True}], ids=str)
def test_a_comparison_trains_both_as_torch_does(settings):
    model = network()
    kept = copy.deepcopy(model.state_dict())
    loader = DataLoader(data(n=10), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **settings)
    found = compare(model, loader, optimizer, [0, 2, 4], runs=1)
    real = trained(copy.deepcopy(model), loader, 4, 0.1, **settings)
    np.testing.assert_allclose(found.network[0, 2], real, atol=1e-12)
    tangent = trained(Tangent(model), loader, 4, 0.1, **settings)
    np.testing.assert_allclose(found.linear[0, 2], tangent, atol=1e-11)
    # In a fixed order the mean is the run.
    np.testing.assert_allclose(found.mean, found.linear[0], atol=1e-11)
    assert (found.distance[0], found.moved[0]) == (0.0, 0.0)
    assert 0.01 < found.distance[2] < 1
    assert found.network_loss[0, 2] == pytest.approx(np.square(real - data(n=10).tensors[1].numpy()).mean())
    assert all(torch.equal(kept[name], now) for name, now in model.state_dict().items())
    assert "apart by" in repr(found)
    assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.slow
def test_wide_networks_stay_closer_to_their_tangents():
    apart, close = [], []
    for width in (16, 1024):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(3, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)]
        model = torch.nn.Sequential(*layers).double()
        loader = DataLoader(data(n=20), batch_size=5, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=2 / width)
        found = compare(model, loader, optimizer, 20, runs=10, rtol=0.05)
        apart.append(found.distance[0])
        close.append(found.holds()[0])
        assert found.weights_moved.max() < 1
        # What is computed is the mean of what is linear, within chance and its error.
        off = np.linalg.norm(found.linear.mean(axis=0) - found.mean)
        spread = np.linalg.norm(found.linear.std(axis=0, ddof=1)) / math.sqrt(10)
        assert off < 3 * spread + found.mean_error[0]
    assert apart[1] < apart[0] / 4
    assert close == [False, True]
    assert found.mean_distance[0] < 0.1


def drawn_of(lazy, loop, **asked):
    """As of a network that is too large to be decomposed."""
    made = lazy.descend(loop, budget=1.0, **asked)
    assert isinstance(made, rs.torch.DrawnRuns)
    return made


@pytest.fixture
def undecomposed(monkeypatch):
    monkeypatch.setattr("reshuffle.epoch.select._DECOMPOSITION", 1e12)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["by layers", "by derivatives"])
@pytest.mark.parametrize("settings", [{}, {"momentum": 0.5, "nesterov": True}], ids=str)
def test_networks_too_large_to_decompose_are_followed_along_drawn_orders(
    settings, way, undecomposed, monkeypatch
):
    """In a fixed order there is one run, which is known exactly, and the mean over three batches is known too."""
    if way == "by derivatives":
        monkeypatch.setattr("reshuffle.torch.drawn_runs.layer_signals", lambda tangents, inputs: None)
    model = network()
    inputs, _ = data().tensors
    for shuffle in (False, True):
        loader = DataLoader(data(), batch_size=4, shuffle=shuffle)
        lazy = linearize(model, loader)
        assert "rows" in repr(lazy)
        loop = recipe(torch.optim.SGD(model.parameters(), lr=0.1, **settings), loader)
        drawn = drawn_of(lazy, loop, runs=12)
        epochs = np.array([[0, 3], [6, 3]])
        losses, error = lazy.loss(drawn, epochs), 2 * drawn.training_loss_error(epochs)
        mean, off, std = drawn.predict(inputs[:2], epochs)
        assert "_posed" not in lazy.__dict__
        # With momentum that mean is the cavity's, which is off by a hundredth or so.
        method, slack = ("cavity", 1e-2) if shuffle and settings else ("exact", 1e-11)
        computed = lazy.descend(loop, method=method, rtol=2e-2)
        assert (np.abs(losses - lazy.loss(computed, epochs)) <= error + slack).all()
        told = lazy.predict(computed, inputs[:2], epochs) - lazy.predict(computed, inputs[:2], 0)
        assert (np.abs(told - mean) <= off + slack).all()
        if not shuffle:
            np.testing.assert_allclose(std, 0, atol=1e-13)
        said, spread = lazy.predict(drawn, None, epochs, return_std=True)
        assert said.shape == spread.shape == (2, 2, *lazy.before.shape)
        np.testing.assert_allclose(said[:, :, :2], lazy.before[:2] + mean, atol=1e-12)


def test_drawn_runs_are_those_of_their_seed_answer_for_whole_epochs_and_may_diverge(undecomposed):
    model, loader = network(), DataLoader(data(), batch_size=4, shuffle=True)
    lazy, loop = linearize(model, loader), recipe(torch.optim.SGD(model.parameters(), lr=0.1), loader)
    one, other = (drawn_of(lazy, loop, runs=3, seed=seed) for seed in (0, 1))
    first = one.moved(None, [2])
    one.moved(None, [1, 4])
    np.testing.assert_array_equal(one.moved(None, [4, 2])[:, 1], first[:, 0])
    assert np.abs(other.moved(None, [2]) - first).max() > 1e-6
    assert "followed\n  not decomposed" in repr(one.choice)
    with pytest.raises(ValueError, match="whole numbers where orders are drawn"):
        lazy.loss(one, math.inf)
    found = compare(model, loader, torch.optim.SGD(model.parameters(), lr=0.01), epochs=[2], budget=1.0)
    assert found.mean_error > 0
    assert "_posed" not in lazy.__dict__
    wild = drawn_of(lazy, recipe(torch.optim.SGD(model.parameters(), lr=1e8), loader), runs=2)
    assert np.isinf(lazy.loss(wild, 60))
    assert np.isinf(wild.training_loss_error(60))
