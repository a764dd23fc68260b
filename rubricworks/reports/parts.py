"""Parts of a block: text, figures, charts, tables, cards. `templates/parts.html` draws each by its `macro`.

Texts of models and of users are plain strings, which the templates escape; only `Html` holds markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.charts import SeriesChart, Tick, nice_ticks


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = ""
    """CSS class: headline, verdict, sorted or quiet, with good, bad or open; `missing` says what is not there."""
    macro: ClassVar[str] = "text"


@dataclass(frozen=True)
class Heading:
    text: str
    macro: ClassVar[str] = "heading"


class Tile(NamedTuple):
    """A figure in large print."""

    name: str
    value: str
    note: str = ""
    before: str = ""
    """The base model's figure, with an arrow to the value."""
    kind: str = ""
    """worse | none: the figure fell, or proves nothing."""


@dataclass(frozen=True)
class Tiles:
    tiles: Sequence[Tile]
    macro: ClassVar[str] = "tiles"


@dataclass(frozen=True)
class Charts:
    charts: Sequence[SeriesChart]
    layout: str = "charts"
    """CSS class: charts (the first over the whole width) | multiples | multiples two."""
    macro: ClassVar[str] = "charts"


class Lane(NamedTuple):
    """Figure of one model in a row of whiskers."""

    kind: str
    """CSS class, which determines its colour."""
    name: str
    figure: Interval


class WhiskerRow(NamedTuple):
    label: str
    lanes: Sequence[Lane]
    value: str


@dataclass(frozen=True)
class Whiskers:
    """Shares with their intervals on one scale, a row per figure and a lane per model."""

    rows: Sequence[WhiskerRow]
    low: float = 0.0
    """Lowest value that the scale has to show."""
    macro: ClassVar[str] = "whiskers"

    @property
    def ticks(self) -> list[Tick]:
        values = nice_ticks(self.low, 1.0)
        return [Tick(100 * (value - values[0]) / (values[-1] - values[0]), f"{100 * value:g}") for value in values]

    def at(self, value: float) -> float:
        """Place of a value in percent of the scale."""
        values = nice_ticks(self.low, 1.0)
        return 100 * (value - values[0]) / (values[-1] - values[0])

    @property
    def legend(self) -> list[tuple[str, str]]:
        """(kind, name) of every model, in the order of the lanes."""
        return list(dict.fromkeys((lane.kind, lane.name) for row in self.rows for lane in row.lanes))


def compared(
    label: str, base: Interval | None, policy: Interval | None, names: tuple[str, str] = ("base", "policy")
) -> WhiskerRow:
    """Row of the base model and the policy."""
    lanes = [
        Lane(kind, name, figure)
        for kind, name, figure in (("base", names[0], base), ("policy", names[1], policy))
        if figure
    ]
    return WhiskerRow(label, lanes, " → ".join(f"{figure.value:.2f}" if figure else "–" for figure in (base, policy)))  # noqa: RUF001


class Rate(NamedTuple):
    """Shares of base and policy that are met, as two bars."""

    name: str
    note: str
    base: float | None
    policy: float | None


@dataclass(frozen=True)
class Rates:
    title: str
    rates: Sequence[Rate]
    macro: ClassVar[str] = "rates"


class Cell(NamedTuple):
    """A number in a table with its interval or a remark below."""

    text: str
    small: str = ""
    kind: str = ""
    """CSS class of the number: up | down | bad."""


Entry = Cell | str | float | None


@dataclass(frozen=True)
class Table:
    """Entries are text, numbers or cells; None is a dash."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""
    note: str = ""
    total: bool = False
    """The last row sums up those above."""
    macro: ClassVar[str] = "table"


class Mark(NamedTuple):
    """Verdict of a judge on one response."""

    who: str
    """Whose response; empty if the card has only one."""
    credit: float | None
    """None if it could not be judged."""
    yes: str = "met"
    no: str = "not met"
    judged: bool = True
    """False if it was not asked about."""


class Reason(NamedTuple):
    """A judge's words on one response."""

    mark: Mark
    text: str


class Check(NamedTuple):
    """A criterion or claim, and the verdicts on it."""

    title: str
    weight: str = ""
    note: str = ""
    marks: Sequence[Mark] = ()
    change: str = ""
    """gained | lost."""
    rule: str = ""
    reasons: Sequence[Reason] = ()


class CheckList(NamedTuple):
    checks: Sequence[Check]
    title: str = ""
    folded: Sequence[Check] = ()
    """Less important checks, folded behind a summary."""
    summary: str = ""


class Passage(NamedTuple):
    """One text or image on a card, with its author or role as name."""

    name: str
    text: str
    note: str = ""
    kind: str = ""
    """base | policy | …: its colour."""
    chip: str = ""
    preferred: bool = False
    image: str | None = None
    """Data URI, shown in place of the text."""
    lists: Sequence[CheckList] = ()
    missing: str = ""
    """Reason for missing verdicts."""


class Card(NamedTuple):
    """One sample."""

    sample_id: str
    image: str | None
    """Data URI."""
    passages: Sequence[Passage] = ()
    lists: Sequence[CheckList] = ()
    lead: Sequence[Passage] = ()
    """The question or prompt, above the responses."""
    note: str = ""
    """Text after the sample's name."""
    judgment: str = ""
    """Outcome of the comparison of the responses."""
    quote: str = ""
    """The judge's words on it."""
    reference: str = ""
    file_name: str = ""
    """Name of the image's file, shown before the sample's id; a page adds it (`page.with_file_names`)."""

    @property
    def reasons(self) -> list[Check]:
        """Checks whose rules or reasons are shown behind a summary."""
        checks = [check for checked in self.lists for check in (*checked.checks, *checked.folded)]
        return [check for check in checks if check.rule or check.reasons]


@dataclass(frozen=True)
class Cards:
    cards: Sequence[Card]
    note: str = "Drawn by a hash of their names, neither the best nor the worst."
    macro: ClassVar[str] = "cards"


@dataclass(frozen=True)
class Notes:
    """(what, sentences) of each note."""

    notes: Sequence[tuple[str, str]]
    macro: ClassVar[str] = "notes"


@dataclass(frozen=True)
class Command:
    purpose: str
    text: str
    macro: ClassVar[str] = "command"


@dataclass(frozen=True)
class Pre:
    """Preformatted text, such as a recipe."""

    text: str
    macro: ClassVar[str] = "pre"


@dataclass(frozen=True)
class Fold:
    """Parts behind a summary."""

    summary: str
    parts: "Sequence[Part]"
    macro: ClassVar[str] = "fold"


@dataclass(frozen=True)
class Html:
    """Safe markup from a separate template."""

    markup: str
    macro: ClassVar[str] = "html"


Part = Text | Heading | Tiles | Charts | Whiskers | Rates | Table | Cards | Notes | Command | Pre | Fold | Html
