"""What one pass takes: eigenvalues with a source, steps, and how many of them."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.named_spectra import PowerLaw
from reshuffle.asymptotics.streaming.grouped_modes import Cells, cells_of_power_laws, cells_of_values

Values: TypeAlias = ArrayLike | PowerLaw
"""Eigenvalues of Sigma, or squares of the start along its eigenvectors: a vector (p,) or a power law."""
MOST_STEPS = 2**24
"""How many steps are walked one by one, with momentum or where the step changes."""


def grouped(spectrum: Values, source: Values, cells: int) -> Cells:
    """Eigenvalues (p,) and their source in cells, or two power laws; what cannot be added up is refused.

    >>> grouped([1.0, 0.5], [1.0], 16)
    Traceback (most recent call last):
    ...
    ValueError: source must have shape (2,), one entry per eigenvalue of spectrum, but its shape is (1,).
    """
    cells = _arrays.whole_number("cells", cells, 16, 1024)
    if isinstance(spectrum, PowerLaw) and isinstance(source, PowerLaw):
        return cells_of_power_laws(_checked_laws(spectrum, source), source, cells)
    values = spectrum.values() if isinstance(spectrum, PowerLaw) else _vector("spectrum", spectrum)
    start = source.values() if isinstance(source, PowerLaw) else _vector("source", source)
    if values.shape != start.shape:
        raise ValueError(
            f"source must have shape {values.shape}, one entry per eigenvalue of spectrum, but its shape is"
            f" {start.shape}."
        )
    if values.min() < 0 or values.max() == 0:
        raise ValueError(
            f"spectrum must have eigenvalues >= 0, not all zero, but they go from {values.min():g} to"
            f" {values.max():g}."
        )
    if start.min() < 0:
        place = int(np.argmin(start))
        raise ValueError(f"source must have entries >= 0, squares, but source[{place}] is {start[place]:g}.")
    return cells_of_values(values, start, cells)


def _vector(name: str, value: ArrayLike) -> FloatArray:
    vector = np.atleast_1d(_arrays.real_array(name, value))
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be a vector of at least one entry, but its shape is {vector.shape}.")
    return vector


def _checked_laws(spectrum: PowerLaw, source: PowerLaw) -> PowerLaw:
    if spectrum.size != source.size:
        raise ValueError(
            f"source must have the size of spectrum, {spectrum.size:g}, but its size is {source.size:g}."
        )
    if spectrum.exponent <= 0:
        raise ValueError(f"spectrum must fall, with an exponent > 0, but it is {spectrum.exponent:g}.")
    if math.isinf(spectrum.size):
        if spectrum.exponent <= 1:
            raise ValueError(
                "spectrum must have an exponent > 1 where size is infinite, or its trace and the noise of every"
                f" gradient diverge, but it is {spectrum.exponent:g}; give it a finite size."
            )
        if spectrum.exponent + source.exponent <= 1:
            raise ValueError(
                "the exponents of spectrum and source must add up to more than 1 where size is infinite, or the"
                f" risk of the start diverges, but they are {spectrum.exponent:g} and {source.exponent:g}."
            )
    return spectrum


def momentum(value: float) -> float:
    """Return a number in [0, 1)."""
    momentum = _arrays.nonnegative("momentum", value)
    if momentum >= 1:
        raise ValueError(f"momentum must lie in [0, 1), but it is {momentum:g}.")
    return momentum


def clock(steps: ArrayLike) -> FloatArray:
    """Return whole numbers of steps >= 0 of any shape; infinity asks for the limit."""
    return _arrays.epochs(steps, "steps")


def schedule(step: ArrayLike, clock: FloatArray, momentum: float) -> FloatArray:
    """Return the steps as a vector: of one entry where all are the same."""
    schedule = np.atleast_1d(_arrays.real_array("step", step))
    if schedule.ndim != 1 or not schedule.size or not (schedule > 0).all():
        raise ValueError(f"step must be a number > 0, or a vector of them, but it is {step!r}.")
    last = float(np.max(clock, initial=0))
    if momentum and float(np.max(clock[np.isfinite(clock)], initial=0)) > MOST_STEPS:
        raise ValueError(
            f"steps must be at most {MOST_STEPS} with momentum, where they are walked one by one, but one is"
            f" {last:g}; ask for math.inf, the limit."
        )
    if np.ndim(step) == 0:
        return schedule
    if not math.isinf(last) and last > len(schedule):
        raise ValueError(f"step must have an entry for each of {last:g} steps, but it has {len(schedule)}.")
    if math.isinf(last):
        raise ValueError("steps must be finite where step is a vector, but one is math.inf.")
    return schedule
