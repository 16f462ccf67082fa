"""Many seeded runs of real torch and scikit-learn, and how far their means are from exact answers."""

import warnings
from functools import partial

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

import reshuffle as rs

torch.set_num_threads(1)


def problem(n, p, *, seed=0, noise=0.5, intercept=False):
    """A least-squares problem; with an intercept its last feature is 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if intercept:
        X = np.column_stack([X, np.ones(n)])
    beta_star = rng.standard_normal(X.shape[1])
    y = X @ beta_star + noise * rng.standard_normal(n)
    return rs.LeastSquares(X, y, beta_star=beta_star, noise=noise)


def loader(data, seed, *, batch_size, shuffle=False, drop_last=False, replacement=False):
    """A DataLoader with a generator of its own."""
    generator = torch.Generator().manual_seed(seed)
    arguments = {"batch_size": batch_size, "drop_last": drop_last, "generator": generator}
    if replacement:
        sampler = RandomSampler(data, replacement=True, generator=generator)
        return DataLoader(data, sampler=sampler, **arguments)
    return DataLoader(data, shuffle=shuffle, **arguments)


def batch_loader(data, seed, *, batch_size):
    """A DataLoader over whole batches that were cut beforehand: a fixed partition in random order."""
    whole = [data[start : start + batch_size] for start in range(0, len(data), batch_size)]
    return DataLoader(whole, batch_size=None, shuffle=True, generator=torch.Generator().manual_seed(seed))


class OneAfterTheOther:
    """An iterable that is another DataLoader in later epochs."""

    def __init__(self, stages):
        self._loaders = iter([batches for epochs, batches in stages for _ in range(epochs)])

    def __iter__(self):
        return iter(next(self._loaders))


class Subsets(torch.utils.data.Sampler):
    """Batches of distinct rows, drawn afresh for every step, as a batch sampler of torch."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.generator = n, size, torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(self.n // self.size):
            yield torch.randperm(self.n, generator=self.generator)[: self.size].tolist()


LOADERS = {
    "order": (loader, rs.Cyclic),
    "batches": (batch_loader, rs.RandomReshuffling),
    "samples": (partial(loader, shuffle=True), rs.SampleReshuffling),
    "replacement": (partial(loader, shuffle=None, replacement=True), rs.SampleWithReplacement),
    "subsets": (
        lambda data, seed, batch_size: DataLoader(data, batch_sampler=Subsets(len(data), batch_size, seed)),
        rs.SampleSubsets,
    ),
}
"""What makes a DataLoader from data and a seed, and the scheme that it stands for."""


def visits(kind, size, **cut):
    """A maker of DataLoaders and its scheme; `size` is that of a batch, or a list of (epochs, size) of stages."""
    make, scheme = LOADERS[kind]
    if isinstance(size, int):
        return partial(make, batch_size=size, **cut), scheme(batch_size=size, **cut)

    def staged(data, seed):
        every = enumerate(size)
        return OneAfterTheOther(
            [(epochs, make(data, seed + 1000 * k, batch_size=one)) for k, (epochs, one) in every]
        )

    return staged, rs.Stages([(epochs, scheme(batch_size=one)) for epochs, one in size])


