"""Programs that train as advised, with the numbers filled in: in torch, and in scikit-learn's clothes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli.reader import Data
from reshuffle.cli.render import number

if TYPE_CHECKING:
    import reshuffle as rs


@dataclass(frozen=True)
class Numbers:
    """A recipe as the programs have it; `batch_size` is None for all rows at once."""

    batch_size: int | None
    learning_rate: float
    epochs: int
    momentum: float
    weight_decay: float
    standardizes: bool = True


def of_plan(data: Data, plan: "rs.Plan", test: str | None, *, standardizes: bool = True) -> dict[str, str]:
    """Programs that train as a plan recommends."""
    best = plan.best
    size = None if best.batch_size == plan.run.problem.n else best.batch_size
    numbers = Numbers(size, best.step, best.epochs, best.momentum, best.penalty, standardizes)
    return {
        "torch": torch_program(data, numbers, test),
        "scikit_learn": scikit_learn_program(data, numbers, test),
    }


def torch_program(data: Data, numbers: Numbers, test: str | None) -> str:
    """Train once in torch, from zero, on centred features, and look at held-out rows if there are any."""
    n, p = data.X.shape
    t = len(data.targets)
    extras = f", momentum={numbers.momentum:g}" * bool(numbers.momentum)
    extras += f", weight_decay={_text(numbers.weight_decay)}" * bool(numbers.weight_decay)
    halves = [f"lr={_text(numbers.learning_rate * t / 2)}"]
    halves += [f"weight_decay={_text(2 * numbers.weight_decay / t)}"] * bool(numbers.weight_decay)
    lines = [
        "import pandas as pd",
        "import torch",
        "from torch import nn",
        "from torch.utils.data import DataLoader, TensorDataset",
        "",
        *reading(data),
        f"x_mean, x_scale, y_mean = X.mean(), {'X.std(ddof=0)' if numbers.standardizes else '1.0'}, y.mean()",
        "",
        "def rows(X):",
        "    return torch.tensor(((X - x_mean) / x_scale).to_numpy(), dtype=torch.float32)",
        "",
        "torch.manual_seed(0)",
        "answers = torch.tensor((y - y_mean).to_numpy(), dtype=torch.float32)",
        f"batches = DataLoader(TensorDataset(rows(X), answers), batch_size={numbers.batch_size or n}, "
        "shuffle=True, drop_last=False)",
        f"model = nn.Linear({p}, {t}, bias=False)  # y_mean is the intercept",
        "nn.init.zeros_(model.weight)",
        f"optimizer = torch.optim.SGD(model.parameters(), lr={_text(numbers.learning_rate)}{extras})",
        f"for epoch in range({numbers.epochs}):",
        "    for x, answer in batches:",
        f"        # nn.MSELoss() is {number(2 / t, 3)} times this: with it, take {', '.join(halves)}.",
        "        loss = (model(x) - answer).square().sum(dim=1).mean() / 2",
        "        optimizer.zero_grad()",
        "        loss.backward()",
        "        optimizer.step()",
        "",
        "def predict(X):",
        "    with torch.no_grad():",
        "        return model(rows(X)).numpy() + y_mean.to_numpy()",
    ]
    return "\n".join([*lines, *_testing(data, test, "predict(X_test)")]) + "\n"


def scikit_learn_program(data: Data, numbers: Numbers, test: str | None) -> str:
    """The mean of all such trainings, without training, as an estimator."""
    settings = [
        f"batch_size={numbers.batch_size}",
        f"learning_rate={_text(numbers.learning_rate)}",
        f"epochs={numbers.epochs}",
        *[f"momentum={numbers.momentum:g}"] * bool(numbers.momentum),
        *[f"weight_decay={_text(numbers.weight_decay)}"] * bool(numbers.weight_decay),
        f"standardize={numbers.standardizes}",
    ]
    lines = [
        "import pandas as pd",
        "from reshuffle.sklearn import MiniBatchRegressor",
        "",
        *reading(data),
        "# single_run=True trains once, as torch does, in place of the mean over all orders.",
        f"model = MiniBatchRegressor({', '.join(settings)})",
        "model.fit(X, y)",
    ]
    shaped = "model.predict(X_test).reshape(y_test.shape)"
    return "\n".join([*lines, *_testing(data, test, shaped)]) + "\n"


def _text(value: float) -> str:
    """Six digits: more than matters to training.

    >>> _text(0.0587654321), _text(2.0)
    ('0.0587654', '2.0')
    """
    return repr(float(f"{value:.6g}"))


def reading(data: Data) -> list[str]:
    """Lines that make X and y, with the columns in our order."""
    lines = _table("table", data.path, data)
    if data.filled:
        medians = ", ".join(f"{_quoted(name)}: {value!r}" for name, value in data.filled.items())
        lines.append(f"table = table.fillna({{{medians}}})")
    away = [*data.targets, *data.dropped, *data.constant]
    lines.append(f"X, y = table.drop(columns={_list(away)}), table[{_list(data.targets)}]")
    return lines + [f"X = {_encoded('X', data)}"] * bool(data.encoded)


def _testing(data: Data, test: str | None, prediction: str) -> list[str]:
    if test is None:
        return []
    taken = "test[X.columns]"
    if data.encoded:
        taken = f"{_encoded('test', data)}.reindex(columns=X.columns, fill_value=0.0)"
    return [
        "",
        *_table("test", test, data),
        f"X_test = {taken}",
        f"y_test = test[{_list(data.targets)}]",
        f'print("test error:", (({prediction} - y_test) ** 2).mean().to_dict())',
    ]


def _table(name: str, path: str, data: Data) -> list[str]:
    """Lines that read a file as it was read here."""
    words = "{" + ", ".join(f"{_quoted(column)}: str" for column in data.encoded) + "}"
    as_words = f".astype({words})" * bool(data.encoded)
    assert data.table is not None
    if Path(path).suffix.lower() == ".parquet":
        return [f"{name} = pd.read_parquet({_quoted(path)}){as_words}"]
    settings = [
        _quoted(path),
        *[f"sep={data.table.separator!r}"] * (data.table.separator != ","),
        *['decimal=","'] * data.table.has_decimal_commas,
        *[f"dtype={words}"] * (bool(data.encoded) and not data.table.is_padded),
    ]
    line = f"{name} = pd.read_csv({', '.join(settings)})"
    return [line + f".rename(columns=str.strip){as_words}" * data.table.is_padded]


def _encoded(name: str, data: Data) -> str:
    return f"pd.get_dummies({name}, columns={_list(list(data.encoded))}, dtype=float)"


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(text: str) -> str:
    r"""A text as Python has it; what would not print is escaped.

    >>> print(_quoted("price"), _quoted('6" pipe'), _quoted("a\x1bb"))
    "price" "6\" pipe" 'a\x1bb'
    """
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)
