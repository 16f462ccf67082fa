"""Draw the pictures of docs/guides.md.

Run with ``python docs/own_data_pictures.py``, or with the numbers of the questions whose pictures are wanted; the
pictures call public names only, and use data that come with scikit-learn.
"""

import math
import sys
from pathlib import Path

import numpy as np
from sklearn import datasets, linear_model, preprocessing

import reshuffle as rs
from reshuffle import plotting
from reshuffle.sklearn import MiniBatchRegressor

FOLDER = Path(__file__).parent / "pictures"
COLOURS = plotting.COLOURS
WIDTH, HEIGHT = 6.0, 3.2


def standardized(columns):
    """Return columns of mean zero and variance one."""
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def diabetes():
    """Return its rows and responses."""
    return tuple(map(standardized, datasets.load_diabetes(return_X_y=True)))


def linnerud():
    """Return exercises, and the waists of those who did them."""
    exercises, bodies = datasets.load_linnerud(return_X_y=True)
    return standardized(exercises), standardized(bodies[:, 1])


def breast_cancer():
    """Return its rows, and which of the tumours are benign."""
    return tuple(map(standardized, datasets.load_breast_cancer(return_X_y=True)))


def squared_diabetes():
    """Return diabetes with squares and products, a column of ones, and a random half of the rows to train on."""
    rows, responses = diabetes()
    squares = preprocessing.PolynomialFeatures(2, include_bias=False).fit_transform(rows)
    features = np.column_stack([np.ones(len(rows)), standardized(squares)])
    return features, responses, np.split(np.random.default_rng(0).permutation(len(rows)), 2)


def save(ax, name):
    """Write the picture of an axis."""
    ax.figure.savefig(FOLDER / f"own_data_{name}.png", dpi=110)


def new_axis(height=HEIGHT):
    """Return the axis of a new picture."""
    return plotting.figure(WIDTH, height).add_subplot()


def draw_missed_optimum():
    """Draw why stochastic gradient descent misses least squares."""
    exercises, waist = linnerud()
    sgd = linear_model.SGDRegressor(
        learning_rate="constant", eta0=0.02, penalty=None, fit_intercept=False, max_iter=10, tol=None,
        random_state=0,
    ).fit(exercises, waist)  # fmt: skip
    recipe = {"scheme": rs.SampleReshuffling(batch_size=1), "step": 0.02}
    save(
        plotting.explanation(rs.explain(exercises, waist, sgd.coef_, recipe, epochs=10), ax=new_axis(2.2)),
        "missed_optimum",
    )


def draw_safe_steps():
    """Draw the largest steps at which means and single runs converge, against the batch size."""
    problem, ax = rs.LeastSquares(*linnerud()), new_axis()
    sizes = np.array([1, 2, 4, 5, 10, 20])
    for mean_square, label in ((False, "mean over all runs"), (True, "single runs, in the mean square")):
        found = [
            float(
                rs.critical_step(
                    problem, rs.SampleWithReplacement(batch_size=int(size)), mean_square=mean_square
                )
            )
            for size in sizes
        ]
        ax.plot(sizes, found, "o-", color=COLOURS[int(mean_square)], label=label, markersize=4)
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize=8)
    ax.set_xticks(sizes)
    ax.set_title("Linnerud's exercises, rows drawn with replacement", fontsize=9)
    save(plotting.plain(ax, "batch size", "converges up to this step"), "safe_steps")


def draw_estimator():
    """Draw the path of the coefficients of the estimator, and where least squares has them."""
    (rows, benign), ax = breast_cancer(), new_axis()
    epochs = np.unique(np.geomspace(1, 1e5, 80).round())
    model = MiniBatchRegressor(batch_size=32, learning_rate=0.01, epochs=50).fit(rows, benign)
    for number, coefficient in enumerate(model.path(epochs).coef.T):
        ax.plot(epochs, coefficient, color=COLOURS[number % len(COLOURS)], linewidth=1.0)
    least = linear_model.LinearRegression().fit(rows, benign).coef_
    ax.plot(np.full(len(least), 2e5), least, "k_", markersize=9, label="least squares", clip_on=False)
    ax.axvline(50, color="black", linewidth=0.8, linestyle="--")
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title("breast cancer: all coefficients at all epochs, from one fit", fontsize=9)
    save(plotting.plain(ax, "epochs", "coefficient"), "estimator")


def draw_replacement():
    """Draw the excess loss of a single run, with and without replacement."""
    problem, ax, epochs = rs.LeastSquares(*diabetes()), new_axis(), np.arange(1, 101)
    schemes = {
        "with replacement": rs.WithReplacement(batch_size=64),
        "without replacement": rs.RandomReshuffling(batch_size=64),
    }
    for colour, (name, scheme) in zip(COLOURS, schemes.items(), strict=False):
        run = rs.descend(problem, scheme, step=0.05)
        ax.plot(epochs, run.excess_training_loss(epochs, of_run=True), color=colour, label=f"one run, {name}")
        ax.plot(epochs, run.excess_training_loss(epochs), ":", color=colour, label=f"mean of runs, {name}")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    save(plotting.plain(ax, "epochs", "training loss above least squares"), "replacement")


def draw_ragged_batch():
    """Draw what a short last batch does."""
    schemes = {
        "8 + 8 + 4, each mean": rs.SampleReshuffling(batch_size=8),
        "all divided by 8": rs.SampleReshuffling(batch_size=8, normalize="equal"),
        "last batch dropped": rs.SampleReshuffling(batch_size=8, drop_last=True),
    }
    compared = rs.compare_schemes(
        rs.LeastSquares(*linnerud()), schemes, step=0.1, epochs=20, thresholds=False
    )
    save(plotting.scheme_comparison(compared, ax=new_axis(2.4)), "ragged_batch")


