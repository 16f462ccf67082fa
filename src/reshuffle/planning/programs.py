"""Programs that train as a plan recommends, in torch and in scikit-learn, with the numbers filled in."""

from typing import TYPE_CHECKING

from reshuffle._uncertainty import significant
from reshuffle.errors import UnsupportedError
from reshuffle.planning.search import PlannedRecipe
from reshuffle.schemes import FullBatch, SampleReshuffling

if TYPE_CHECKING:
    from reshuffle.planning.training_plan import Plan


_LONGER = 3
"""Cross-entropy is stopped by held-out loss, after at most this many times the planned epochs."""
_IMPORTS = (
    "import pandas as pd", "import torch", "from torch import nn",
    "from torch.utils.data import DataLoader, TensorDataset", "",
)  # fmt: skip
_ROWS = (
    "def rows(X):",
    "    return torch.tensor(((pd.DataFrame(X) - x_mean) / x_scale).to_numpy(), dtype=torch.float32)",
    "",
    "torch.manual_seed(0)",
)


def torch_program(plan: "Plan", reading: str = "") -> str:
    """Train once in torch, from zero, on standardized rows; `reading` makes X and y."""
    best = _shuffled(plan)
    t = plan.problem.outputs or 1
    halves = [f"lr={_text(best.learning_rate * t / 2)}"]
    halves += [f"weight_decay={_text(2 * best.weight_decay / t)}"] * bool(best.weight_decay)
    step = ", ".join([f"lr={_text(best.learning_rate)}", *_extras(best)])
    lines = [
        *_IMPORTS,
        reading or "X, y = pd.DataFrame(X), pd.DataFrame(y)  # your rows and targets",
        *_encoding(plan),
        f"x_mean, x_scale, y_mean = {_moments(plan)}, {'' if plan.centres else '0.0 * '}y.mean()",
        "",
        *_ROWS,
        "answers = torch.tensor((y - y_mean).to_numpy(), dtype=torch.float32)",
        f"batches = DataLoader(TensorDataset(rows(X), answers), batch_size={best.batch_size}, "
        "shuffle=True, drop_last=False)",
        f"model = nn.Linear({plan.problem.p}, {t}, bias=False)"
        + "  # y_mean is the intercept" * plan.centres,
        "nn.init.zeros_(model.weight)",
        f"optimizer = torch.optim.SGD(model.parameters(), {step})",
        f"for epoch in range({best.epochs}):",
        "    for x, answer in batches:",
        f"        # nn.MSELoss() is {significant(2 / t, 3)} times this: with it, take {', '.join(halves)}.",
        "        loss = (model(x) - answer).square().sum(dim=1).mean() / 2",
        "        optimizer.zero_grad()",
        "        loss.backward()",
        "        optimizer.step()",
        "",
        "def predict(X):",
        "    with torch.no_grad():",
        "        return model(rows(X)).numpy() + y_mean.to_numpy()",
    ]
    if plan.classes is not None:
        number = "(predict(X)[:, 0] > 0).astype(int)" if t == 1 else "predict(X).argmax(axis=1)"
        lines += ["", "def predicted_labels(X):", f"    return pd.Index(labels)[{number}]"]
    return "\n".join(lines) + "\n"


