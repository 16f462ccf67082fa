"""Answers that are kept in a folder, one file each, and believed only if they are whole.

A file bears the hash of all that its answer depends on as its name. It is an npz archive whose comment is the hash
of everything before it: what does not match is not even opened as an archive.
"""

import errno
import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.sweeps.grid_answers import PointAnswer

_DIGEST = 64
_WORDS = ("key", "error_kind", "reason")


class KeptAnswers:
    """A folder of answers.

    Attributes
    ----------
    found : int
        How many answers were taken from it.
    distrusted : int
        How many files were there but not whole, or not what their name says.
    """

    def __init__(self, folder: Any):
        self.folder = _checked_folder(folder)
        self.found = self.distrusted = 0

    def get(self, key: str, shapes: Mapping[str, tuple[int, ...]]) -> PointAnswer | None:
        """The answer of this name with variables of these shapes, if there is one to be trusted."""
        try:
            content = (self.folder / f"{key}.npz").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            content = b""
        answer = _read(content, key, shapes)
        self.found += answer is not None
        self.distrusted += answer is None
        return answer

    def put(self, key: str, answer: PointAnswer) -> None:
        """Keep an answer: it appears under its name when it is whole and on disk, not before."""
        path, part = self.folder / f"{key}.npz", self.folder / f"{key}.{os.getpid()}.part"
        try:
            with part.open("wb") as file:
                file.write(_written(key, answer))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _checked_folder(folder: Any) -> Path:
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"cache must be the path of a folder, but it is {folder!r}.")
    path = Path(os.fspath(folder))
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "cache must be a folder, but this is a file; name another one", str(path)
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            error.errno, f"cache cannot be made ({error.strerror}); name another folder", str(path)
        ) from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(
            errno.EACCES, "cache must be a folder to read and write; name another one", str(path)
        )
    return path


def _written(key: str, answer: PointAnswer) -> bytes:
    words = {"key": key, "error_kind": answer.error_kind, "reason": answer.reason}
    arrays = {**{f"word_{name}": np.array(word) for name, word in words.items()}, **answer.values}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
        archive.comment = b"0" * _DIGEST
    content = file.getvalue()[:-_DIGEST]
    return content + hashlib.sha256(content).hexdigest().encode()


def _read(content: bytes, key: str, shapes: Mapping[str, tuple[int, ...]]) -> PointAnswer | None:
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            words = {name: str(archive[f"word_{name}"]) for name in _WORDS}
            values = {name: archive[name] for name in archive.files if not name.startswith("word_")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return None
    if words["key"] != key or {name: value.shape for name, value in values.items()} != dict(shapes):
        return None
    if any(value.dtype != np.float64 for value in values.values()):
        return None
    return PointAnswer(values, words["error_kind"], words["reason"])
