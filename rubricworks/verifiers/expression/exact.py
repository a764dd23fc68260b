"""Exact arithmetic for answers: quotients of polynomials in variables, roots of whole numbers, pi, e and i.

Each value is kept in one form, so that two are equal exactly when their cross products are the same dictionary: no
rounding, no search, no false equality. A term is a product of generators with exponents: a variable; a prime with an
exponent in (0, 1), such as 2**(1/3) (such products are linearly independent over the rationals: Besicovitch 1940);
"\\\\pi", "e"; and "i", whose square is -1. What needs more (sums under a root, functions, huge powers) raises TooHard.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from rubricworks.verifiers.expression.formula import Rational, TooHard, TooLarge, Tree

Term = tuple[tuple[str, Rational], ...]
Polynomial = dict[Term, Rational]

MOST_BITS = 60_000
"""Of one number: enough for 5,000!, and multiplied in microseconds."""
_MOST_TERMS = 300
_LARGEST_EXPONENT = 64
_SMALL_PRIMES_BELOW = 1000


class Quotient(NamedTuple):
    top: Polynomial
    bottom: Polynomial


_ONE: Polynomial = {(): 1}


def quotient(tree: Tree) -> Quotient:
    """The exact value of a formula.

    Raises:
        TooHard: it is beyond this arithmetic.
        TooLarge: it is beyond any.
    """
    kind, *parts = tree
    if kind == "n":
        return number(parts[0])
    if kind == "s":
        return generator(parts[0])
    if kind == "+":
        total = quotient(parts[0])
        for part in parts[1:]:
            total = add(total, quotient(part))
        return total
    if kind == "*":
        total = quotient(parts[0])
        for part in parts[1:]:
            total = multiply(total, quotient(part))
        return total
    if kind not in _OPERATIONS:
        raise TooHard(f"{kind} is not exact")
    if kind == "root":
        return root(quotient(parts[0]), parts[1])
    return _OPERATIONS[kind](*map(quotient, parts))


def number(value: Rational) -> Quotient:
    return Quotient({(): value} if value else {}, _ONE)


def generator(name: str) -> Quotient:
    return Quotient({((name, 1),): 1}, _ONE)


def rational(value: Quotient) -> Rational | None:
    """The value if it is a rational number."""
    if not value.top:
        return 0
    if len(value.top) == 1 and len(value.bottom) == 1 and () in value.top and () in value.bottom:
        return _whole(Fraction(value.top[()]) / value.bottom[()])
    return None


def equal(a: Quotient, b: Quotient) -> bool:
    if a.bottom == b.bottom:
        return a.top == b.top
    return _multiplied(a.top, b.bottom) == _multiplied(b.top, a.bottom)


def negative(value: Quotient) -> Quotient:
    return Quotient({term: -factor for term, factor in value.top.items()}, value.bottom)


def add(a: Quotient, b: Quotient) -> Quotient:
    if a.bottom == b.bottom:
        return Quotient(_added(a.top, b.top), a.bottom)
    top = _added(_multiplied(a.top, b.bottom), _multiplied(b.top, a.bottom))
    return Quotient(top, _multiplied(a.bottom, b.bottom))


def multiply(a: Quotient, b: Quotient) -> Quotient:
    return Quotient(_multiplied(a.top, b.top), _multiplied(a.bottom, b.bottom))


def divide(a: Quotient, b: Quotient) -> Quotient:
    if not b.top:
        raise TooHard("division by zero")
    if (divisor := rational(b)) is not None:
        return Quotient({term: _divided(factor, divisor) for term, factor in a.top.items()}, a.bottom)
    return Quotient(_multiplied(a.top, b.bottom), _multiplied(a.bottom, b.top))


def power(base: Quotient, raised_to: Quotient) -> Quotient:
    """Whole powers of anything, and broken ones of rational numbers."""
    exponent = rational(raised_to)
    if exponent is None:
        raise TooHard("an exponent that is no rational number")
    return _power(base, exponent)


def root(value: Quotient, degree: int) -> Quotient:
    """The real root of a rational number; i times one for even roots of negative ones."""
    size = rational(value)
    if size is not None and size < 0 and degree % 2:
        return negative(_power(number(-size), Fraction(1, degree)))
    return _power(value, Fraction(1, degree))


def _power(base: Quotient, exponent: Rational) -> Quotient:
    if isinstance(exponent, Fraction):
        return _root(base, exponent)
    if exponent == 0:
        if not base.top:
            raise TooHard("0 to the power of 0")
        return number(1)
    if exponent < 0:
        base, exponent = divide(number(1), base), -exponent
    if exponent > _LARGEST_EXPONENT and (len(base.top) > 1 or len(base.bottom) > 1):
        raise TooHard("a high power of a sum")
    if exponent * max(map(bits, [1, *base.top.values(), *base.bottom.values()])) > MOST_BITS:
        raise TooHard("a huge power")
    result = number(1)
    while exponent:
        if exponent & 1:
            result = multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return result


def factorial(value: Quotient) -> Quotient:
    n = rational(value)
    if not isinstance(n, int) or n < 0:
        raise TooHard("factorial of something else than a whole number")
    if n > 5000:
        raise TooLarge("factorial of a large number")
    return number(math.factorial(n))


def _binomial(n: Quotient, k: Quotient) -> Quotient:
    top, chosen = rational(n), rational(k)
    if not isinstance(top, int) or not isinstance(chosen, int) or not 0 <= chosen <= top:
        raise TooHard("a binomial of something else than whole numbers")
    if top > 2000:
        raise TooLarge("a binomial of large numbers")
    return number(math.comb(top, chosen))


def _rounded(rounding: Callable[[Rational], int]) -> Callable[[Quotient], Quotient]:
    def rounded(value: Quotient) -> Quotient:
        if (known := rational(value)) is None:
            raise TooHard("rounding something else than a rational number")
        return number(rounding(known))

    return rounded


def _size(value: Quotient) -> Quotient:
    if (known := rational(value)) is None:
        raise TooHard("the size of something else than a rational number")
    return number(abs(known))


def _radians(value: Quotient) -> Quotient:
    return divide(multiply(value, generator("\\pi")), number(180))


_OPERATIONS: dict[str, Callable[..., Quotient]] = {
    "-": negative, "/": divide, "^": power, "root": root, "!": factorial, "binom": _binomial, "abs": _size,
    "floor": _rounded(math.floor), "ceil": _rounded(math.ceil), "deg": _radians,
}  # fmt: skip


def variables(value: Quotient) -> set[str]:
    names = {name for polynomial in value for term in polynomial for name, _ in term}
    return {name for name in names if not name[0].isdigit() and name not in ("\\pi", "e", "i")}


def split_by(value: Quotient, name: str) -> tuple[Quotient, Quotient] | None:
    """Slope and rest of a value that is linear in a variable; None if it is not."""
    if any(generator_name == name for term in value.bottom for generator_name, _ in term):
        return None
    slope: Polynomial = {}
    rest: Polynomial = {}
    for term, factor in value.top.items():
        exponent = dict(term).get(name, 0)
        if exponent not in (0, 1):
            return None
        (slope if exponent else rest)[tuple(power for power in term if power[0] != name)] = factor
    return Quotient(slope, value.bottom), Quotient(rest, value.bottom)


def tree_of(value: Quotient) -> Tree:
    """A formula with this value."""
    top, bottom = (
        ("+", *(("*", ("n", factor), *(_power_tree(*power) for power in term)) for term, factor in polynomial.items()))
        if polynomial
        else ("n", 0)
        for polynomial in value
    )
    return ("/", top, bottom)


def _power_tree(name: str, exponent: Rational) -> Tree:
    return ("^", ("n", int(name)) if name.isdigit() else ("s", name), ("n", exponent))


def _added(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for term, factor in b.items():
        if together := _whole(total.get(term, 0) + factor):
            total[term] = together
        else:
            del total[term]
    return total


def _multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    if b == _ONE:
        return a
    if len(a) * len(b) > _MOST_TERMS:
        raise TooHard("too many terms")
    total: Polynomial = {}
    for term_a, factor_a in a.items():
        for term_b, factor_b in b.items():
            carried, term = _term_product(term_a, term_b)
            factor = _whole(factor_a * factor_b * carried)
            if together := _whole(total.get(term, 0) + factor):
                total[term] = together
            else:
                total.pop(term, None)
    if any(bits(factor) > MOST_BITS for factor in total.values()):
        raise TooHard("huge numbers")
    return total


def _term_product(a: Term, b: Term) -> tuple[int, Term]:
    """The product, and the whole number that comes out of it: sqrt(2) * sqrt(2) = 2, i * i = -1."""
    if not a or not b:
        return 1, a or b
    exponents, carried = dict(a), 1
    for name, exponent in b:
        exponent = exponents.pop(name, 0) + exponent
        if name[0].isdigit() and exponent >= 1:
            carried *= int(name)
            exponent -= 1
        elif name == "i" and exponent >= 2:
            carried = -carried
            exponent -= 2
        if exponent:
            exponents[name] = _whole(exponent)
    return carried, tuple(sorted(exponents.items()))


def _root(base: Quotient, exponent: Fraction) -> Quotient:
    value = rational(base)
    if value is None or (value < 0 and exponent.denominator != 2) or abs(exponent) > _LARGEST_EXPONENT:
        raise TooHard("a root of something else than a number")
    if value == 0 and exponent < 0:
        raise TooHard("division by zero")
    if value == 0:
        return number(0)
    top, bottom = abs(value.numerator), value.denominator
    primes: dict[int, Fraction] = {prime: count * exponent for prime, count in _factorised(top).items()}
    for prime, count in _factorised(bottom).items():
        primes[prime] = primes.get(prime, Fraction(0)) - count * exponent
    result = _power(generator("i"), exponent.numerator % 4) if value < 0 else number(1)
    for prime, times in primes.items():
        whole = math.floor(times)
        result = multiply(result, _power(number(prime), whole)) if whole else result
        if times != whole:
            result = multiply(result, Quotient({((str(prime), times - whole),): 1}, _ONE))
    return result


def _factorised(n: int) -> dict[int, int]:
    if n.bit_length() > 2000:
        raise TooHard("a number that is hard to factorise")
    found: dict[int, int] = {}
    for prime in _small_primes():
        if prime * prime > n:
            break
        while n % prime == 0:
            n //= prime
            found[prime] = found.get(prime, 0) + 1
    if n == 1:
        return found
    for times in (1, 2, 3):
        root = round(n ** (1 / times)) if n < 10**15 else 0
        if root and root**times == n and root < _SMALL_PRIMES_BELOW**2:
            found[root] = found.get(root, 0) + times
            return found
    raise TooHard("a number that is hard to factorise")


@cache
def _small_primes() -> tuple[int, ...]:
    return tuple(n for n in range(2, _SMALL_PRIMES_BELOW) if all(n % d for d in range(2, math.isqrt(n) + 1)))


def _divided(a: Rational, b: Rational) -> Rational:
    return _whole(Fraction(a) / b)


def _whole(value: Rational) -> Rational:
    return value.numerator if type(value) is Fraction and value.denominator == 1 else value


def bits(value: Rational) -> int:
    """Length of the number in bits."""
    return value.numerator.bit_length() + value.denominator.bit_length()
