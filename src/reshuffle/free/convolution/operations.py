"""Laws from laws: free sums, free products, their real powers, and corners."""

from reshuffle.free.checks import number, size
from reshuffle.free.convolution.convolved import Convolved
from reshuffle.free.laws.classical import MarchenkoPastur
from reshuffle.free.laws.corner import Corner
from reshuffle.free.laws.law import Law


def add(*laws: Law) -> Law:
    """Return the free additive convolution: the law of ``x_1 + x_2 + ...`` for free x_j.

    Parameters
    ----------
    *laws : Law
        At least one.

    Returns
    -------
    Law
        A `Convolved`; its support, atoms and measure are found when first asked for.

    >>> from reshuffle import free
    >>> [round(x, 8) for x in free.add(free.Bernoulli(), free.Bernoulli()).support[0]]
    [-2.0, 2.0]
    """
    return Convolved(_laws(laws), [1.0] * len(laws), product=False)


def multiply(*laws: Law) -> Law:
    """Return the free multiplicative convolution: the law of ``sqrt(x_1) x_2 sqrt(x_1)`` for free x_j >= 0.

    With three, of ``sqrt(x_1) sqrt(x_2) x_3 sqrt(x_2) sqrt(x_1)``, and so on. S-transforms multiply
    (Voiculescu, 1987).

    Parameters
    ----------
    *laws : Law
        At least one, all on the half-line x >= 0.

    Returns
    -------
    Law
        A `Convolved`.

    >>> from reshuffle import free
    >>> law = free.MarchenkoPastur(1.0)
    >>> free.multiply(law, law).moments(4).round(9)
    array([ 1.,  3., 12., 55.])
    """
    return Convolved(_positive(laws), [1.0] * len(laws), product=True)


def gram(sigma: Law, ratio: float) -> Law:
    """Return the law of ``X Sigma X'/n`` for X (n, p) of independent entries of variance one, ``p = ratio n``.

    The matrix of all scalar products of n samples, or a kernel; the covariance of the samples,
    ``sqrt(Sigma) X'X/n sqrt(Sigma)``, is ``multiply(sigma, MarchenkoPastur(ratio))`` and has the same spectrum but
    for zeros. The Cauchy transform g obeys ``z = 1/g + ratio E[t/(1 - t g)]``, where t has the law of Sigma
    (Silverstein, 1995).

    Parameters
    ----------
    sigma : Law
        Of the eigenvalues of Sigma, on the half-line x >= 0.
    ratio : float
        Columns per row, p/n.

    Returns
    -------
    Law
        A `Corner` of a `Convolved`.

    >>> from reshuffle import free
    >>> free.gram(free.Discrete([1.0, 3.0]), 0.5).moments(2).round(9), free.gram(free.Discrete([1.0]), 0.5).atoms
    (array([1. , 3.5]), ((0.0, 0.5),))
    """
    ratio = size("ratio", ratio)
    return Corner(multiply(sigma, MarchenkoPastur(ratio)), 1 / ratio)


def additive_power(law: Law, times: float) -> Law:
    """Return the free additive power: the law of ``times`` free copies added, ``R(g) -> times R(g)``.

    Source: Nica and Speicher (1996), for every real ``times >= 1``.

    Parameters
    ----------
    law : Law
    times : float
        At least 1.

    Returns
    -------
    Law
        A `Convolved`.

    >>> from reshuffle import free
    >>> free.additive_power(free.Bernoulli(), 1.5).atoms
    ((-1.5, 0.25), (1.5, 0.25))
    """
    return Convolved(_laws((law,)), [number("times", times, low=1.0, high=1e6)], product=False)


def multiplicative_power(law: Law, times: float) -> Law:
    """Return the free multiplicative power of a law on x >= 0: ``S(m) -> S(m)^times``.

    Source: Belinschi and Bercovici (2005), for every real ``times >= 1``.

    Parameters
    ----------
    law : Law
    times : float
        At least 1.

    Returns
    -------
    Law
        A `Convolved`.

    >>> from reshuffle import free
    >>> low, high = free.multiplicative_power(free.MarchenkoPastur(1.0), 2).support[0]
    >>> round(low, 8), round(high, 8)
    (0.0, 6.75)
    """
    return Convolved(_positive((law,)), [number("times", times, low=1.0, high=1e3)], product=True)


def compress(law: Law, rank: float) -> Law:
    """Return the law of the corner ``p x p`` that a free projection p of trace ``rank`` cuts out of x.

    In the corner, whose own trace is one: the free additive power ``1/rank``, times ``rank`` (Nica and
    Speicher, 1996).

    Parameters
    ----------
    law : Law
        Of x.
    rank : float
        In (0, 1].

    Returns
    -------
    Law

    >>> from reshuffle import free
    >>> [round(x, 8) for x in free.compress(free.Semicircle(), 0.25).support[0]]
    [-1.0, 1.0]
    """
    t = number("rank", rank, low=1e-6, high=1.0)
    return additive_power(law, 1 / t).affine(t)


def _laws(laws: tuple[Law, ...]) -> tuple[Law, ...]:
    if not laws:
        raise TypeError(
            "a convolution needs at least one law, but there is none; pass laws such as Semicircle()"
        )
    for law in laws:
        if not isinstance(law, Law):
            raise TypeError(
                f"a convolution needs laws such as Semicircle(), "
                f"but one is {law!r}; wrap points in Discrete(points)"
            )
    return laws


def _positive(laws: tuple[Law, ...]) -> tuple[Law, ...]:
    for law in _laws(laws):
        low = min([a for a, _ in law.support] + [x for x, _ in law.atoms])
        if low < 0:
            raise ValueError(
                f"a free product needs laws on x >= 0, but one is {law!r}, which reaches down to {low:g}; for"
                f" other variables write"
                " the expression, such as spectrum(x * y * x)"
            )
        if law.scale == 0:
            raise ValueError(
                f"a free product needs laws that are not the point 0, but one is {law!r}; the product would be 0"
            )
    return laws