def draw_shuffled_once():
    """Draw what it costs to shuffle once, or never."""
    schemes = {
        "every epoch": rs.RandomReshuffling(batch_size=4),
        "once": rs.ShuffleOnce(batch_size=4),
        "never": rs.Cyclic(batch_size=4),
    }
    compared = rs.compare_schemes(
        rs.LeastSquares(*linnerud()), schemes, step=0.1, epochs=50, thresholds=False
    )
    save(plotting.scheme_comparison(compared, ax=new_axis(2.4)), "shuffled_once")


def draw_plan():
    """Draw what wrong steps and batch sizes cost a linear probe."""
    images, digit = datasets.load_digits(return_X_y=True)
    save(plotting.plan_map(rs.plan(images, np.eye(10)[digit]), ax=new_axis()), "plan")


def draw_stopping():
    """Draw leave-one-out, held-out rows, and the risk with least squares in the place of the truth."""
    features, responses, (kept, held) = squared_diabetes()
    X, y = features[kept], responses[kept]
    here, plug = plotting.figure(8.5, 3.4).subplots(1, 2)
    epochs = np.unique(np.geomspace(1, 1e4, 120).round())
    run = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=4), step=0.05)
    left_out = run.leave_one_out(epochs)
    off = responses[held, np.newaxis] - features[held] @ run.iterate(epochs).T
    low, high = (left_out.mean_square + sign * left_out.standard_error for sign in (-1, 1))
    here.fill_between(epochs, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    here.plot(epochs, left_out.mean_square, color=COLOURS[0], label="leave-one-out, ± one standard error")
    here.plot(epochs, np.square(off).mean(axis=0), "--", color=COLOURS[6], label="the other half of the rows")
    here.axvline(run.best_epoch().epoch, color=COLOURS[0], linewidth=0.8)
    here.set_ylim(0.4, 0.9)
    here.set_title("what to ask", fontsize=9)
    here.legend(frameon=False, fontsize=8)
    least = np.linalg.lstsq(X, y, rcond=None)[0]
    noise = np.linalg.norm(y - X @ least) / math.sqrt(len(y) - np.linalg.matrix_rank(X))
    epochs = np.geomspace(1, 1e10, 120).round()
    plugged = rs.LeastSquares(X, y, beta_star=least, noise=noise)
    plugged_run = rs.descend(plugged, run.scheme, step=0.05)
    plug.plot(epochs, plugged_run.risk(epochs).total, color=COLOURS[1])
    plug.axvline(plugged_run.best_epoch().epoch, color=COLOURS[1], linewidth=0.8)
    plug.set_yscale("log")
    plug.set_title("what not to: least squares taken for the truth", fontsize=9)
    for ax, ylabel in ((here, "mean square error"), (plug, "risk")):
        ax.set_xscale("log")
        plotting.plain(ax, "epochs", ylabel)
    save(here, "stopping")


def draw_flow():
    """Draw leave-one-out of steps and of the flow at the same times."""
    problem, ax = rs.LeastSquares(*diabetes()), new_axis()
    times = np.unique(np.geomspace(0.4, 40, 60))
    flow = rs.descend(problem, rs.FullBatch(), step=0.001)
    ax.plot(
        times, flow.leave_one_out((1000 * times).round()).mean_square, color=COLOURS[6], label="gradient flow"
    )
    for colour, marker, batches in ((COLOURS[0], "o", 1), (COLOURS[1], "s", 7)):
        epochs = np.unique(np.geomspace(1, 100, 14).round())
        scheme = rs.RandomReshuffling(batches=batches)
        found = rs.descend(problem, scheme, alpha=0.4).leave_one_out(epochs).mean_square
        label = "full batch, step 0.4" if batches == 1 else "7 batches, step 0.4 / 7"
        ax.plot(0.4 * epochs, found, marker, color=colour, label=label, markersize=4)
    ax.set_xscale("log")
    ax.set_ylim(top=0.7)
    ax.legend(frameon=False, fontsize=8)
    save(plotting.plain(ax, "time: step times number of steps", "leave-one-out"), "flow")


def draw_scaling():
    """Draw how far the linear rule leads astray, against the batch size."""
    run, ax = (
        rs.descend(rs.LeastSquares(*diabetes()), rs.SampleReshuffling(batch_size=32), step=0.05),
        new_axis(),
    )
    sizes = [64, 96, 128, 160, 221, 300, 442]
    found = [rs.match(run, batch_size=size, epochs=50) for size in sizes]
    rules = {
        "nearest step": [match.distance for match in found],
        "linear rule": [match.linear.distance for match in found],
        "square-root rule": [match.square_root.distance for match in found],
    }
    for colour, marker, (name, distances) in zip(COLOURS, "os^", rules.items(), strict=False):
        ax.plot(sizes, 100 * np.minimum(distances, 1.0), marker + "-", color=colour, label=name, markersize=4)
    ax.annotate("diverges", (442, 100), xytext=(-8, 2), textcoords="offset points", ha="right", fontsize=8)
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title("from batches of 32 with step 0.05", fontsize=9)
    save(plotting.plain(ax, "new batch size", "distance from the run, per cent"), "scaling")


PICTURES = (
    draw_missed_optimum,
    draw_safe_steps,
    draw_estimator,
    draw_replacement,
    draw_ragged_batch,
    draw_shuffled_once,
    draw_plan,
    draw_stopping,
    draw_flow,
    draw_scaling,
)


def main(wanted):
    """Draw the pictures of the questions with these numbers, all by default."""
    FOLDER.mkdir(exist_ok=True)
    for number, draw in enumerate(PICTURES, 1):
        if not wanted or number in wanted:
            draw()


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]])
