"""What an accumulator keeps, as a file: numpy's npz, which holds arrays and no code."""

import os
import tempfile
import zipfile
from os import PathLike
from pathlib import Path

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray
from reshuffle.problem.blocks import KeptRows

_FORMAT = "reshuffle accumulator 1"
_NAMES = ("format", "batches", "weighted", "X", "y", "counts", "offsets", "sizes")


def save(path: "str | PathLike[str]", batches: int, is_weighted: bool, kept: KeptRows | None) -> None:
    """Write the file beside its place and move it there once it is whole."""
    target = Path(path)
    none = np.zeros(0, dtype=np.int64)
    nothing = KeptRows(np.zeros((0, 0)), np.zeros(0), none, np.zeros(1, dtype=np.int64), np.zeros(0))
    rows = nothing if kept is None else kept
    handle, name = tempfile.mkstemp(prefix=target.name, suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file, format=np.array(_FORMAT), batches=np.array(batches), weighted=np.array(is_weighted),
                X=rows.X, y=rows.y, counts=np.asarray(rows.counts), offsets=np.asarray(rows.offsets),
                sizes=np.asarray(rows.sizes),
            )  # fmt: skip
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def load(path: "str | PathLike[str]") -> tuple[int, bool, KeptRows | None]:
    """Batches, whether rows are weighted, and what is kept of them; refuses whatever `save` has not written."""
    try:
        # numpy leaves a file open that it was given by name and cannot read.
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            found = {name: np.asarray(file[name]) for name in _NAMES}
    except OSError as error:
        if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
            raise
        raise _refusal(path, str(error)) from None
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, TypeError, AttributeError) as error:
        raise _refusal(path, str(error)) from None
    wrong = _wrong(found)
    if wrong:
        raise _refusal(path, wrong)
    batches = int(found["batches"])
    if not found["X"].size:
        return batches, False, None
    parts: list[FloatArray] = [found[name] for name in ("X", "y", "counts", "offsets", "sizes")]
    X, y, counts, offsets, sizes = parts
    return (
        batches,
        bool(found["weighted"]),
        KeptRows(X, y, counts.astype(np.int64), offsets.astype(np.int64), sizes),
    )


def _refusal(path: "str | PathLike[str]", why: str) -> ValueError:
    return ValueError(
        f"path must be a whole file that Accumulator.save has written, but {os.fspath(path)!r} is not: "
        f"{why.rstrip('.')}."
    )


def _wrong(found: dict[str, AnyArray]) -> str:
    """What does not fit together; nothing if all does."""
    if found["format"].dtype.kind != "U" or str(found["format"]) != _FORMAT:
        return "it is of another format"
    X, y, counts, offsets = (found[name] for name in ("X", "y", "counts", "offsets"))
    if any(found[name].dtype.kind not in "iufb" for name in _NAMES[1:]):
        return "it holds no numbers"
    if not X.size:
        return ""
    batches = int(found["batches"])
    fits = (
        X.ndim == 2 and y.ndim in (1, 2) and len(y) == len(X) and counts.shape == (batches,)
        and offsets.shape == (batches + 1,) and found["sizes"].shape == X.shape[1:]
    )  # fmt: skip
    if not fits:
        return "its arrays do not fit together"
    kept = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(X) or (kept < 0).any() or (counts < kept.clip(max=1)).any():
        return "its counts are not those of its rows"
    if not all(np.isfinite(part).all() for part in (X, y, found["sizes"])):
        return "not all of its entries are finite"
    return ""
