"""What a reader of formulas computes with; the values are each arithmetic's own."""

from fractions import Fraction
from typing import Any, Protocol

Rational = int | Fraction


class TooHard(Exception):
    """Beyond this arithmetic or this reader, or no value at all (1/0)."""


class Arithmetic(Protocol):
    def number(self, value: Rational) -> Any: ...
    def generator(self, name: str) -> Any:
        """A variable, or "\\\\pi", "e", "i"."""

    def rational(self, value: Any) -> Rational | None:
        """The value if it is known to be a rational number."""

    def negative(self, value: Any) -> Any: ...
    def add(self, a: Any, b: Any) -> Any: ...
    def multiply(self, a: Any, b: Any) -> Any: ...
    def divide(self, a: Any, b: Any) -> Any: ...
    def power(self, base: Any, exponent: Any) -> Any: ...
    def root(self, value: Any, degree: int) -> Any:
        """The real one of a negative number, if the degree is odd."""

    def factorial(self, value: Any) -> Any: ...
    def size(self, value: Any) -> Any: ...
    def degrees(self, value: Any) -> Any:
        """In radians."""

    def function(self, name: str, value: Any, base: Any = None) -> Any:
        """sin, arctan, ln, …; log with a base, or without one to the base of 10."""
