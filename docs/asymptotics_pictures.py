"""Draw the pictures of docs/asymptotics.md and docs/price_of_batches.md.

Run with ``python docs/asymptotics_pictures.py``.
"""

import math
from pathlib import Path

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle.asymptotics.best_recipe import FewEpochs, interpolated
from reshuffle.asymptotics.optimum import Setting
from reshuffle.asymptotics.spectra import population

PICTURES = Path(__file__).parent / "pictures"
BATCHES = (1, 2, 3, 4, 8)
COLOURS = dict(zip(BATCHES, plotting.COLOURS, strict=False))


def name(batches):
    """What a number of batches is called in a legend."""
    return "full batch" if batches == 1 else f"{batches} batches"


def spectra():
    """The law of alpha Z for five numbers of batches at the paper's two settings, over one sampled X."""
    figure = plotting.figure(11.0, 4.6)
    rows = figure.subplots(2, len(BATCHES), sharey="row")
    for row, (aspect, alpha, n) in zip(rows, ((0.25, 0.4, 2400), (1.5, 0.2, 600)), strict=True):
        problem = rs.gaussian(n, round(aspect * n), seed=0)
        full = asymptotics.batch_spectrum(aspect, alpha, 1)
        end = 1.02 * full.support[0][1]
        for ax, batches in zip(row, BATCHES, strict=True):
            run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
            eigenvalues = run.epoch.decay_rates[~run.epoch.modes.frozen]
            law = asymptotics.batch_spectrum(aspect, alpha, batches)
            # Frozen directions are zeros of the whole spectrum, which the histogram counts.
            sampled = np.concatenate([eigenvalues, np.zeros(problem.p - len(eigenvalues))])
            plotting.spectrum_curve(full, label="full batch", colour=plotting.GREY, style=":", ax=ax)
            colour = COLOURS[batches]
            plotting.spectrum_histogram(sampled, label="sampled", bins=40, colour=colour, ax=ax)
            plotting.spectrum_curve(law, label=name(batches), colour=colour, ax=ax)
            ax.set_title(f"{name(batches)}, p/n = {aspect:g}", fontsize=9)
            ax.set_ylim(0, 1.15 * plotting.spectrum_view([plotting.spectrum_points(law)]).top)
            ax.set_xlim(-0.03 * end, end)
            ax.tick_params(labelsize=8)
            ax.label_outer()
    for ax in rows[-1]:
        ax.set_xlabel("eigenvalue of αZ")
    return figure


def learning_curves():
    """The limit on top of exact curves of finite problems, drawn at random."""
    figure = plotting.figure(10.0, 3.8)
    panels = figure.subplots(1, 2)
    epochs = np.arange(1, 301)
    settings = ((0.25, 0.4, 1000, 1.0), (1.5, 0.2, 400, 0.5))
    for ax, (aspect, alpha, n, noise) in zip(panels, settings, strict=True):
        for batches in (1, 2, 4):
            for seed in range(4):
                problem = rs.gaussian(n, round(aspect * n), noise=noise, seed=seed)
                run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
                ax.plot(epochs, run.risk(epochs).total, color=COLOURS[batches], linewidth=0.5, alpha=0.6)
            curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
            plotting.risk_curve(curve.risk(epochs), label=name(batches), colour=COLOURS[batches], ax=ax)
            best = curve.best_epoch()
            ax.plot(best.epoch, best.risk, "o", color=COLOURS[batches], markersize=4)
        ax.set_xscale("log")
        ax.set_title(
            f"p/n = {aspect:g}, α = {alpha:g}, noise {noise:g}; thin: four problems of n = {n}", fontsize=9
        )
        ax.legend()
    return figure


