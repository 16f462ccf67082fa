"""Programs that train as a plan recommends, in torch and in scikit-learn, with the numbers filled in."""

from dataclasses import dataclass

from reshuffle._uncertainty import significant


@dataclass(frozen=True)
class Numbers:
    """The numbers in a program: of the data, of the recipe, and of the way rows are standardized."""

    rows: int
    features: int
    outputs: int
    batch_size: int
    learning_rate: float
    epochs: int
    momentum: float
    weight_decay: float
    centres: bool
    scales: bool
    has_constant: bool

    @property
    def extras(self) -> list[str]:
        """Momentum and weight decay as arguments, if there are any."""
        found = [f"momentum={self.momentum:g}"] if self.momentum else []
        return found + ([f"weight_decay={_text(self.weight_decay)}"] if self.weight_decay else [])


def torch_program(numbers: Numbers, reading: str = "") -> str:
    """Train once in torch, from zero, on standardized rows; `reading` makes X and y."""
    t, n = numbers.outputs, numbers.rows
    halves = [f"lr={_text(numbers.learning_rate * t / 2)}"]
    halves += [f"weight_decay={_text(2 * numbers.weight_decay / t)}"] * bool(numbers.weight_decay)
    step = ", ".join([f"lr={_text(numbers.learning_rate)}", *numbers.extras])
    means = ("X.mean()", "y.mean()") if numbers.centres else ("0.0 * X.mean()", "0.0 * y.mean()")
    scale = "X.std(ddof=0)" if numbers.scales else "1.0"
    if numbers.scales and numbers.has_constant:
        scale += f".where(lambda std: std > {n} * 2.3e-16 * X.mean().abs(), 1.0)"
    lines = [
        "import pandas as pd",
        "import torch",
        "from torch import nn",
        "from torch.utils.data import DataLoader, TensorDataset",
        "",
        reading or "X, y = pd.DataFrame(X), pd.DataFrame(y)  # your rows and targets",
        f"x_mean, x_scale, y_mean = {means[0]}, {scale}, {means[1]}",
        "",
        "def rows(X):",
        "    return torch.tensor(((pd.DataFrame(X) - x_mean) / x_scale).to_numpy(), dtype=torch.float32)",
        "",
        "torch.manual_seed(0)",
        "answers = torch.tensor((y - y_mean).to_numpy(), dtype=torch.float32)",
        f"batches = DataLoader(TensorDataset(rows(X), answers), batch_size={numbers.batch_size}, "
        "shuffle=True, drop_last=False)",
        f"model = nn.Linear({numbers.features}, {t}, bias=False)"
        + "  # y_mean is the intercept" * numbers.centres,
        "nn.init.zeros_(model.weight)",
        f"optimizer = torch.optim.SGD(model.parameters(), {step})",
        f"for epoch in range({numbers.epochs}):",
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
    return "\n".join(lines) + "\n"


def scikit_learn_program(numbers: Numbers, reading: str = "") -> str:
    """Fit the mean of all such trainings, without training, as an estimator; `reading` makes X and y."""
    settings = [
        f"batch_size={None if numbers.batch_size == numbers.rows else numbers.batch_size}",
        f"learning_rate={_text(numbers.learning_rate)}",
        f"epochs={numbers.epochs}",
        *numbers.extras,
        f"standardize={numbers.scales}",
        *["fit_intercept=False"] * (not numbers.centres),
    ]
    lines = [
        *["import pandas as pd"] * bool(reading),
        "from reshuffle.sklearn import MiniBatchRegressor",
        "",
        *[reading] * bool(reading),
        "# single_run=True trains once, as torch does, in place of the mean over all orders.",
        f"model = MiniBatchRegressor({', '.join(settings)})",
        "model.fit(X, y)",
    ]
    return "\n".join(lines) + "\n"


def _text(value: float) -> str:
    """Six digits: more than matters to training.

    >>> _text(0.0587654321), _text(2.0)
    ('0.0587654', '2.0')
    """
    return repr(float(f"{value:.6g}"))
