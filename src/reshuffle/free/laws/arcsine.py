"""The arcsine law: the free sum of two symmetric Bernoulli laws."""

from reshuffle.free.checks import location, number
from reshuffle.free.laws.meixner import FreeMeixner


class Arcsine(FreeMeixner):
    """The arcsine law on ``[low, high]``, density ``1/(pi sqrt((t - low)(high - t)))``.

    ``G(z) = 1/(sqrt(z - low) sqrt(z - high))``.

    >>> Arcsine(-2.0, 2.0).moments(4).tolist()
    [0.0, 2.0, 0.0, 6.0]
    """

    def __init__(self, low: float = -2.0, high: float = 2.0):
        self.low = location("low", low)
        self.high = number("high", location("high", high), low=self.low, open_low=True)
        mean, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        beta = radius**2 / 4
        super().__init__(
            first=(mean, 2 * beta),
            tail=(mean, beta),
            edges=(self.low, self.high),
            roots=(-beta, (self.low, self.high)),
        )

    def __repr__(self) -> str:
        return f"Arcsine({self.low:g}, {self.high:g})"