def critical_steps():
    """How far each number of batches can step, over the aspect."""
    figure = plotting.figure(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    # Close together where the curves bend, from leaving (0, 2) at 0 to leaving at 2.
    parts = np.geomspace(0.02, 0.2, 5), np.geomspace(0.25, 1, 15), np.geomspace(1, 20, 9)
    aspects = np.unique(np.concatenate(parts))
    for batches in BATCHES:
        steps = np.array([asymptotics.critical_alpha(aspect, batches) for aspect in aspects])
        full = 2 / (1 + np.sqrt(aspects)) ** 2
        style = {"color": COLOURS[batches], "label": name(batches), "linewidth": 1.6}
        left.plot(aspects, steps, **style)
        right.plot(aspects, steps / full, **style)
        print(f"critical alpha, B = {batches}:", dict(zip(aspects.round(3), steps.round(3), strict=True)))
    plotting.plain(left, "p/n", "largest α that converges (step α/B)")
    plotting.plain(right, "p/n", "the same, times that of full batch")
    for ax, ticks in ((left, (0.1, 0.2, 0.5, 1, 2, 5, 10)), (right, (1, 2, 3, 4, 6, 8, 10))):
        ax.set(xscale="log", yscale="log")
        ax.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.set_xticks([0.02, 0.1, 0.5, 1, 2, 5, 20], labels=["0.02", "0.1", "0.5", "1", "2", "5", "20"])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
    left.legend(frameon=False)
    return figure


def price_of_batches():
    """The limiting risk above that of full batch, in units of its leading term: the identity, and other Sigma."""
    figure = plotting.figure(11.0, 4.0)
    ax, beside = figure.subplots(1, 2, sharey=True)
    _price_of_others(beside)
    for batches in (2, 3, 4):
        for aspect, style in ((0.25, "-"), (0.5, "--"), (0.8, ":")):
            largest = min(1.0, asymptotics.critical_alpha(aspect, batches))
            alphas = np.linspace(0.05, largest, 10 if batches > 2 else 40)
            full = aspect / (1 - aspect)
            price = [
                asymptotics.learning_curve(aspect, alpha, batches).limit().total - full for alpha in alphas
            ]
            leading = (batches - 1) / (4 * batches**2) * aspect**2 * alphas**2
            label = f"{name(batches)}, p/n = {aspect:g}"
            ax.plot(
                alphas, price / leading, color=COLOURS[batches], linestyle=style, label=label, linewidth=1.4
            )
    ax.set(xlabel="α", ylabel="price / leading term", ylim=(0, None), xlim=(0, None), title="Σ = I")
    ax.axhline(1.0, color=plotting.GREY, linewidth=0.8)
    ax.legend(fontsize=7, ncols=3)
    return figure


def _price_of_others(ax):
    """The same for three spectra of Sigma of trace p, at p/n = 1/2, up to 85% of the critical step.

    At the critical step the spectrum reaches zero and the limiting risk is infinite.
    """
    aspect = 0.5
    spectra = {
        "power law j^-1/2": np.asarray(asymptotics.PowerLaw(0.5, 20)),
        "Toeplitz 0.5": asymptotics.toeplitz(0.5, 20),
        "one spike of 5": np.array([5.0, *19 * [1.0]]),
    }
    for (label, spectrum), style in zip(spectra.items(), ("-", "--", ":"), strict=True):
        sigma = spectrum / spectrum.mean()
        for batches in (2, 4):
            largest = min(1.0, asymptotics.critical_alpha(aspect, batches, sigma))
            alphas = np.linspace(0.05, 0.85 * largest, 9)
            full = aspect / (1 - aspect)
            risks = [
                asymptotics.learning_curve(aspect, a, batches, covariance=sigma).limit().total for a in alphas
            ]
            leading = (batches - 1) / (4 * batches**2) * (aspect * alphas) ** 2 * (sigma**2).mean()
            ax.plot(
                alphas,
                (np.array(risks) - full) / leading,
                color=COLOURS[batches],
                linestyle=style,
                label=f"{name(batches)}, {label}",
                linewidth=1.4,
            )
    ax.set(xlabel="α", xlim=(0, None), title="other Σ of trace p, p/n = 0.5")
    ax.axhline(1.0, color=plotting.GREY, linewidth=0.8)
    ax.legend(fontsize=7, ncols=2)


def best_risks(aspect, batches, budgets, noises):
    """The best risk of any step within each budget of epochs (rows) at each noise (columns)."""
    full, epochs = 2 / (1 + math.sqrt(aspect)) ** 2, np.arange(1.0, max(budgets) + 1)
    low, high = math.log(full / 40), math.log(1.1 * batches * full)
    logarithms = (low + high) / 2 - (high - low) / 2 * np.cos((np.arange(24) + 0.5) * math.pi / 24)
    bias, variance = (
        FewEpochs(Setting(aspect, population(None), noise=noise, signal=1 - noise), batches, epochs).risks(
            np.exp(logarithms)
        )
        for noise in (0.0, 1.0)
    )
    found = np.ones((len(budgets), len(noises)))
    for i, budget in enumerate(budgets):
        for j, noise in enumerate(noises):
            risks = (bias + noise**2 * variance)[:, :budget]
            found[i, j] = min(1.0, interpolated(logarithms, risks)[0][1])
    return found


def gain_of_batching():
    """By how much four batches lower the best risk of full batch, over aspect and noise, for four budgets."""
    budgets, batches = (1, 2, 4, 8), 4
    aspects, noises = np.geomspace(0.1, 4, 9), np.geomspace(0.1, 3, 24)
    pairs = [[best_risks(a, b, budgets, noises) for a in aspects] for b in (1, batches)]
    full, batched = np.array(pairs)
    gain = 100 * (1 - batched / full)
    figure = plotting.figure(11.0, 3.2)
    for i, ax in enumerate(figure.subplots(1, len(budgets), sharey=True)):
        levels = [0, 1, 2, 5, 10, 20, 30, 40, 60, 80, 100]
        drawn = ax.contourf(aspects, noises, np.maximum(gain[:, i].T, 0), levels=levels, cmap="viridis")
        lines = ax.contour(
            aspects, noises, gain[:, i].T, levels=[1, 5, 20, 40], colors="white", linewidths=0.6
        )
        ax.clabel(lines, fmt="%g%%", fontsize=7)
        epochs = "one epoch" if budgets[i] == 1 else f"at most {budgets[i]} epochs"
        ax.set(xscale="log", yscale="log", xlabel="p/n", title=epochs)
        ax.set_xticks([0.1, 0.3, 1, 3], labels=["0.1", "0.3", "1", "3"])
        ax.set_yticks([0.1, 0.3, 1, 3], labels=["0.1", "0.3", "1", "3"])
        ax.minorticks_off()
        print(f"gain at p/n = 0.5, noise 0.5, {budgets[i]} epochs:", _at(aspects, noises, gain[:, i]))
    figure.axes[0].set_ylabel("noise / signal")
    figure.colorbar(drawn, ax=figure.axes, label="risk saved, %")
    return figure


def _at(aspects, noises, values):
    i, j = np.abs(np.log(aspects / 0.5)).argmin(), np.abs(np.log(noises / 0.5)).argmin()
    return f"{values[i, j]:.1f}% (p/n = {aspects[i]:.2f}, noise {noises[j]:.2f}); largest {values.max():.1f}%"


if __name__ == "__main__":
    for draw in (spectra, learning_curves, critical_steps, gain_of_batching):
        draw().savefig(PICTURES / f"{draw.__name__}.png")
    price_of_batches().savefig(PICTURES / "price_of_batches.png", dpi=90)