def torch_runs(least_squares, make_loader, *, epochs, runs, lr, scheduler=None, per="epoch", unpenalized=(),
               average=None, copies_start=True, **settings):  # fmt: skip
    """The parameters (runs, p) that torch.optim.SGD ends with, or those of its AveragedModel.

    `scheduler` is stepped after every epoch, or after every batch. The parameters of `unpenalized` columns are a
    group of their own, without weight decay. A moving average begins at the start where `copies_start`.
    """
    data = TensorDataset(torch.tensor(least_squares.X), torch.tensor(least_squares.y))
    free = [column % least_squares.p for column in unpenalized]
    others = [column for column in range(least_squares.p) if column not in free]
    model = torch.nn.ParameterList(
        [torch.zeros((runs, len(columns)), dtype=torch.float64) for columns in (others, free)]
    )
    groups = [{"params": [model[0]]}, {"params": [model[1]], "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=lr, **settings)
    changing = scheduler and scheduler(optimizer)
    moving = isinstance(average, rs.EMA)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(average.decay) if moving else None)
    if moving and copies_start:
        averaged.update_parameters(model)
    loaders = [make_loader(data, seed) for seed in range(runs)]
    for epoch in range(epochs):
        counts = average and (moving or epoch >= average.start)
        for features, responses, sizes in side_by_side(loaders):
            optimizer.zero_grad()
            predicted = (
                features[..., others] @ model[0][..., None] + features[..., free] @ model[1][..., None]
            )
            losses(predicted[..., 0], responses, sizes).backward()
            optimizer.step()
            if changing and per == "visit":
                changing.step()
            if counts and average.per == "visit":
                averaged.update_parameters(model)
        if changing and per == "epoch":
            changing.step()
        if counts and average.per == "epoch":
            averaged.update_parameters(model)
    ends = np.zeros((runs, least_squares.p))
    for columns, found in zip((others, free), averaged.module if average else model, strict=True):
        ends[:, columns] = found.detach().numpy()
    return ends


def both(least_squares, kind, size, *, epochs, lr, runs=1, step=None, cut=(), rtol=None, **settings):
    """Ends of torch and the run of ours; steps are twice the learning rate, since MSELoss has no factor 1/2."""
    make_loader, scheme = visits(kind, size, **dict(cut))
    ends = torch_runs(least_squares, make_loader, epochs=epochs, runs=runs, lr=lr, **settings)
    ours = {
        name: settings[name]
        for name in ("momentum", "nesterov", "unpenalized", "average")
        if name in settings
    }
    ours |= {} if rtol is None else {"rtol": rtol}
    penalty = settings.get("weight_decay", 0.0) / 2
    return ends, rs.descend(
        least_squares, scheme, step=2 * lr if step is None else step, penalty=penalty, **ours
    )


def side_by_side(loaders):
    """The batches of several loaders at once: features (runs, b, p), responses (runs, b), sizes (runs,).

    Runs do not see each other, and an optimizer works entry by entry: all of them are trained as one. Batches that
    are smaller than those of other runs are filled up with rows of zeros, which have no gradient.
    """
    pad = torch.nn.utils.rnn.pad_sequence
    for batches in zip(*loaders, strict=True):
        features, responses = zip(*batches, strict=True)
        counts = torch.tensor([len(each) for each in responses])
        yield pad(features, batch_first=True), pad(responses, batch_first=True), counts


def losses(predicted, responses, counts):
    """The sum over runs of the mean squared error of each, as MSELoss defines it."""
    return (torch.nn.functional.mse_loss(predicted, responses, reduction="none").sum(dim=1) / counts).sum()


class FromZero(MLPRegressor):
    """Scikit-learn's own training loop, started at zero in place of a random point."""

    def _init_coef(self, fan_in, fan_out, dtype):
        return np.zeros((fan_in, fan_out), dtype), np.zeros(fan_out, dtype)


def mlp_runs(least_squares, *, epochs, runs, lr, batch_size, shuffle, momentum=0.0, nesterov=False):
    """The coefficients and the intercept (runs, p) of an MLPRegressor with no hidden layer."""
    ends = []
    for seed in range(runs):
        model = FromZero(
            hidden_layer_sizes=(),
            solver="sgd",
            alpha=0.0,
            batch_size=batch_size,
            learning_rate_init=lr,
            momentum=momentum,
            nesterovs_momentum=nesterov,
            shuffle=shuffle,
            max_iter=epochs,
            tol=0.0,
            n_iter_no_change=10 * epochs,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # It is stopped on purpose.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(least_squares.X[:, :-1], least_squares.y)
        ends.append(np.concatenate([model.coefs_[0].ravel(), model.intercepts_[0]]))
    return np.array(ends)


def agree(least_squares, ends, run, epochs):
    """Mean iterate and expected risk given the responses within four standard errors of the runs."""
    count = len(ends)
    exact = run.iterate(epochs)
    error = ends.std(axis=0, ddof=1) / np.sqrt(count)
    # Rounding, and what an answer that is not exact says of itself.
    slack = 1e-10 + run.iterate_error(epochs)
    assert (np.abs(ends.mean(axis=0) - exact) <= 4 * error + slack).all()
    expected = run.expected_risk(epochs, given_responses=True)
    risks = np.square(ends - least_squares.beta_star).sum(axis=1)
    error = risks.std(ddof=1) / np.sqrt(count)
    allowed = 4 * np.hypot(error, float(expected.error) / 3) + 1e-10
    assert abs(risks.mean() - float(expected.total)) <= allowed
    return risks, expected


def spread_agrees(least_squares, ends, run, epochs, X_new):
    """The spread of parameters and predictions within four standard errors of that of the runs."""
    covariance = run.covariance(epochs)
    for found, seen, off in (
        (covariance.standard_deviations, ends, covariance.deviation_error(np.eye(least_squares.p))),
        (run.predict(X_new, epochs, return_std=True)[1], ends @ X_new.T, covariance.deviation_error(X_new)),
    ):
        squares = np.square(seen - seen.mean(axis=0))
        variance = squares.mean(axis=0) * len(ends) / (len(ends) - 1)
        error = squares.std(axis=0, ddof=1) / np.sqrt(len(ends))
        allowed = 4 * np.hypot(error, 2 * found * off / 3) + 1e-20
        assert (np.abs(variance - found**2) <= allowed).all()
        # The agreement would mean little if runs did not differ.
        assert (found > 1e-3).all()
    predicted = run.predict(X_new, epochs)
    seen = ends @ X_new.T
    slack = 1e-10 + run.iterate_error(epochs) * np.linalg.norm(X_new, axis=1)
    assert (
        np.abs(seen.mean(axis=0) - predicted) <= 4 * seen.std(axis=0, ddof=1) / np.sqrt(len(ends)) + slack
    ).all()
