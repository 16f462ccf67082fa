"""A folder of answers, one file each: named by a hash of all that the answer depends on, and read only if whole.

A file is an npz archive followed by its hash: if that does not match, it is not even opened as an archive.
"""

import errno
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.grid.metrics import Answer, Metric
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run
from reshuffle.schemes.base import Scheme

FORMAT = 4
"""Version of the files: another one makes other names."""
_DIGEST = hashlib.sha256().digest_size


class UnknownContentError(TypeError):
    """Something that has no hash, such as a function."""


class Cache:
    """A folder of answers.

    `found` counts those that were taken from it, `distrusted` files that were damaged, or not what their name says.
    """

    def __init__(self, folder: Any):
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"cache must be the path of a folder, but it is {folder!r}.")
        self.folder, self.found, self.distrusted = Path(os.fspath(folder)), 0, 0
        path = str(self.folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(
                errno.ENOTDIR, "cache must be a folder, but this is a file; name another one", path
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                error.errno, f"cache cannot be made ({error.strerror}); name another folder", path
            ) from None
        if not os.access(self.folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(
                errno.EACCES, "cache must be a folder to read and write; name another one", path
            )

    def get(self, key: str, metric: Metric) -> dict[str, Answer] | None:
        """The answers under a name, if there are some to be trusted."""
        try:
            content = (self.folder / f"{key}.npz").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            content = b""
        answers = _read(content, key, metric)
        self.found += answers is not None
        self.distrusted += answers is None
        return answers

    def put(self, key: str, metric: Metric, answers: Mapping[str, Answer]) -> None:
        """Keep answers: they appear under their name when they are whole and on disk, not before."""
        path, part = self.folder / f"{key}.npz", self.folder / f"{key}.{os.getpid()}.part"
        try:
            with part.open("wb") as file:
                file.write(_written(key, metric, answers))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _written(key: str, metric: Metric, answers: Mapping[str, Answer]) -> bytes:
    first = answers[metric.quantities[0].name]
    arrays: dict[str, Any] = {"words": np.array([key, first.error_kind, first.reason])}
    for each in metric.quantities:
        arrays[each.name], arrays[f"{each.name}_error"] = answers[each.name].value, answers[each.name].error
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue() + hashlib.sha256(file.getvalue()).digest()


def _read(content: bytes, key: str, metric: Metric) -> dict[str, Answer] | None:
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            name, kind, reason = archive["words"].tolist()
            found = {
                each.name: Answer(archive[each.name], archive[f"{each.name}_error"], kind, reason)
                for each in metric.quantities
            }
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return None
    return found if name == key else None


# ------------------------------------------------------------------------------------------------ names of answers


def hashed(content: Any) -> str:
    """The hash of anything that is made of numbers, words, arrays, schemes and averages, 64 letters.

    >>> hashed([1, 2.0]) == hashed([1, 2.0]), hashed([1, 2.0]) == hashed([1, 2.5])
    (True, False)
    """
    return hashlib.sha256(json.dumps(_plain(content), sort_keys=True).encode()).hexdigest()


def hashed_problems(problems: Sequence[LeastSquares], *, required: bool) -> list[str]:
    """Hashes of the rows, responses, weights and truths, to the last bit; empty where rows are read in chunks."""
    found = []
    for problem in problems:
        if problem.stream is None:
            parts = {name: getattr(problem, name) for name in ("sample_weight", "beta_star", "noise")}
            found.append(
                hashed({**parts, "covariance": problem.covariance.value, "rows": problem.compressed})
            )
        elif required:
            raise UnknownContentError(
                "cache must tell every data set from others, but these rows are read in chunks, and must be read "
                "once more for that; put them into an Accumulator first, or leave cache out."
            )
        else:
            found.append("")
    return found


def hashed_question(run: Run, data: str, metric: Metric, epochs: FloatArray) -> str:
    """The hash of all that the answers of a run to a metric depend on."""
    from reshuffle import __version__

    recipe = run.recipe
    if recipe.is_constant:
        step = recipe.at(0).step if metric.depends_on_step else 0.0
        recipe = replace(recipe, schedule=step, divisor=1)
    content = {"format": FORMAT, "version": __version__, "data": data, "scheme": run.scheme, "recipe": recipe}
    content |= {"start": run.start, "accuracy": run.accuracy, "metric": metric.name}
    return hashed({**content, "epochs": epochs if metric.needs_epochs else None})


def _plain(content: Any) -> Any:
    """The content in the few types that are written alike everywhere; floats to the last bit."""
    if content is None or isinstance(content, (bool, int, str)):
        return content
    if isinstance(content, (float, np.floating)):
        return ["float", float(content).hex()]
    if isinstance(content, (np.bool_, np.integer)):
        return content.item()
    if isinstance(content, np.ndarray) and content.dtype.kind in "biuf":
        dense = np.ascontiguousarray(content)
        return ["array", dense.dtype.str, list(dense.shape), hashlib.sha256(dense.data).hexdigest()]
    if isinstance(content, Mapping):
        return {str(name): _plain(value) for name, value in content.items()}
    if isinstance(content, (tuple, list)):
        return [_plain(value) for value in content]
    name = f"{type(content).__module__}.{type(content).__qualname__}"
    if isinstance(content, Scheme):
        return [name, _plain(content.settings)]
    if is_dataclass(content):
        return [name, {each.name: _plain(getattr(content, each.name)) for each in fields(content)}]
    raise UnknownContentError(
        f"cache must tell every recipe and data set from others, but {content!r} does not show what is in it; "
        "give numbers or arrays in its place, or leave cache out."
    )
