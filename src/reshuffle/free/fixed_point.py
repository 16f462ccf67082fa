"""What a system of fixed-point equations must offer so that its solution can be followed to the real axis."""

from typing import Any, Protocol

from reshuffle.free.checks import Complex


class FixedPoint(Protocol):
    """The unknowns of a resolvent: its solution is where ``evaluate(base, unknowns).image`` is ``unknowns``.

    Attributes
    ----------
    size : k, the rows of the resolvent; unknowns : their number; norm : of everything that is added to z.
    direct : whether the Jacobian is cheap enough to be made and factored.
    """

    size: int
    unknowns: int
    norm: float
    direct: bool

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return what z and the height above the axis are to the resolvent, shape (points, k, k)."""

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane."""

    def evaluate(self, base: Complex, unknowns: Complex) -> Any:
        """Return the map at ``unknowns``, in the form that the tangents need.

        It has a ``resolvent`` (points, k, k) and an ``image``, the next unknowns (points, unknowns).
        """

    def tangent(self, state: Any, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""

    def jacobian(self, state: Any) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""

    def shift_tangent(self, state: Any, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""

    def resolvent_tangent(self, state: Any, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""
