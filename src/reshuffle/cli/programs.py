"""Programs that train as advised: `plan.to_torch` and `plan.to_sklearn` with the lines that read the table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli.reader import Data

if TYPE_CHECKING:
    import reshuffle as rs


def of_plan(data: Data, plan: "rs.Plan", test: str | None) -> dict[str, str]:
    """Programs that read the table, train, and print the error on held-out rows, if there are any."""
    lines = "\n".join(reading(data))
    fitted = "model.predict(X_test).reshape(y_test.shape)"
    return {
        "torch": plan.to_torch(lines) + _testing(data, test, "predict(X_test)"),
        "scikit_learn": plan.to_sklearn(lines) + _testing(data, test, fitted),
    }


def reading(data: Data) -> list[str]:
    """Lines that make X and y, with the columns in our order."""
    lines = _table("table", data.path, data)
    if data.filled:
        medians = ", ".join(f"{_quoted(name)}: {value!r}" for name, value in data.filled.items())
        lines.append(f"table = table.fillna({{{medians}}})")
    away = [*data.targets, *data.dropped, *data.constant]
    lines.append(f"X, y = table.drop(columns={_list(away)}), table[{_list(data.targets)}]")
    return lines + [f"X = {_encoded('X', data)}"] * bool(data.encoded)


def _testing(data: Data, test: str | None, prediction: str) -> str:
    if test is None:
        return ""
    taken = "test[X.columns]"
    if data.encoded:
        taken = f"{_encoded('test', data)}.reindex(columns=X.columns, fill_value=0.0)"
    lines = [
        "",
        *_table("test", test, data),
        *["test = test.fillna(X.median())"] * (data.fill is not None),
        f"X_test = {taken}",
        f"y_test = test[{_list(data.targets)}]",
        f'print("test error:", (({prediction} - y_test) ** 2).mean().to_dict())',
    ]
    return "\n".join(lines) + "\n"


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
