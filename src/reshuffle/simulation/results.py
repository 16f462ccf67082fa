"""Averages over simulated runs, with their standard errors."""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import norms
from reshuffle._uncertainty import CONFIDENCE, ErrorKind, mean_squares, with_error, with_largest_error
from reshuffle.problem.least_squares import LeastSquares


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A mean over simulated runs and its standard error, of the same shape.

    Attributes
    ----------
    mean, standard_error : arrays of one shape

    >>> Estimate(np.array(2.0), np.array(0.1))
    Estimate(mean=2.00 +- 0.30 (confidence 99%))
    >>> Estimate(np.ones(3), np.array([0.1, 0.2, 0.1]))
    Estimate(mean of shape (3,) +- 0.6 at most (confidence 99%))
    """

    mean: FloatArray
    standard_error: FloatArray

    @property
    def error(self) -> FloatArray:
        """Three standard errors, which cover in 99 of 100 cases from about 30 runs on."""
        return 3 * self.standard_error

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense `error` is meant."""
        return CONFIDENCE

    def __repr__(self) -> str:
        if self.mean.size == 1:
            return f"Estimate(mean={with_error(self.mean.item(), self.error.item(), self.error_kind)})"
        return f"Estimate(mean {with_largest_error(self.mean.shape, self.error, self.error_kind)})"


@dataclass(frozen=True, eq=False)
class Simulation:
    """Estimates from simulated runs; the last axis of each is the output, if there are several.

    Attributes
    ----------
    epochs : array
        As asked for; the estimates carry its shape.
    iterate : Estimate
        The mean iterate, epochs.shape + (p,), over orders (and over noise, if that was drawn anew).
    expected_risk : Estimate or None
        |b - beta_star|_Sigma^2 of a single run, on average: the risk of the mean iterate plus the spread.
    risk : Estimate or None
        The risk of the mean iterate, without bias: from pairs of runs that share their noise but not
        their orders, (b - beta_star)' Sigma (b' - beta_star).
    spread : Estimate or None
        What shuffling adds to the risk of the mean iterate: half the squared distance |b - b'|_Sigma^2 of such a
        pair. The noise that the two share cancels, so this is known far better than the risk itself.
    test_error : Estimate or None
        The mean of (x'b - x'beta_star)^2 over test samples that each run draws for itself: the risk of a
        single run as one would measure it.
    runs : int
    """

    epochs: FloatArray
    iterate: Estimate
    expected_risk: Estimate | None
    risk: Estimate | None
    spread: Estimate | None
    test_error: Estimate | None
    runs: int

    def __repr__(self) -> str:
        return f"Simulation(runs={self.runs}, epochs of shape {self.epochs.shape})"


class PairTally:
    """Sums over pairs of runs at each of the stops: runs of a pair share their noise."""

    def __init__(self, problem: LeastSquares, stops: int):
        self.problem = problem
        self.knows_truth = problem.beta_star is not None
        self.pairs = np.zeros(stops)
        self.mean = np.zeros((stops, problem.p))
        self.squares = np.zeros((stops, problem.p))
        self.units = np.ones(stops)
        self.risks: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.products: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.distances: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.tests: list[list[FloatArray]] = [[] for _ in range(stops)]

    def add(self, stop: int, state: FloatArray) -> None:
        """Take down the parameters (runs, p) of a block of runs."""
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = (state[0::2] + state[1::2]) / 2
            self.pairs[stop], self.mean[stop] = len(pairs), pairs.mean(axis=0)
            # Squares are kept in units of the parameters: those of tiny ones would vanish.
            size = float(np.abs(pairs).max(initial=0.0))
            self.units[stop] = size if 0 < size < np.inf else 1.0
            pairs -= self.mean[stop]
            pairs /= self.units[stop]
            self.squares[stop] = np.einsum("ij,ij->j", pairs, pairs)
            if self.knows_truth:
                errors = state - np.asarray(self.problem.beta_star)
                weighted = self.problem.covariance.apply(errors.T).T
                risks = np.einsum("ij,ij->i", errors, weighted)
                self.risks[stop].append((risks[0::2] + risks[1::2]) / 2)
                self.products[stop].append(np.einsum("ij,ij->i", errors[0::2], weighted[1::2]))
                apart, weighted_apart = errors[0::2] - errors[1::2], weighted[0::2] - weighted[1::2]
                self.distances[stop].append(np.einsum("ij,ij->i", apart, weighted_apart) / 2)

    def add_tests(self, history: FloatArray, copies: int, samples: int, rng: np.random.Generator) -> None:
        """Try each run of (stops, runs, p) on test samples of its own, the same ones at every stop.

        Where runs are `copies` of each other, each of these has its own.
        """
        beta_star, covariance, _ = self.problem.truth("test_samples")
        # Test features are z Sigma^(1/2) with z white: the root goes to the errors' side.
        root = covariance.root()
        errors = np.concatenate(
            [
                mean_squares(root(history[:, run] - beta_star), samples, rng, copies)
                for run in range(history.shape[1])
            ]
        )
        for stop, values in enumerate(errors.T):
            self.tests[stop].append((values[0::2] + values[1::2]) / 2)

    def merge(self, other: "PairTally") -> None:
        """Take in the runs of another block, by the update of Chan, Golub and LeVeque."""
        counts = self.pairs[:, np.newaxis]
        share = other.pairs[:, np.newaxis] / (counts + other.pairs[:, np.newaxis])
        with np.errstate(over="ignore", invalid="ignore"):
            self.units = np.where(self.pairs > 0, self.units, other.units)
            unit = self.units[:, np.newaxis]
            shift = other.mean - self.mean
            self.squares += other.squares * np.square(other.units / self.units)[:, np.newaxis]
            self.squares += np.square(shift / unit) * counts * share
            self.mean += shift * share
        self.pairs += other.pairs
        for mine, theirs in (
            (self.risks, other.risks), (self.products, other.products), (self.distances, other.distances),
            (self.tests, other.tests),
        ):  # fmt: skip
            for stop, parts in enumerate(theirs):
                mine[stop] += parts

    def result(self, epochs: FloatArray, positions: IntArray, runs: int) -> Simulation:
        """Spread the tallies over the epochs as they were asked for."""
        pairs = runs // 2

        def estimate(mean: FloatArray, error: FloatArray) -> Estimate:
            # Beyond the range of numbers a run has diverged, and so has the mean; nothing is known of its error.
            mean = np.where(np.isfinite(mean), mean, np.inf)
            error = np.where(np.isfinite(mean) & np.isfinite(error), error, np.inf)
            shape = epochs.shape + mean.shape[1:]
            return Estimate(mean[positions].reshape(shape), error[positions].reshape(shape))

        def of_samples(samples: list[list[FloatArray]]) -> Estimate:
            values = np.array([np.concatenate(parts) for parts in samples]).reshape(len(samples), pairs)
            with np.errstate(over="ignore", invalid="ignore"):
                mean = values.mean(axis=1)
                return estimate(mean, norms(values - mean[:, np.newaxis]) / np.sqrt(pairs * (pairs - 1.0)))

        with np.errstate(invalid="ignore"):
            of_iterate = self.units[:, np.newaxis] * np.sqrt(self.squares / (pairs - 1) / pairs)
        return Simulation(
            epochs=epochs,
            iterate=estimate(self.mean, of_iterate),
            expected_risk=of_samples(self.risks) if self.knows_truth else None,
            risk=of_samples(self.products) if self.knows_truth else None,
            spread=of_samples(self.distances) if self.knows_truth else None,
            test_error=of_samples(self.tests) if any(self.tests) else None,
            runs=runs,
        )
