"""Section 3.1, Appendix D.1 and the propositions on two and on equal batches: the mean iterate of one data set."""

import numpy as np

import reshuffle as rs
from paper.figure import CIRCLES, Claim, Figure, Result, look, scheme
from reshuffle import asymptotics, plotting

AGREES = 1e-9
"""Distances below this are rounding."""


def divergence(n: int, p: int, alpha: float, epochs: int, runs: int, seed: int) -> Result:
    """|mean iterate - beta_star|^2 / |beta_star|^2 of full batch and of two batches, and of simulated runs."""
    rng = np.random.default_rng(seed)
    problem = rs.gaussian(n, p, noise=1.0, beta_star=rng.standard_normal(p), seed=rng)
    truth = np.asarray(problem.beta_star)
    when, size = np.arange(epochs + 1), float(np.sum(truth**2))
    few = slice(None, None, max(1, len(when) // 25))
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    paths, rates, critical, expected = [], [], [], []
    for batches in (1, 2):
        visited = scheme("reshuffling", batches)
        run = rs.descend(problem, visited, alpha=alpha)
        simulation = rs.simulate(problem, visited, step=alpha / batches, epochs=when, runs=runs, seed=seed)
        runs_ = simulation.expected_risk
        assert runs_ is not None
        exact = np.square(run.iterate(when) - truth).sum(axis=1) / size
        paths.append((exact, runs_.mean / size, runs_.standard_error / size))
        # Of I - alpha Z on the range of Z; and up to which alpha it is below one, here and in the limit.
        rates.append(run.stability().rate)
        critical.append(batches * rs.critical_step(problem, visited, mean_square=False))
        expected.append(asymptotics.critical_alpha(p / n, batches))
        style = look("reshuffling", batches)
        label = f"{style['label']} (converges up to α = {critical[-1]:.3f})"
        plotting.curve(when, exact, label=label, colour=style["color"], ax=ax)
        ax.plot(when[few], (runs_.mean / size)[few], color=style["color"], **CIRCLES)
    ax.plot([], [], color="grey", label="simulated runs, mean", **CIRCLES)
    ax.set(yscale="log", ylabel="|β − β*|² / |β*|²")
    ax.set_title(f"step α/B with α = {alpha:g}: lines exact", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    columns = np.concatenate(paths, axis=1)
    table = {
        "batches": np.repeat((1, 2), len(when)),
        "epoch": np.tile(when, 2),
        **dict(zip(("exact", "simulated", "standard_error"), columns, strict=True)),
    }
    threshold = 2 / (1 + (p / n) ** 0.5) ** 2
    claims = [
        Claim(
            "Remark gd_diverge, Appendix D.1",
            "full-batch descent can diverge while two-batch descent still converges",
            f"at alpha = {alpha:g} an epoch multiplies the slowest mode by {rates[0]:.4f} (full batch) "
            f"and {rates[1]:.6f} (two batches); they converge up to alpha = {critical[0]:.4f} "
            f"and {critical[1]:.4f}",
            rates[0] > 1 > rates[1],
        ),
        Claim(
            "Appendix D.1",
            'the two-batch iterate converges, i.e. "|I - alpha Z| > 1"',
            f"the spectral radius on the range of Z is {rates[1]:.6f}",
            rates[1] > 1,
            "< 1, on the range of Z",
        ),
        Claim(
            "footnote of Appendix D.1",
            "alpha = 0.5 is slightly larger than 2 / (1 + sqrt(p/n))^2",
            f"that is {threshold:.4f}; the largest alpha of full batch on this X is {critical[0]:.4f}, "
            f"limits {expected[0]:.4f} and {expected[1]:.4f} for two batches",
            alpha > threshold and abs(expected[0] - threshold) < 1e-6,
        ),
    ]
    return Result(picture, table, claims)


def linear_scaling(n: int, p: int, time: float, halvings: int, seed: int) -> Result:
    """The largest distance from gradient flow over a time alpha k, at smaller and smaller alpha."""
    problem = rs.gaussian(n, p, noise=0.5, seed=seed)
    flow = rs.gradient_flow(problem)
    alphas = 0.25 * 0.5 ** np.arange(halvings, dtype=np.float64)
    size = float(np.linalg.norm(flow.iterate(np.inf)))
    recipes = (("full-batch", 1), ("reshuffling", 2), ("reshuffling", 4), ("with-replacement", 4))
    distances = np.zeros((len(recipes), halvings))
    picture = plotting.figure(6.4, 4.2)
    ax = picture.add_subplot()
    for row, (name, batches) in enumerate(recipes):
        for column, alpha in enumerate(alphas):
            epochs = np.unique(np.linspace(0, time / alpha, 41).round())
            run = rs.descend(problem, scheme(name, batches), alpha=float(alpha))
            apart = np.linalg.norm(run.iterate(epochs) - flow.iterate(alpha * epochs), axis=1)
            distances[row, column] = apart.max() / size
        ax.loglog(alphas, distances[row], "o-", markersize=4, **look(name, batches))
    ax.loglog(alphas, distances[0, 0] / 2 * alphas / alphas[0], color="grey", linestyle=":", label="slope 1")
    plotting.plain(ax, "α (step α/B)", "distance from gradient flow")
    ax.legend(frameon=False, fontsize=9)
    table = {
        "scheme": np.repeat([name for name, _ in recipes], halvings),
        "batches": np.repeat([batches for _, batches in recipes], halvings),
        "alpha": np.tile(alphas, len(recipes)),
        "distance": distances.ravel(),
    }
    orders = np.log2(distances[:, -2] / distances[:, -1])
    same_time, plus, minus = _with_replacement(problem)
    claims = [
        Claim(
            "Remark gradient_flow",
            "as alpha -> 0 all schemes follow the same gradient flow, which cannot tell batching",
            f"distances fall to {distances[:, -1].max():.1e} like alpha^q with q = "
            f"{', '.join(f'{order:.3f}' for order in orders)} (full batch; 2 and 4 batches; with replacement)",
            bool((np.abs(orders - 1) < 0.15).all()),
        ),
        Claim(
            "Remark with_replacement",
            "sampling with replacement is full batch up to a change of time, k -> B k",
            f"mean iterates after k epochs and B k steps differ by {same_time:.1e}",
            same_time < 1e-12,
        ),
        Claim(
            "proof for sampling with replacement",
            "the noise enters as - (B alpha / n) X_b' eta_b",
            f"one step by hand: error {minus:.2g} with -, {plus:.1g} with +",
            minus < 1e-12,
            "+ (B alpha / n) X_b' eta_b",
        ),
    ]
    return Result(picture, table, claims)


def _with_replacement(problem: rs.LeastSquares) -> tuple[float, float, float]:
    """The remark's change of time; and the error of a mean step by hand if the noise enters with + and with -."""
    batches, step = 4, 0.05
    run = rs.descend(problem, rs.WithReplacement(batches=batches), step=step)
    full = rs.descend(problem, rs.FullBatch(), step=step)
    when = np.array([1, 7, 50])
    difference = float(np.abs(run.iterate(when) - full.iterate(batches * when)).max())
    X, y, truth = problem.X, problem.y, np.asarray(problem.beta_star)
    actual, noise = -truth, y - X @ truth
    by_hand = {1: -truth, -1: -truth}
    for rows in np.array_split(np.arange(problem.n), batches):
        actual = actual + step * X[rows].T @ y[rows] / len(rows) / batches
        for sign in by_hand:
            gradient = X[rows].T @ (X[rows] @ truth + sign * noise[rows]) / len(rows)
            by_hand[sign] = by_hand[sign] + step * gradient / batches
    plus, minus = (float(np.abs(by_hand[sign] - actual).max()) for sign in (1, -1))
    return difference, plus, minus


def limit_vectors(n: int, p: int, count: int, seed: int) -> Result:
    """|limit - minimum norm| / |minimum norm| for alpha up to 0.95 of the largest of full batch."""
    recipes = (("reshuffling", 2), ("reshuffling", 4), ("with-replacement", 4))
    alphas, distances = np.linspace(0.05, 0.95, count), np.zeros((2, len(recipes), count))
    for row, (rows, columns) in enumerate(((n, p), (p, n))):
        problem = rs.gaussian(rows, columns, noise=0.5, seed=seed)
        scale = rs.critical_step(problem, rs.FullBatch())
        for recipe, (name, batches) in enumerate(recipes):
            for column, alpha in enumerate(alphas):
                run = rs.descend(problem, scheme(name, batches), alpha=float(alpha * scale))
                ends = run.compare_limit()
                distances[row, recipe, column] = ends.distance / np.linalg.norm(ends.minimum_norm)
    under, over = distances
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for (name, batches), one in zip(recipes[:2], under, strict=False):
        style = look(name, batches)
        label = f"{style['label']}, n > p"
        ax.plot(alphas, 100 * one, "o-", markersize=4, color=style["color"], label=label)
    # All that vanish are one line at zero, named with a power of ten that none of them reaches.
    nothing = np.concatenate([under[2:], over]).max(axis=0)
    exponent = str(int(np.ceil(np.log10(max(nothing.max(), 1e-17)))))
    bound = "below 10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    label = f"4 batches with replacement, and all of them when n < p: {bound}"
    colour = plotting.scheme_colour("with-replacement", 4)
    ax.plot(alphas, 100 * nothing, "s-", markersize=4, color=colour, label=label)
    plotting.plain(ax, "α / largest α of full batch", "|limit − minimum norm| / |minimum norm|, in %")
    ax.set_ylim(-2 * under.max(), 120 * under.max())
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    table = {
        "regime": np.repeat(("underparameterized", "overparameterized"), len(recipes) * count),
        "scheme": np.tile(np.repeat([name for name, _ in recipes], count), 2),
        "batches": np.tile(np.repeat([batches for _, batches in recipes], count), 2),
        "alpha_share": np.tile(alphas, 2 * len(recipes)),
        "distance": distances.ravel(),
    }
    # Two samples of one feature, at the step where Z vanishes but Xtilde does not: 1 - 2 step Z = 1.
    cases = [rs.LeastSquares([[1.0], [2.0]], responses) for responses in ([1.0, 0.0], [0.0, 0.0])]
    runs = [rs.descend(case, rs.RandomReshuffling(batches=2), step=(1 + 4) / (1 * 4)) for case in cases]
    drift, still = (np.abs(run.iterate([1, 10, 100])[:, 0]) for run in runs)
    replaced = max(under[2].max(), over[2].max())
    claims = [
        Claim(
            "Section 3.1",
            "with replacement the limit is the minimum-norm solution, independent of the step",
            f"largest distance {replaced:.1e}",
            bool(replaced < AGREES),
        ),
        Claim(
            "Section 3.1, Corollary batch_limit_vector",
            "underparameterized, the limit with reshuffling differs from it in a step-dependent way",
            f"as alpha grows the distance goes from {under[0].min():.2e} to {under[0].max():.2e} with 2 batches, "
            f"from {under[1].min():.2e} to {under[1].max():.2e} with 4",
            bool((np.diff(under[:2], axis=1) > 0).all()),
        ),
        Claim(
            "Section 3.1",
            "overparameterized, the two limits are actually the same",
            f"largest distance {over[:2].max():.1e}",
            bool(over[:2].max() < AGREES),
        ),
        Claim(
            "after Theorem batch_dynamics",
            "without the range assumption the iterate will always diverge",
            f"in an example |beta_k| after 1, 10, 100 epochs is {', '.join(f'{v:.6g}' for v in drift)}; "
            f"with other responses {', '.join(f'{v:.6g}' for v in still)}",
            bool(still[-1] > still[0]),
            "it drifts linearly in k, and only if the responses have a part there",
        ),
    ]
    return Result(picture, table, claims)


def two_batch(n: int, p: int, draws: int, seed: int) -> Result:
    """The risk inside the interval that Z alone allows; and many small problems at the step that is called safe."""
    problem, two = rs.gaussian(n, p, noise=0.5, seed=seed), rs.RandomReshuffling(batches=2)
    alpha = 0.5 * rs.critical_step(problem, rs.FullBatch())
    when = np.unique(np.geomspace(1, 1000, 60).round())
    runs = [rs.descend(problem, two, alpha=alpha / 2**k) for k in range(4)]
    intervals = [run.risk_interval(when) for run in runs]
    exact, low, high = runs[0].risk(when).total, intervals[0].lower, intervals[0].upper
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    colour = plotting.scheme_colour("reshuffling", 2)
    ax.fill_between(when, low, high, color=colour, alpha=0.2, linewidth=0, label="interval from Z alone")
    plotting.curve(when, exact, label="exact risk, 2 batches", colour=colour, ylabel="risk", ax=ax)
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=9)
    table = {"epoch": when.astype(int), "lower": low, "exact": exact, "upper": high}
    rng = np.random.default_rng(seed)
    rates, norm_ratios = np.array([_at_the_allowed_step(rng) for _ in range(draws)]).T
    epoch = rs.Epoch(problem, two, 3 * rs.critical_step(problem, two, mean_square=False))
    smallest = float(epoch.decay_rates.min()) / (2 * epoch.step)
    # W_1 = W_2 = c^2 I, as printed; and c I, as in the proof. Both with the step 2 / c.
    c, in_proof = 0.5, 3.0
    even = np.vstack([np.eye(2), np.eye(2)])
    equal = rs.LeastSquares(np.sqrt(2) * c * even, np.zeros(4), beta_star=np.zeros(2), noise=1.0)
    stated = rs.descend(equal, two, step=2 / c)
    variance, bound = float(stated.risk(np.inf).total), float(stated.risk_interval(np.inf).upper)
    vanished = rs.Epoch(rs.LeastSquares(np.sqrt(2 * in_proof) * even, np.zeros(4)), two, 2 / in_proof).Z
    excess = 2 / in_proof * in_proof
    widths = [float(((i.upper - i.lower) / (i.upper + i.lower)).max()) for i in intervals]
    inside, order = bool(((low <= exact) & (exact <= high)).all()), float(np.log2(widths[-2] / widths[-1]))
    claims = [
        Claim(
            "Proposition twobatch_step_cond",
            "if full batch converges at twice the step, two batches converge",
            f"spectral radius {1 - rates.max():.1e} or more below 1 in {len(rates)} problems, "
            "at 0.999 of that step",
            bool((rates < 1).all()),
        ),
        Claim(
            "after Proposition twobatch_step_cond",
            "Z has some sort of shrinkage effect on the operator norm, compared to W",
            f"|Z| / |W| is between {norm_ratios.min():.4f} and {norm_ratios.max():.4f} there",
            bool((norm_ratios <= 1 + 1e-12).all()),
        ),
        Claim(
            "after Proposition twobatch_step_cond",
            "Z may have negative eigenvalues if alpha is large enough",
            f"at 3 times the critical step of the problem drawn, the smallest is {smallest:.4f}",
            smallest < 0,
        ),
        Claim(
            "Proposition twobatch_generr_Zonly",
            "the risk lies in the interval [R_-, R_+], whose width is linear in alpha",
            f"{'at every' if inside else 'not at every'} epoch; the width shrinks like alpha^{order:.3f}",
            inside and abs(order - 1) < 0.15,
        ),
        Claim(
            "Proposition twobatch_generr_Zonly",
            "the upper bound is tight if W_1 = W_2 = c^2 I and alpha = 2/c",
            f"for c = {c:g}, where the step satisfies the assumption, the limiting risk is {variance:.3f} and the "
            f"bound {bound:.3f}; for the proof's W_1 = W_2 = c I |Z| = {np.abs(vanished).max():.1g}, and the "
            f"step is {excess:.3g} times what is assumed",
            abs(variance - bound) < 1e-9 * bound,
            "not tight: Z = c^2 (1 - c) I; with the proof's c I the equality is 0 = 0, outside the assumption",
        ),
    ]
    return Result(picture, table, claims)


def _at_the_allowed_step(rng: np.random.Generator) -> tuple[float, float]:
    """The spectral radius at 0.999 of the step that the proposition allows, and |Z| / |W| there."""
    # Equal batches, as the paper has them.
    shape = 2 * rng.integers(1, 15), rng.integers(1, 30)
    X = rng.standard_normal(shape) * rng.lognormal(size=shape[1])
    problem = rs.LeastSquares(X, np.zeros(shape[0]))
    # Full batch must converge at twice the step of a visit.
    largest = rs.critical_step(problem, rs.FullBatch())
    step = 0.999 * largest / 2
    decay_rates = rs.Epoch(problem, rs.RandomReshuffling(batches=2), step).decay_rates
    Z_norm = float(np.abs(decay_rates).max()) / (2 * step)
    rate = rs.descend(problem, rs.RandomReshuffling(batches=2), step=step).stability().rate
    return rate, Z_norm / (2 / largest)


def fixed_dimension(rows: int, p: int, batches: int, alpha: float, epochs: int, seed: int) -> Result:
    """One block of rows, repeated B times: then Pi_b = I - p(W) for every b, as the proposition assumes."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.standard_normal((rows, p)), (batches, 1))
    n, noise = len(X), 1.0
    truth = rng.standard_normal(p) / np.sqrt(p)
    eta = noise * rng.standard_normal(n)
    problem = rs.LeastSquares(X, X @ truth + eta, beta_star=truth, noise=noise)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    values, when = s**2 / n, np.arange(epochs + 1)
    # alpha lambda (1 - p(lambda)), in closed form.
    decay = (1 - alpha * values / batches) ** (batches * when[:, np.newaxis])
    start, inputs = Vt @ -truth, U.T @ eta
    variance = noise**2 / n * ((1 - decay) ** 2 / values).sum(axis=1)
    exact = run.risk(when).total
    corrected, printed = ((decay**2 * bias).sum(axis=1) + variance for bias in (start**2, start))
    iterate = (run.iterate(when) - truth) @ Vt.T
    right, wrong = (
        float(np.abs(decay * start + (1 - decay) / scale * inputs - iterate).max()) for scale in (s, values)
    )
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    for risk, label, colour, style in (
        (exact, "exact", plotting.scheme_colour("reshuffling", 4), "-"),
        (corrected, "the proposition, corrected", "black", ":"),
        (printed, "the proposition, as printed", plotting.GREY, "--"),
    ):
        plotting.curve(when, risk, label=label, colour=colour, style=style, ylabel="risk", ax=ax)
    ax.legend(frameon=False, fontsize=9)
    off, mended = (float(np.abs(risk - exact).max()) for risk in (printed, corrected))
    claims = [
        Claim(
            "Proposition fixedp_error_limit, first display",
            "the noise enters coordinate i as (1 / lambda_i) [U' eta]_i",
            f"off by {wrong:.2g}; with 1 / s_i by {right:.1e}",
            wrong < 1e-9,
            "1 / s_i = 1 / sqrt(n lambda_i)",
        ),
        Claim(
            "Proposition fixedp_error_limit, second display",
            "the bias sums lambda_i [...]^(2k) [V'(beta_0 - beta_*)]_i",
            f"off by {off:.2g}; with the coordinate squared by {mended:.1e}",
            off < 1e-9,
            "[V'(beta_0 - beta_*)]_i squared",
        ),
    ]
    return Result(
        picture, {"epoch": when, "exact": exact, "corrected": corrected, "as_printed": printed}, claims
    )


FIGURES = {
    "divergence": Figure(
        divergence,
        "Appendix D.1: full batch diverges, two batches converge",
        "X, the noise and β* are one realisation of standard Gaussians. Lines: the exact mean iterate. "
        "Circles: the mean of simulated runs over their orders.",
        full={"n": 1000, "p": 1500, "alpha": 0.5, "epochs": 100, "runs": 20, "seed": 0},
        quick={"n": 300, "p": 450, "epochs": 60},
    ),
    "linear-scaling": Figure(
        linear_scaling,
        "Remarks gradient_flow and with_replacement: linear scaling",
        "The largest distance between the mean iterate after k epochs at step α/B and gradient flow "
        "after the time αk, relative to where the flow ends.",
        full={"n": 200, "p": 100, "time": 20.0, "halvings": 8, "seed": 0},
        quick={"n": 100, "p": 50, "halvings": 6},
    ),
    "limit-vectors": Figure(
        limit_vectors,
        "Section 3.1: where descent ends",
        "How far the limit of the mean iterate is from the minimum-norm solution: a distance that depends "
        "on the step with reshuffling and more samples than parameters, and nothing but rounding otherwise.",
        full={"n": 200, "p": 100, "count": 13, "seed": 0},
        quick={"n": 60, "p": 30, "count": 7},
    ),
    "two-batch": Figure(
        two_batch,
        "Propositions twobatch_step_cond and twobatch_generr_Zonly: two batches",
        "The exact risk of two-batch descent, inside the interval that Z alone allows.",
        full={"n": 300, "p": 200, "draws": 500, "seed": 0},
        quick={"n": 100, "p": 60, "draws": 100},
    ),
    "fixed-dimension": Figure(
        fixed_dimension,
        "Proposition fixedp_error_limit: trajectories in fixed dimension",
        "One block of rows, repeated: every batch modifies the features alike, as the proposition assumes. "
        "Its formulas hold once two slips are mended.",
        full={"rows": 50, "p": 20, "batches": 4, "alpha": 0.4, "epochs": 60, "seed": 2},
    ),
}
