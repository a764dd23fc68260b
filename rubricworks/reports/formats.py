"""Number and text formats of pages and console output."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rubricworks.evaluation.summary import MeanScore

MINUS = "\N{MINUS SIGN}"
MISSING = "–"  # noqa: RUF001  an en dash is meant

_MAX_CHARACTERS = 1_500


class Bounded(Protocol):
    """A figure with an interval; None if it has none."""

    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


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


def span(figure: Bounded | None, places: int = 1) -> str:
    """The interval of a share, in percent."""
    if figure is None or figure.low is None or figure.high is None:
        return MISSING
    return f"{share(figure.low, places)} to {share(figure.high, places)}"


def whole(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def dollars(value: float) -> str:
    """Dollars with cents; two significant digits below one cent."""
    return "$0" if value == 0 else f"${value:.2f}" if value >= 0.01 else f"${value:.2g}"


def interval(figure: "MeanScore | None", places: int = 2) -> str:
    return MISSING if figure is None else f"{number(figure.low, places)} to {number(figure.high, places)}"


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
    "duration": duration,
    "shortened": shortened,
}
