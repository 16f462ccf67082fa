"""Limits with no data at all, and laws of free variables."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from reshuffle import asymptotics, free
from tests.golden.record import Answer, Case

_NUMERICAL = 1e-8
"""Relative: contour integrals, panels and searches that end at a tolerance."""


def _near(value: object) -> Answer:
    numbers = np.atleast_1d(np.asarray(value, dtype=float))
    return Answer(numbers, _NUMERICAL * np.abs(numbers).max(), "numerical", vector=1)


def _curve(aspect: float, alpha: float, batches: int, covariance: object = None) -> Answer:
    found = asymptotics.learning_curve(aspect, alpha, batches, noise=0.7, covariance=covariance).risk(
        [1, 5, 50]
    )
    return _near(found.total)


def _ends(aspect: float, alpha: float, batches: int, covariance: object = None) -> Answer:
    law = asymptotics.batch_spectrum(aspect, alpha, batches, covariance=covariance)
    return _near(np.ravel(law.support))


def _density(aspect: float, alpha: float, batches: int, covariance: object = None) -> Answer:
    law = asymptotics.batch_spectrum(aspect, alpha, batches, covariance=covariance)
    low, high = np.ravel(law.support)[[0, -1]]
    return _near(law.density(low + (high - low) * np.array([0.1, 0.4, 0.8])))


def _limits() -> Iterator[tuple[str, Case]]:
    settings: dict[str, tuple[float, float, int, object]] = {
        "B = 1": (0.5, 0.5, 1, None),
        "B = 2": (0.25, 0.4, 2, None),
        "B = 2, wide": (1.5, 0.2, 2, None),
        "B = 3": (0.5, 0.5, 3, None),
        "B = 4, wide": (2.0, 0.3, 4, None),
        "B = 8": (0.5, 0.4, 8, None),
        "B = 1, Sigma": (0.5, 0.2, 1, np.array([1.0, 3.0])),
        "B = 2, Sigma": (0.3, 0.2, 2, np.array([0.5, 1.0, 2.0])),
        "B = 4, Sigma": (0.5, 0.1, 4, np.array([1.0, 4.0])),
    }
    questions: tuple[Callable[..., Answer], ...] = (_curve, _ends, _density)
    for name, setting in settings.items():
        for question in questions:
            yield (
                f"limits | {name} | {question.__name__[1:]}",
                lambda question=question, setting=setting: question(*setting),
            )
    for aspect, batches in ((0.25, 1), (0.5, 2), (1.5, 2), (0.5, 3), (0.5, 4), (0.05, 6), (0.01, 4)):
        yield (
            f"limits | critical alpha, aspect {aspect}, B = {batches}",
            lambda aspect=aspect, batches=batches: _near(asymptotics.critical_alpha(aspect, batches)),
        )
    yield "limits | best recipe", lambda: _best_recipe()
    yield (
        "limits | shrinkage",
        lambda: Answer(asymptotics.shrinkage(batches=4, alpha=0.5)([0.5, 1.0, 2.0]), vector=1),
    )
    power, source = asymptotics.PowerLaw(1.5, 100), asymptotics.PowerLaw(0.8, 100)
    yield (
        "limits | one pass",
        lambda: _near(asymptotics.one_pass(power, source, 4, 0.1, [1, 10, 100], noise=0.5).risk),
    )
    yield (
        "limits | replacement curve",
        lambda: _near(asymptotics.replacement_curve(0.5, 0.5, noise=0.5).expected_risk([1, 5]).total),
    )


def _best_recipe() -> Answer:
    found = asymptotics.best_recipe(0.5, noise=0.5, batches=2, epochs=3)
    value = np.array([found.alpha, found.risk])
    return Answer(value, [1e-3, 1e-6], "search")


_semicircle, _poisson = free.Semicircle(1.0), free.MarchenkoPastur(0.5)
_points = free.Discrete([-2.0, 1.0, 3.0], [0.3, 0.4, 0.3])


def _of(expression: Callable[..., free.Expression], *laws: free.Law) -> Callable[[], free.Spectrum]:
    return cache(lambda: free.spectrum(expression(*free.variables(*laws))))


_SPECTRA: dict[str, Callable[[], free.Law]] = {
    "x + y": _of(lambda x, y: x + y, _semicircle, _poisson),
    "xy + yx": _of(lambda x, y: x * y + y * x, _semicircle, _semicircle),
    "i(xy - yx)": _of(lambda x, y: 1j * (x * y - y * x), _semicircle, _poisson),
    "two batches": _of(lambda x, y: x + y - (x * y + y * x) / 2, *2 * [free.MarchenkoPastur(3.0, 0.1)]),
    "pqp": _of(lambda p, q: p * q * p, free.Projection(0.7), free.Projection(0.4)),
    "pxp": _of(lambda x, p: p * x * p, _points, free.Projection(0.7)),
    "three": _of(
        lambda x, w, u: x * w * x + w * u + u * w - x, _semicircle, _poisson, free.Uniform(-1.0, 1.0)
    ),
    "rational": _of(lambda x, w: w / (1 + x**2) * w, _semicircle, _poisson),
    "add": cache(lambda: free.add(free.Bernoulli(), free.Semicircle(0.3))),
    "multiply": cache(
        lambda: free.multiply(free.Discrete([1.0, 10.0], [0.5, 0.5]), free.MarchenkoPastur(0.1))
    ),
    "power": cache(lambda: free.additive_power(free.Bernoulli(), 1.5)),
    "compress": cache(lambda: free.compress(_points, 0.7)),
    "gram": cache(lambda: free.gram(free.Discrete([1.0, 3.0], [0.5, 0.5]), 0.5)),
}


def _inside(law: free.Law) -> np.ndarray:
    intervals = np.array(law.support)
    return np.concatenate([low + (high - low) * np.array([0.2, 0.7]) for low, high in intervals])


def _atoms(law: free.Law) -> Answer:
    return _near(np.ravel(law.atoms) if law.atoms else [0.0])


_FREE: dict[str, Callable[[free.Law], Answer]] = {
    "density": lambda law: _near(law.density(_inside(law))),
    "support": lambda law: _near(np.ravel(law.support)),
    "atoms": _atoms,
    "cdf": lambda law: _near(law.cdf(_inside(law))),
    "cauchy": lambda law: _near(np.ravel([law.cauchy(0.3 + 0.5j).real, law.cauchy(0.3 + 0.5j).imag])),
    "moments": lambda law: _near(law.moments(4)),
}


def cases() -> Iterator[tuple[str, Case]]:
    """Limits, then free variables."""
    yield from _limits()
    for name, law in _SPECTRA.items():
        for question, ask in _FREE.items():
            yield f"free | {name} | {question}", lambda law=law, ask=ask: ask(law())
