"""The parts of a view: a sentence, figures, charts, tables, and a few cards with pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.data.images import check_image
from rubricworks.data.response_images import ResponseImages, response_of
from rubricworks.reports.charts import LineChart
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.formats import shortened
from rubricworks.reports.headline import Mood
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows, thumbnail
from rubricworks.reports.series_charts import SeriesChart
from rubricworks.rubrics import Rubric

if TYPE_CHECKING:
    from rubricworks.metrics import Interval

CARD_COUNT = 4
"""Cards on a view: samples drawn by a hash of their names, neither the best nor the worst."""
SEED = 0
"""Seed of that draw."""
SIDE = 300
"""Longest side of a picture in pixels."""
MAX_CHECKS = 12


@dataclass(frozen=True)
class FinishedStage:
    """The folders of a finished stage on this machine."""

    name: str
    out: Path
    run: Path
    inputs: Mapping[str, Path]
    """Input → output folder of the stage that produced it."""
    title: str = ""
    """Heading of its page; by default the words of its name."""

    def samples(self, sample_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """sample_id → row of the stage's input samples."""
        table = self.inputs.get("samples")
        return sample_rows(table, set(sample_ids), SAMPLE_COLUMNS) if table else {}


SAMPLE_COLUMNS = ["image", "split", "prompt", "references", "question", "answer", "options", "task", "source"]


class Tile(NamedTuple):
    """A figure in large print."""

    name: str
    value: str
    note: str = ""


class Table(NamedTuple):
    """Cells are text or numbers; None is a dash."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]
    note: str = ""


class Passage(NamedTuple):
    """One text or image on a card, with its author or role as name."""

    name: str
    text: str
    note: str = ""
    kind: str = ""
    """base | policy: its colour."""
    chip: str = ""
    image: str | None = None
    """Data URI, shown in place of the text."""


class Check(NamedTuple):
    """One criterion, and the credit of each of the card's texts."""

    weight: str
    title: str
    note: str = ""
    marks: Sequence[tuple[str, float | None]] = ()
    """(author, credit); None if it could not be judged."""
    change: str = ""
    """gained | lost."""


class Card(NamedTuple):
    """One sample."""

    sample_id: str
    image: str | None
    """Data URI."""
    passages: Sequence[Passage] = ()
    checks: Sequence[Check] = ()
    checks_title: str = ""
    note: str = ""
    """Text after the sample's name."""
    judgment: str = ""
    """A judge's reasoning on the passages together."""


@dataclass(frozen=True)
class View:
    """The content of a stage's page; empty parts are left out."""

    sentence: str
    mood: Mood = "open"
    notes: Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Figures of the stage, in addition to those of its ledger line."""
    tiles: Sequence[Tile] = ()
    curves: Sequence[LineChart] = ()
    series: Sequence[SeriesChart] = ()
    comparisons: Sequence[Comparison] = ()
    """Base against policy, from 0 to 1."""
    names: tuple[str, str] = ("base model", "trained policy")
    """Names of the two in the legend."""
    win_rate: "Interval | None" = None
    """Win rate of the policy against the base."""
    figure: str = ""
    """Markup of a figure shared with another page."""
    tables: Sequence[Table] = ()
    cards_title: str = ""
    cards: Sequence[Card] = ()
    cards_note: str = "Drawn by a hash of their names: neither the best nor the worst."
    page: str = ""
    """A whole page in place of all of the above."""


def draw_ids(table: Path, count: int = CARD_COUNT) -> list[str]:
    """The sample ids of a table to show on cards."""
    return draw_samples((row["sample_id"] for row in table_rows(table, ["sample_id"])), count, SEED)


def picture(sample: Mapping[str, Any] | None) -> str | None:
    """The sample's image as a small data URI; None without an image."""
    return data_uri(thumbnail(sample["image"], SIDE, quality=80)) if sample and sample.get("image") else None


def response_passage(name: str, row: Mapping[str, Any], images: ResponseImages, note: str, kind: str) -> Passage:
    """Passage of a row's response: its text, or the image, read from the images beside the table."""
    response = response_of(row)
    if response.text is not None:
        return Passage(name, response.text, note, kind)
    try:
        image = images.read(response).image or b""
        check_image(image, response.media_type or "")
    except ValueError as error:  # missing, damaged, or no image at all: the page says so
        return Passage(name, f"This image cannot be shown: {error}", note, kind)
    return Passage(name, "", note, kind, image=data_uri(thumbnail(image, SIDE, quality=80)))


def criteria_of(rubric: Rubric) -> list[Check]:
    """A rubric's criteria by descending weight; with references, essential ones before the others."""
    typed = any(criterion.reference for criterion in rubric.criteria)
    ordered = sorted(rubric.criteria, key=lambda criterion: (typed and not criterion.essential, -criterion.weight))
    return [
        Check(
            weight=f"{criterion.weight:g}",
            title=criterion.criterion,
            note=shortened(
                f"{'essential' if criterion.essential else 'additional'}: {criterion.reference}"
                if typed
                else criterion.evaluation_rule or criterion.description
            ),
        )
        for criterion in ordered
    ]
