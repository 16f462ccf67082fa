"""The risk of the run itself: over orders and noise, not of the mean iterate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, CALL, duration, require_affordable, warn_of_no_answer
from reshuffle._display import Displayed
from reshuffle._progress import track
from reshuffle._uncertainty import (
    CONFIDENCE,
    MOST_GROUPS,
    ErrorKind,
    error_of_mean,
    quantile,
    significant,
    with_error,
)
from reshuffle.epoch.averaging.lattice import climbs
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments import drawn
from reshuffle.epoch.moments.averages import AveragedMoments
from reshuffle.epoch.moments.drawn import A_ROW, CentredDraws
from reshuffle.epoch.moments.lattice import distance, epoch_moments, flops, is_stationary
from reshuffle.epoch.moments.matrix import MOST_ENTRIES, FarMoments
from reshuffle.epoch.moments.stationary import stationary
from reshuffle.epoch.select import SPREADS, Choice, Method, too_much
from reshuffle.epoch.timeline import Timeline, through_stages
from reshuffle.epoch.visits import Inputs, Visits
from reshuffle.errors import ArgumentError
from reshuffle.run.modes import Epoch, ModesTrajectory
from reshuffle.run.trajectory import AffineTrajectory, Risk
from reshuffle.schemes.base import Shuffle, shares_visits
from reshuffle.simulation import simulate

_ROUNDING = 1e-8
"""Relative to the terms that are added: what many epochs of rounding may do to a sum of them."""
_SAMPLED_FLOPS = 4e10
_FEWEST_RUNS, MOST_RUNS = 100, 4000
_FEW_SECONDS = 3 * A_SECOND
"""Operations up to which an exact spread is worth more than a quick one."""
_PILOT = 200
"""Simulated runs that tell how many it takes."""
_REMEMBERED_BYTES = 4e9
"""Memory of the mean maps of all subsets of the batches."""
_ROUNDS_OF_A_LIMIT = 100
"""Epochs of second moments that their limit costs."""
_ALL_ANEW = 3.0
"""The price of an epoch with a different step, over that of one that is like the others."""


@dataclass(frozen=True, eq=False)
class ExpectedRisk(Displayed):
    r"""E |beta_k - beta_star|_Sigma^2 of one run, over its random orders and the noise in its responses.

    .. math::
        E |\beta_k - \beta_*|_\Sigma^2 = E |\bar\beta_k - \beta_*|_\Sigma^2 + E |\beta_k - \bar\beta_k|_\Sigma^2

    where the bar is the mean over orders.

    Each part has the shape of `epochs`, or epochs.shape + (t,) of t outputs; what grows without bound is inf.

    Attributes
    ----------
    epochs : array
        The requested epochs.
    total : array
        The expected risk: mean + spread.
    mean : array
        The risk of the mean iterate, which averaging many runs would have.
    spread : array
        The part due to shuffling: E |beta_k - E beta_k|_Sigma^2 over the orders.
    error : array
        Error of the total: where orders were sampled, at least 99 of 100 seeds are within it; otherwise an estimate
        of the remainder of a fixed-point iteration, and 0 where all is exact up to rounding.
    error_kind : str
        Kind of the error, respectively: "confidence 99%", "estimate" or "exact".
    """

    _shown = ("epochs", "total", "mean", "spread", "error", "error_kind")

    epochs: FloatArray
    total: FloatArray
    mean: FloatArray
    spread: FloatArray
    error: FloatArray
    error_kind: ErrorKind = "exact"

    def __repr__(self) -> str:
        if self.total.ndim or self.epochs.size == 0:
            largest = float(self.error.max(initial=0.0))
            off = f", error at most {significant(largest, 2)} ({self.error_kind})" if largest else ""
            return f"ExpectedRisk(shape={self.total.shape}{off})"
        return (
            f"ExpectedRisk(total={with_error(self.total, self.error, self.error_kind)}: "
            f"mean={float(self.mean):.6g}, spread={float(self.spread):.6g})"
        )


class _Found(NamedTuple):
    """Mean and spread at the distinct epochs (k,), error and kind of their sum, and the sum if it is known."""

    mean: FloatArray
    spread: FloatArray
    error: FloatArray
    kind: ErrorKind
    total: FloatArray | None = None


def expected_risk(
    run: AffineTrajectory, modes: ModesTrajectory | None, clock: FloatArray, given_responses: bool
) -> ExpectedRisk:
    """E |beta_k - beta_star|_Sigma^2 over orders and noise, at epochs of any shape.

    `modes` is the same run in the modes of its mean map, if that is symmetric. With `given_responses` the average
    is over the orders alone, with the responses of the problem.
    """
    when, back = np.unique(clock.ravel(), return_inverse=True)
    question = _Question(run, modes, when, given_responses)
    # From zero to responses of zero the error and the residuals of the truth would cancel at every visit, and what
    # expands enlarges the rounding.
    at_rest = given_responses and not (run.start.any() or run.visited.compressed.y.any())
    by = question.followed
    if at_rest or not run.space.dimension:
        by = question.deterministic
    else:
        taken = choice(run, modes, when, given_responses).taken
        if taken in ("centred maps", "simulation"):
            by = question.by_centred_maps if taken == "centred maps" else question.simulated
        elif taken in ("each order by itself", "no orders differ"):
            by = question.of_orders if run.timeline.count > 1 else question.deterministic
    mean, spread, error, kind, total = by()
    total = mean + spread if total is None else total
    spread = np.where(np.isinf(total), np.inf, spread)
    total, mean, spread, error = np.stack([total, mean, spread, error])[:, back].reshape(4, *clock.shape)
    return ExpectedRisk(clock, total, mean, spread, error, kind)


class _Question:
    """The expected risk of a run at ascending epochs (k,), and the methods to compute it."""

    def __init__(
        self, run: AffineTrajectory, modes: ModesTrajectory | None, when: FloatArray, given_responses: bool
    ):
        self.run, self.modes, self.when, self.given_responses = run, modes, when, given_responses
        if given_responses:
            self.beta_star = run.problem.parameters("the risk given the responses")
            truth = run.inside(self.beta_star)
            self.inputs = Inputs(truth, given=run.blocks.response[:, 0] - run.blocks.rows @ truth)
        else:
            self.beta_star, _, noise = run.problem.truth("the expected risk")
            self.inputs = Inputs(run.inside(self.beta_star), noise=noise)
        self.start = run.inside(run.initial_error)

    def mean_risk(self) -> tuple[FloatArray, FloatArray]:
        """The risk of the mean iterate, and its error; given the responses, |b - beta_star|_Sigma^2 at b itself."""
        run = self.run if self.modes is None else self.modes
        if not self.given_responses:
            risk = run.risk(self.when)
            return risk.total, risk.error
        covariance = run.problem.covariance

        def of(run: AffineTrajectory | ModesTrajectory) -> FloatArray:
            errors = run.iterate(self.when)[..., 0] - self.beta_star
            return np.array([covariance.norm_squared(e) if np.isfinite(e).all() else np.inf for e in errors])

        value = of(run)
        return value, run.sampling_error(of, value)

    def deterministic(self) -> _Found:
        """A run that is always the same is its own mean: nothing is spread."""
        nothing = np.zeros(len(self.when))
        return _Found(self.mean_risk()[0], nothing, nothing, "exact")

    def followed(self) -> _Found:
        """Visit by visit, by the recursion over all orders."""
        run, modes, when, form = self.run, self.modes, self.when, self.run.form
        if modes is not None and run.recipe.is_constant and climbs(run.scheme) and run.visited is run.problem:
            # The symmetric mean is known already.
            run.timeline.learn(mean_of(modes.epoch, run, run.timeline.visits(0)))
        (mean, _), totals, scale = self.mean_risk(), None, run.space.scale
        spread, errors = np.zeros(len(when)), np.zeros(len(when))
        if run.recipe.average is not None:
            followed = AveragedMoments(run.timeline, self.inputs, self.start).covariances(when)
            for number, (covariance, share) in enumerate(followed):
                # Rounding may leave a covariance of nothing just below zero.
                spread[number] = max(form.inside(covariance / scale / scale), 0.0)
                errors[number] = share * spread[number] if share else 0.0
        else:
            totals, snapshots = np.zeros(len(when)), moments_along(run.stages, self.inputs, self.start, when)
            for number, (snapshot, decay) in enumerate(zip(snapshots, run.outside_decay(when), strict=True)):
                matrix, mean_error = snapshot.matrix / scale / scale, snapshot.mean / scale
                inside = totals[number] = form.inside(matrix)
                errors[number] = snapshot.error * inside if snapshot.error else 0.0
                if np.isfinite(inside):
                    cross, outside = float(form.between(mean_error, float(decay))), form.outside(float(decay))
                    rounding = _ROUNDING * (form.size(matrix) + abs(cross) + outside)
                    totals[number] = max(total := inside + cross + outside, 0.0)
                    if total < -rounding:
                        raise ArithmeticError(
                            f"the expected risk after {when[number]:g} epochs came out as {total:g}, below zero by "
                            f"more than rounding ({rounding:.1g}): the recursion of second moments has lost its "
                            "accuracy; try a smaller step."
                        )
            # Both are sums of the same size, so that their difference may round to just below zero.
            totals = np.maximum(totals, mean)
            spread = totals - mean
        return _Found(mean, spread, errors, "estimate" if errors.any() else "exact", totals)

    def of_orders(self) -> _Found:
        """Over orders that are drawn once, along each of which nothing is random but the noise."""
        run, inputs, form, space = self.run, self.inputs, self.run.form, self.run.space
        given = None if inputs.given is None else np.concatenate([[1.0], inputs.given])[:, np.newaxis]
        outside_decay, mean = run.outside_decay(self.when), np.zeros(len(self.when))
        risks = np.zeros((run.timeline.count, len(self.when)))

        def risk(states: FloatArray, number: int) -> FloatArray:
            parts = form.of_states(states / space.scale, float(outside_decay[number]), inputs.noise)
            return Risk(self.when, *parts).total

        def watch(place: slice, number: int, states: FloatArray) -> None:
            risks[place, number] = risk(states[:, : space.dimension], number)

        for number, state in enumerate(run.means(self.start[:, np.newaxis], self.when, given, watch)):
            mean[number] = risk(state[np.newaxis], number)[0]
        total, sampled = risks.mean(axis=0), run.timeline.samples_orders
        # Sampled orders come in pairs of an order and its reverse, whose differences give the error.
        errors = error_of_mean((risks[0::2] + risks[1::2]) / 2) if sampled else np.zeros(len(self.when))
        # Both are sums of the same size, so that their difference may round to just below zero.
        spread = np.maximum(total - mean, 0.0)
        return _Found(mean, spread, errors, CONFIDENCE if sampled else "exact", total)

    def by_centred_maps(self) -> _Found:
        """The mean iterate's risk as it is known, plus the spread by the centred maps of drawn orders."""
        run, d, rank, scale = self.run, self.run.dimension, self.run.space.dimension, self.run.space.scale
        mean, mean_error = self.mean_risk()
        weights, start = np.zeros((d, d)), np.zeros(d)
        gram = run.form.gram if run.form.gram.ndim == 2 else np.diag(run.form.gram)
        weights[:rank, :rank], start[:rank] = gram / scale / scale, self.start
        draws = centred_draws(run, self.modes, self.inputs)
        spread, errors = draws.spread(weights, start, self.when, run.accuracy)
        # An error of the decay rates is as large a share of the spread as of the time for which it lasts.
        share = 0.0 if self.modes is None else self.modes.epoch.error
        errors = np.where(np.isfinite(mean), np.hypot(errors + share * spread, mean_error), np.inf)
        return self._estimated(mean, spread, errors)

    def simulated(self) -> _Found:
        """The mean iterate's risk as it is known, plus the spread of simulated runs, with its standard error.

        Runs come in pairs that share their noise: half their squared distance has the spread for its mean, and the
        noise, by far the larger part of what varies, cancels in it.
        """
        run, recipe, last = self.run, self.run.recipe, float(self.when.max(initial=0.0))
        # A second's worth, or a few that tell how many it takes.
        first = max(_PILOT, 2 * int(A_SECOND / simulation_flops(run, 2, last)))
        runs, (mean, mean_error) = min(affordable(run, self.when), first), self.mean_risk()
        parts = []
        for number in range(2):
            found = simulate(
                run.problem,
                run.scheme,
                step=recipe.schedule if recipe.divisor == 1 else None,
                alpha=None if recipe.divisor == 1 else recipe.schedule,
                penalty=recipe.penalty,
                momentum=recipe.momentum,
                average=recipe.average,
                nesterov=recipe.nesterov,
                unpenalized=recipe.unpenalized,
                epochs=self.when,
                runs=runs,
                start=run.start[:, 0],
                seed=run.accuracy.seed if number == 0 else np.random.default_rng([run.accuracy.seed, number]),
                fresh_noise=not self.given_responses,
            ).spread
            assert found is not None
            parts.append((runs, found.mean, np.square(found.standard_error)))
            known = np.isfinite(found.standard_error) & (found.mean > 0)
            share = float((found.standard_error[known] / found.mean[known]).max(initial=0.0))
            missing = runs * (np.square(share / run.accuracy.of(SPREADS)) - 1)
            affordable_runs = max(run.accuracy.budget, A_SECOND) / simulation_flops(run, 1, last)
            runs = 2 * int(min(missing, affordable_runs, MOST_RUNS) / 2)
            if runs < _FEWEST_RUNS / 10:
                break
        counts, spreads, squares = (np.array(each) for each in zip(*parts, strict=True))
        weights = (counts / counts.sum())[:, np.newaxis]
        standard_error = np.sqrt((np.square(weights) * squares).sum(axis=0))
        errors = np.hypot(quantile(counts.sum() // 2) * standard_error, mean_error)
        return self._estimated(mean, (weights * spreads).sum(axis=0), errors)

    def _estimated(self, mean: FloatArray, spread: FloatArray, errors: FloatArray) -> _Found:
        begin = self.run.problem.covariance.norm_squared(self.run.initial_error)
        warn_of_no_answer(self.when, mean + spread, errors, begin)
        return _Found(mean, spread, errors, CONFIDENCE)


class Snapshot(NamedTuple):
    """Second moment or covariance (r, r) of the parameters at one time, their mean (r,), and the relative error."""

    matrix: FloatArray
    mean: FloatArray
    error: float = 0.0


def moments_along(
    stages: Sequence[Timeline], inputs: Inputs, start: FloatArray, epochs: FloatArray, centred: bool = False
) -> Iterator[Snapshot]:
    """E u u' and E u over orders and noise at ascending epochs, infinity included, from u_0 (r,).

    Centred, the covariance of u over the orders in place of E u u', given the responses.
    """
    visits = stages[0].visits(0)
    d = visits.dimension
    current = np.zeros((d, d + inputs.count(visits)))
    current[: visits.rank, d] = start
    if not centred:
        current[:, :d] = np.outer(current[:, d], current[:, d])
    for stage, local, requested in through_stages([one.length for one in stages], epochs):
        found = _along(stages[stage], inputs, current, local, centred)
        for number, (snapshot, reached) in enumerate(found):
            current = reached
            if number < requested:
                yield snapshot


def squared_moments(dimension: int, is_noisy: bool, epochs: FloatArray) -> int:
    """The number of moments whose epoch is squared as a matrix, where they are few and the epochs far; else 0."""
    last = float(epochs[np.isfinite(epochs)].max(initial=0.0))
    count = dimension * (dimension + 1) // 2 + dimension * (1 + dimension * is_noisy)
    return count if count <= MOST_ENTRIES and last > 4 * count else 0


def _along(
    timeline: Timeline, inputs: Inputs, begin: FloatArray, epochs: FloatArray, centred: bool
) -> Iterator[tuple[Snapshot, FloatArray]]:
    """The results at each of the epochs of one scheme, and the moments [M, C] or [V, m] there."""
    recursion, d = epoch_moments(timeline, inputs), len(begin)
    rank, constant, step = timeline.visits(0).rank, timeline.recipe.is_constant, timeline.recipe.at(0).step
    current, done, ended = begin, 0, False
    far: FarMoments | None = None
    may_square = constant and step > 0 and not centred and not begin[:, d + 1 :].any()
    if may_square and squared_moments(d, inputs.noise > 0, epochs):
        far = FarMoments(recursion, timeline.map(0), begin)
    last: Snapshot | None = None
    for epoch in epochs:
        if np.isfinite(epoch) and far is not None:
            current = far.after(epoch)
        elif np.isfinite(epoch):
            passes = range(done, int(epoch))
            is_quick = len(passes) * timeline.walk.visits * d**3 < A_SECOND
            for passed in passes if is_quick else track(passes, len(passes), "second moments"):
                if ended:
                    break
                made = recursion if constant else epoch_moments(timeline, inputs, passed)
                before, current = current, current + made.change(current, centred)
                is_finite = bool(np.isfinite(current).all())
                ended = not is_finite or (constant and is_stationary(current, before))
            done = int(epoch)
        if last is None and (np.isinf(epoch) or (ended and np.isfinite(current).all())):
            matrix, mean, error = current[:, :d], current[:, d:], 0.0
            if step:
                matrix, mean, error = stationary(timeline, inputs, begin, centred)
            last = Snapshot(matrix[:rank, :rank], mean[:rank, 0], error)
        if last is not None and np.isinf(epoch):
            yield last, current
            return
        inside = current[:rank, :rank]
        yield (
            Snapshot(inside, current[:rank, d], 0.0 if last is None else distance(inside, last[0])),
            current,
        )


def affordable(run: AffineTrajectory, when: FloatArray) -> int:
    """The number of simulated runs, a few seconds' worth; more epochs than the budget allows for are refused."""
    last, budget = max(1.0, float(when.max(initial=0.0))), max(run.accuracy.budget, A_SECOND)
    fewest = simulation_flops(run, _FEWEST_RUNS, last)
    if fewest > budget:
        most = "finite" if np.isinf(last) else f"at most {np.floor(last * budget / fewest):.0f}"
        # Of a limit only a walk over all orders is a matter of the budget.
        hint = "RandomReshuffling with few batches, whose limit is exact", "a larger {budget}"
        raise ArgumentError(
            "epochs", f"be {most} for {run.scheme}, whose spread is estimated from simulated runs",
            f"one is {last:g}; the budget is {budget:.1g} operations, {duration(budget)}",
            hint if np.isfinite(last) or run.walk.exists else hint[:1],
        )  # fmt: skip
    runs = _FEWEST_RUNS * _SAMPLED_FLOPS / fewest
    return 2 * int(np.clip(runs, _FEWEST_RUNS, MOST_RUNS) / 2)


def simulation_flops(run: AffineTrajectory, runs: float, last: float) -> float:
    """Operations of so many simulated runs up to the last epoch, calls included; infinite without the rows."""
    problem = run.problem
    if problem.stream is not None or not problem.compressed.are_all:
        return np.inf
    (n, p), shared = problem.X.shape, shares_visits(run.scheme, run.problem.n, int(runs))
    # Runs at the same batch share their calls; with many batches hardly two of them are.
    calls = CALL * run.walk.steps * (min(len(run.scheme.divisors(n)), runs) if shared else 1)
    return float(max(last, 1.0) * (runs * n * (4.0 * p + (0.0 if shared else A_ROW)) + calls))


def choice(
    run: AffineTrajectory,
    modes: ModesTrajectory | None,
    when: FloatArray,
    given_responses: bool,
    squares: bool = True,
) -> Choice:
    """The method of the second moments of a run, up to the given ascending epochs.

    The recursion over all orders if it takes a few seconds at most, or is affordable and either cheaper than
    simulating the spread to 5% or asked for by method="exact". Where it is not, centred maps of drawn orders serve
    all epochs, if these are alike and that is cheaper; otherwise runs are simulated. `squares` says whether the map
    of an epoch may be squared where the state is small.
    """
    if run.scheme.has_stages:
        return _of_stages([choice(each, None, at, given_responses, squares) for each, at in run.parts(when)])
    question, walk, recipe, accuracy = "the second moments", run.walk, run.recipe, run.accuracy
    if walk.scheme.shuffle is Shuffle.ONCE:
        return Choice(question, (Method("each order by itself", np.nan),))
    if not walk.scheme.is_random:
        return Choice(question, (Method("no orders differ", 0.0),))
    epoch = None if modes is None else modes.epoch
    # The blocks of a symmetric epoch are there already, and have the same shapes.
    plain = epoch is not None and climbs(epoch.scheme)
    blocks = epoch.blocks if epoch is not None and plain else run.blocks
    d, budget = run.problem.rank if plain else run.dimension, max(accuracy.budget, A_SECOND)
    (rows, rank), each_rows = blocks.rows.shape, len(blocks.rows) / blocks.batches
    moves = d > 0 and recipe.average is None and recipe.is_constant and recipe.at(0).step > 0
    finite = when[np.isfinite(when)]
    last, with_limit = float(finite.max(initial=0.0)), len(finite) < len(when)

    price = np.inf
    if walk.exists:
        each = flops(walk, d, rank, each_rows)
        if not given_responses:
            each += 2.0 * walk.visits * min(each_rows, rank) * d * d
            if climbs(walk.scheme) and 2.0**walk.steps * 8 * d * d > _REMEMBERED_BYTES:
                each = np.inf
        each *= 1.0 if recipe.is_constant else _ALL_ANEW
        squared = squared_moments(d, not given_responses, when) if moves and squares else 0
        rounds = last if squared or last * each <= budget else min(last, _settling(run, epoch))
        rounds = squared + _ROUNDS_OF_A_LIMIT if squared else rounds + _ROUNDS_OF_A_LIMIT * with_limit
        price = rounds * each if np.isfinite(each) else np.inf
    # A few samples are walked through whatever the symmetric mean does.
    engine = run if epoch is None or epoch.scheme.unit.is_cut else epoch
    is_exact = walk.exists and engine.error_kind == "exact"
    if accuracy.must_be_exact and is_exact:
        require_affordable(
            price, accuracy.budget, f"the exact expected risk after {when[-1] if len(when) else 0:g} epochs",
            ("fewer epochs", "fewer batches", "a larger {budget}", '{method}="auto"'),
        )  # fmt: skip
    of_recursion = too_much(price, budget) if is_exact else "the mean over orders is not exact"
    # Of runs that deviate in two directions.
    runs = min(2 / accuracy.of(SPREADS) ** 2, MOST_RUNS)
    price_of_runs = np.inf if with_limit else simulation_flops(run, runs, last)
    simulated_instead = (
        f"simulated runs take {price_of_runs:.1g} operations for a spread to {accuracy.of(SPREADS):.1g}"
    )
    insists = accuracy.must_be_exact or (epoch is not None and epoch.accuracy.must_be_exact)
    if not of_recursion and not insists and max(price_of_runs, _FEW_SECONDS) < price:
        of_recursion = simulated_instead

    unneeded = "" if of_recursion else "the exact recursion is affordable"
    of_maps, price_of_maps = unneeded, np.nan
    if walk.scheme.shuffle is not Shuffle.EVERY_EPOCH or not moves:
        of_maps = "they are for a fresh order in every epoch, at a step that stays"
    elif not unneeded:
        pairs = drawn.FEWEST_PAIRS * MOST_GROUPS
        price_of_maps = drawn.draw_flops(pairs, d, rows, walk.steps) + drawn.follow_flops(2 * pairs, d, when)
        of_maps = too_much(price_of_maps, budget)
    if not of_maps and max(price_of_runs, A_SECOND) < price_of_maps:
        of_maps = simulated_instead
    methods = ("recursion", price, of_recursion), ("centred maps", price_of_maps, of_maps)
    simulated = "simulation", price_of_runs, unneeded
    return Choice(question, tuple(Method(*each) for each in (*methods, simulated)))


def _of_stages(choices: list[Choice]) -> Choice:
    """The method of second moments through stages: at the dearest's price, or simulated if not in all."""
    others = [each for each in choices if each.taken not in ("recursion", "no orders differ")]
    if not others:
        return max(choices, key=lambda each: each.method.operations)
    alone = "it is for runs whose epochs are all alike"
    methods = (
        each if each.rejected_because or each.name == "simulation" else replace(each, rejected_because=alone)
        for each in others[0].methods
    )
    return Choice(others[0].question, tuple(methods))


def _settling(run: AffineTrajectory, epoch: Epoch | None) -> float:
    """The number of epochs, about, that change anything: until all is lost in rounding, or has overflowed."""
    if not run.recipe.is_constant:
        return np.inf
    if epoch is None:
        rate = run.stability().rate
        if rate in (0.0, np.inf):
            return 1.0
        return float((40 if rate < 1 else 800) / abs(np.log(rate))) if rate != 1 else np.inf
    moving = epoch.decay_rates[epoch.decay_rates != 0]
    with np.errstate(divide="ignore"):
        speed = np.abs(np.log(np.abs(1 - moving))).min(initial=np.inf)
    return float(800 / speed) if speed else np.inf


def centred_draws(
    run: AffineTrajectory, modes: ModesTrajectory | None, inputs: Inputs | None = None
) -> CentredDraws:
    """Centred maps with the mean over all orders and no orders drawn yet; by default with zero inputs."""
    if inputs is None:
        inputs = Inputs(np.zeros(run.space.dimension), given=np.zeros(len(run.blocks.rows)))
    timeline = run.timeline
    if modes is not None and run.visited is run.problem:
        mean, is_symmetric = mean_of(modes.epoch, run, timeline.visits(0)), True
    else:
        mean, is_symmetric = timeline.map(0), run.scheme.is_symmetric and run.recipe.momentum == 0
    return CentredDraws(timeline, mean, inputs, is_symmetric, run.accuracy.seed)


def mean_of(epoch: Epoch, run: AffineTrajectory, visits: Visits) -> EpochMap:
    """The mean map of a symmetric epoch in the scaled coordinates of a run over the same rows and its visits."""
    mean, turn = epoch.mean, run.space.rotation
    assert turn is not None
    known = epoch.problem.row_space.rotation
    factor = mean.factor @ (turn if known is None else known.T @ turn) / visits.sizes
    steps = run.walk.steps
    kernel, input_map = steps * (factor.T @ mean.weigh(factor)), steps * mean.mapped_inputs(factor)
    force = np.zeros(run.dimension)
    entries = np.column_stack([force, input_map])
    return EpochMap(
        visits.left, visits.right, (kernel + kernel.T) / 2, entries, *visits.sizes_of(steps, force)
    )
