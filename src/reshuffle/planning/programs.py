"""Programs that train as a plan recommends, in torch and in scikit-learn, with the numbers filled in."""

from string import Template
from typing import TYPE_CHECKING

from reshuffle._uncertainty import significant
from reshuffle.errors import UnsupportedError
from reshuffle.planning.search import PlannedRecipe
from reshuffle.schemes import FullBatch, SampleReshuffling

if TYPE_CHECKING:
    from reshuffle.planning.training_plan import Plan


_LONGER = 3
"""Cross-entropy is stopped by held-out loss, after at most this many times the planned epochs."""
_READ = """\
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

$reading
"""
_ROWS = """
def rows(X):
    return torch.tensor(((pd.DataFrame(X) - x_mean) / x_scale).to_numpy(), dtype=torch.float32)

torch.manual_seed(0)
"""
_SQUARES = f"""{_READ}\
${{encoding}}x_mean, x_scale, y_mean = $moments, $centre
{_ROWS}\
answers = torch.tensor((y - y_mean).to_numpy(), dtype=torch.float32)
batches = DataLoader(TensorDataset(rows(X), answers), batch_size=$batch_size, shuffle=True, drop_last=False)
model = nn.Linear($p, $t, bias=False)$remark
nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), $settings)
for epoch in range($epochs):
    for x, answer in batches:
        # nn.MSELoss() is $share times this: with it, take $others.
        loss = (model(x) - answer).square().sum(dim=1).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def predict(X):
    with torch.no_grad():
        return model(rows(X)).numpy() + y_mean.to_numpy()
"""
_CROSS_ENTROPY = f"""{_READ}\
labels = $labels
x_mean, x_scale = $moments
{_ROWS}\
features = rows(X)
answers = torch.tensor(pd.Index(labels).get_indexer(pd.DataFrame(y).iloc[:, 0]), dtype=torch.long)
held_out, learned = torch.randperm($n).split([$few, $many])
batches = DataLoader(TensorDataset(features[learned], answers[learned]), batch_size=$batch_size, shuffle=True)
model = nn.Linear($p, $t)
nn.init.zeros_(model.weight)
nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), $settings)
least = float("inf")
for epoch in range($epochs):
    for x, answer in batches:
        loss = nn.functional.cross_entropy(model(x), answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(features[held_out]), answers[held_out]).item()
    if loss < least:
        least, best = loss, {{name: value.clone() for name, value in model.state_dict().items()}}
model.load_state_dict(best)

def predict(X):
    with torch.no_grad():
        return model(rows(X)).numpy()
"""
_LABELS = """
def predicted_labels(X):
    return pd.Index(labels)[$number]
"""
_ENCODING = """\
labels = $labels
found = pd.DataFrame(y).iloc[:, 0]
y = pd.DataFrame($targets)
"""
_ESTIMATOR = """\
${imports}from reshuffle.sklearn import $name

${reading}# single_run=True trains once, as torch does, in place of the mean over all orders.
model = $name($settings)
model.fit(X, y)
"""


def torch_program(plan: "Plan", reading: str = "") -> str:
    """Train once in torch, from zero, on standardized rows; `reading` makes X and y."""
    best, t, encoding, labels = _shuffled(plan), plan.problem.outputs or 1, "", ""
    others = _settings("lr", best.learning_rate * t / 2, 0.0, 2 * best.weight_decay / t)
    if plan.classes is not None:
        targets = "{label: 1.0 * (found == label) for label in labels}"
        if len(plan.classes) == 2:
            targets = "2.0 * (found == labels[1]) - 1.0"
        encoding = Template(_ENCODING).substitute(labels=repr(plan.classes.tolist()), targets=targets)
        number = "(predict(X)[:, 0] > 0).astype(int)" if t == 1 else "predict(X).argmax(axis=1)"
        labels = Template(_LABELS).substitute(number=number)
    return Template(_SQUARES + labels).substitute(
        reading=reading or "X, y = pd.DataFrame(X), pd.DataFrame(y)  # your rows and targets",
        encoding=encoding, moments=_moments(plan), centre="y.mean()" if plan.centres else "0.0 * y.mean()",
        batch_size=best.batch_size, p=plan.problem.p, t=t, epochs=best.epochs,
        remark="  # y_mean is the intercept" * plan.centres, share=significant(2 / t, 3), others=", ".join(others),
        settings=", ".join(_settings("lr", best.learning_rate, best.momentum, best.weight_decay)),
    )  # fmt: skip


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
    labels = Template(_LABELS).substitute(number="predict(X).argmax(axis=1)")
    settings = _settings("lr", count * best.learning_rate, best.momentum, best.weight_decay / count)
    return Template(_CROSS_ENTROPY + labels).substitute(
        reading=reading or "X, y = pd.DataFrame(X), pd.DataFrame(y)  # your rows and labels",
        labels=repr(plan.classes.tolist()), moments=_moments(plan), n=n, few=n // 10, many=n - n // 10,
        batch_size=min(best.batch_size, n - n // 10), p=plan.problem.p, t=count,
        settings=", ".join(settings), epochs=_LONGER * best.epochs,
    )  # fmt: skip


def _moments(plan: "Plan") -> str:
    """Mean and scale of the columns of X, as they are computed in a program."""
    scale = "X.std(ddof=0)" if plan.scales else "1.0"
    if plan.scales and plan.standardizer.constant.any():
        scale += f".where(lambda std: std > {plan.problem.n} * 2.3e-16 * X.mean().abs(), 1.0)"
    return f"{'' if plan.centres else '0.0 * '}X.mean(), {scale}"


def scikit_learn_program(plan: "Plan", reading: str = "") -> str:
    """Fit the mean of all such trainings, without training, as an estimator; `reading` makes X and y."""
    best = _shuffled(plan)
    rate, *extras = _settings("learning_rate", best.learning_rate, best.momentum, best.weight_decay)
    size = None if best.batch_size == plan.problem.n else best.batch_size
    settings = [f"batch_size={size}", rate, f"epochs={best.epochs}", *extras, f"standardize={plan.scales}"]
    settings += ["fit_intercept=False"] * (not plan.centres)
    return Template(_ESTIMATOR).substitute(
        name="MiniBatchRegressor" if plan.classes is None else "MiniBatchClassifier",
        imports="import pandas as pd\n" * bool(reading),
        reading=reading and f"{reading}\n",
        settings=", ".join(settings),
    )


def _shuffled(plan: "Plan") -> PlannedRecipe:
    """The best recipe, if it is one that these programs can train."""
    best, is_weighted = plan.best, plan.problem.sample_weight is not None
    if is_weighted or best.scheme not in (FullBatch(), SampleReshuffling(batch_size=best.batch_size)):
        raise UnsupportedError(
            "programs are written for rows without weights that are shuffled in every epoch, but this plan is "
            f"for {best.scheme}{' of weighted rows' * is_weighted}; take its numbers."
        )
    return best


def _settings(name: str, rate: float, momentum: float, decay: float) -> list[str]:
    """Learning rate, and momentum and weight decay if there are any, as arguments, to six digits."""
    given, decayed = (repr(float(f"{value:.6g}")) for value in (rate, decay))
    extras = [f"momentum={momentum:g}"] * bool(momentum) + [f"weight_decay={decayed}"] * bool(decay)
    return [f"{name}={given}", *extras]
