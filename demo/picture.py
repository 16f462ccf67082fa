"""The picture of the demonstration: the predicted test error along the epochs, and the one found."""

import numpy as np

from reshuffle import plotting


def picture(plan, epochs, found):
    """Draw the predicted error with its standard error, real runs on held-out rows, and when to stop."""
    figure = plotting.figure(7.6, 4.4)
    ax = figure.add_subplot()
    along = np.unique(np.geomspace(1, epochs[-1], 60).round())
    predicted = plan.run.leave_one_out(along, centred=True)
    low, high = (predicted.mean_square + sign * predicted.standard_error for sign in (-1, 1))
    blue, orange = plotting.COLOURS[:2]
    ax.fill_between(along, np.sqrt(low), np.sqrt(high), color=blue, alpha=0.15, linewidth=0)
    label = "predicted from the training rows, ± a standard error"
    ax.plot(along, np.sqrt(predicted.mean_square), color=blue, label=label)
    single, averaged = np.square(found).mean(axis=2), np.square(found.mean(axis=0)).mean(axis=1)
    ax.plot(epochs, np.sqrt(single.T), color="0.7", linewidth=0.5, zorder=1)
    label = f"found: {len(found)} real runs, on {found.shape[2]} held-out patients"
    ax.plot(epochs, np.sqrt(averaged), "o", color=orange, markersize=5, label=label)
    least = np.sqrt(plan.least_squares.mean_square)
    ax.axhline(least, color="black", linewidth=0.8, linestyle="--")
    ax.annotate("least squares", (1, least), xytext=(0, 4), textcoords="offset points", fontsize=9)
    ax.axvline(plan.best.epochs, color=blue, linewidth=0.8)
    words = f"stop after {plan.best.epochs} epochs"
    ax.annotate(words, (plan.best.epochs, 1), xycoords=("data", "axes fraction"), xytext=(5, -12),
                textcoords="offset points", color=blue, fontsize=9)  # fmt: skip
    ax.set_xscale("log")
    ax.set_xticks(epochs, [f"{epoch:g}" for epoch in epochs])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=9, loc="lower left")
    ax.set_title("The test error, predicted before training from the training rows alone", fontsize=10)
    return plotting.plain(ax, "epochs", "error on new patients (RMSE)").figure