def cross_entropy_program(plan: "Plan", reading: str = "") -> str:
    """Train a head once with cross-entropy, from zero, until the loss of a tenth of the rows is least.

    At zero logits the curvature of the softmax of K classes is (I - 11'/K) / K in place of I: the step is taken
    times K, the weight decay over K.
    """
    if plan.classes is None:
        raise UnsupportedError(
            "cross-entropy is for classes, but this plan is for numbers; plan with plan(X, labels, classes=True)."
        )
    best, n, count = _shuffled(plan), plan.problem.n, len(plan.classes)
    settings = [f"lr={_text(count * best.learning_rate)}"]
    settings += [f"momentum={best.momentum:g}"] * bool(best.momentum)
    settings += [f"weight_decay={_text(best.weight_decay / count)}"] * bool(best.weight_decay)
    lines = [
        *_IMPORTS,
        reading or "X, y = pd.DataFrame(X), pd.DataFrame(y)  # your rows and labels",
        f"labels = {plan.classes.tolist()!r}",
        f"x_mean, x_scale = {_moments(plan)}",
        "",
        *_ROWS,
        "features = rows(X)",
        "answers = torch.tensor(pd.Index(labels).get_indexer(pd.DataFrame(y).iloc[:, 0]), dtype=torch.long)",
        f"held_out, learned = torch.randperm({n}).split([{n // 10}, {n - n // 10}])",
        "batches = DataLoader(TensorDataset(features[learned], answers[learned]), "
        f"batch_size={min(best.batch_size, n - n // 10)}, shuffle=True)",
        f"model = nn.Linear({plan.problem.p}, {count})",
        "nn.init.zeros_(model.weight)",
        "nn.init.zeros_(model.bias)",
        f"optimizer = torch.optim.SGD(model.parameters(), {', '.join(settings)})",
        'least = float("inf")',
        f"for epoch in range({_LONGER * best.epochs}):",
        "    for x, answer in batches:",
        "        loss = nn.functional.cross_entropy(model(x), answer)",
        "        optimizer.zero_grad()",
        "        loss.backward()",
        "        optimizer.step()",
        "    with torch.no_grad():",
        "        loss = nn.functional.cross_entropy(model(features[held_out]), answers[held_out]).item()",
        "    if loss < least:",
        "        least, best = loss, {name: value.clone() for name, value in model.state_dict().items()}",
        "model.load_state_dict(best)",
        "",
        "def predict(X):",
        "    with torch.no_grad():",
        "        return model(rows(X)).numpy()",
        "",
        "def predicted_labels(X):",
        "    return pd.Index(labels)[predict(X).argmax(axis=1)]",
    ]
    return "\n".join(lines) + "\n"


def _moments(plan: "Plan") -> str:
    """Mean and scale of the columns of X, as they are computed in a program."""
    scale = "X.std(ddof=0)" if plan.scales else "1.0"
    if plan.scales and plan.standardizer.constant.any():
        scale += f".where(lambda std: std > {plan.problem.n} * 2.3e-16 * X.mean().abs(), 1.0)"
    return f"{'' if plan.centres else '0.0 * '}X.mean(), {scale}"


def _encoding(plan: "Plan") -> list[str]:
    """Lines that make numbers of labels."""
    if plan.classes is None:
        return []
    second = "2.0 * (found == labels[1]) - 1.0"
    each = "{label: 1.0 * (found == label) for label in labels}"
    return [
        f"labels = {plan.classes.tolist()!r}",
        "found = pd.DataFrame(y).iloc[:, 0]",
        f"y = pd.DataFrame({second if len(plan.classes) == 2 else each})",
    ]


def scikit_learn_program(plan: "Plan", reading: str = "") -> str:
    """Fit the mean of all such trainings, without training, as an estimator; `reading` makes X and y."""
    best, name = _shuffled(plan), "MiniBatchRegressor" if plan.classes is None else "MiniBatchClassifier"
    settings = [
        f"batch_size={None if best.batch_size == plan.problem.n else best.batch_size}",
        f"learning_rate={_text(best.learning_rate)}",
        f"epochs={best.epochs}",
        *_extras(best),
        f"standardize={plan.scales}",
        *["fit_intercept=False"] * (not plan.centres),
    ]
    lines = [
        *["import pandas as pd"] * bool(reading),
        f"from reshuffle.sklearn import {name}",
        "",
        *[reading] * bool(reading),
        "# single_run=True trains once, as torch does, in place of the mean over all orders.",
        f"model = {name}({', '.join(settings)})",
        "model.fit(X, y)",
    ]
    return "\n".join(lines) + "\n"


def _shuffled(plan: "Plan") -> PlannedRecipe:
    """The best recipe, if it is one that these programs can train."""
    best, is_weighted = plan.best, plan.problem.sample_weight is not None
    if is_weighted or best.scheme not in (FullBatch(), SampleReshuffling(batch_size=best.batch_size)):
        raise UnsupportedError(
            "programs are written for rows without weights that are shuffled in every epoch, but this plan is "
            f"for {best.scheme}{' of weighted rows' * is_weighted}; take its numbers."
        )
    return best


def _extras(recipe: PlannedRecipe) -> list[str]:
    """Momentum and weight decay as arguments, if there are any."""
    found = [f"momentum={recipe.momentum:g}"] if recipe.momentum else []
    return found + ([f"weight_decay={_text(recipe.weight_decay)}"] if recipe.weight_decay else [])


def _text(value: float) -> str:
    """Six digits: more than matters to training.

    >>> _text(0.0587654321), _text(2.0)
    ('0.0587654', '2.0')
    """
    return repr(float(f"{value:.6g}"))
