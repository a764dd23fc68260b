"""Number and text formats of pages and console output."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rubricworks.metrics import Interval

MINUS = "\N{MINUS SIGN}"
MISSING = "–"  # noqa: RUF001  an en dash is meant

_MAX_CHARACTERS = 1_500


def number(value: float | None, places: int = 2) -> str:
    return MISSING if value is None else f"{value:.{places}f}".replace("-", MINUS)


def signed(value: float | None, places: int = 2) -> str:
    return MISSING if value is None else f"{value:+.{places}f}".replace("-", MINUS)


def percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.0f}\N{NARROW NO-BREAK SPACE}%"


def share(value: float | None, places: int = 1) -> str:
    """A share in percent without the sign, as in tables of accuracies."""
    return number(None if value is None else 100 * value, places)


def points(value: float | None, places: int = 1) -> str:
    """A difference of two shares in percentage points."""
    return signed(None if value is None else 100 * value, places)


def span(figure: "Interval | None", places: int = 1) -> str:
    """The bounds of a share in percent, without the sign."""
    return _bounds(figure, lambda bound: share(bound, places))


def percent_interval(figure: "Interval | None") -> str:
    """The bounds of a share as whole percent, with the sign."""
    return _bounds(figure, percent)


def interval(figure: "Interval | None", places: int = 2) -> str:
    return _bounds(figure, lambda bound: number(bound, places))


def signed_interval(figure: "Interval | None", places: int = 2) -> str:
    return _bounds(figure, lambda bound: signed(bound, places))


def _bounds(figure: "Interval | None", text: Callable[[float], str]) -> str:
    return MISSING if figure is None or figure.bounds is None else " to ".join(map(text, figure.bounds))


def whole(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 rubric", "2 rubrics"."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def dollars(value: float) -> str:
    """Dollars with cents; two significant digits below one cent."""
    return "$0" if value == 0 else f"${value:.2f}" if value >= 0.01 else f"${value:.2g}"


def duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def shortened(text: str) -> str:
    """A text for a card; a longer one is cut and ends with the number of missing characters."""
    cut = len(text) - _MAX_CHARACTERS
    return f"{text[:_MAX_CHARACTERS]} … ({whole(cut)} more characters)" if cut > 0 else text


FILTERS = {
    "number": number,
    "signed": signed,
    "percent": percent,
    "share": share,
    "points": points,
    "span": span,
    "whole": whole,
    "dollars": dollars,
    "interval": interval,
    "signed_interval": signed_interval,
    "percent_interval": percent_interval,
    "duration": duration,
    "shortened": shortened,
}
