"""What views are made of: a sentence, figures, charts, tables, and a handful of cards with a picture on each."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.reports.charts import LineChart
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.formats import shortened
from rubricworks.reports.headline import Mood
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import drawn_samples, sample_rows
from rubricworks.reports.series_charts import SeriesChart
from rubricworks.rubrics import Rubric

if TYPE_CHECKING:
    from rubricworks.evaluation.summary import MeanScore

SHOWN = 4
"""Cards on a view: they are drawn by a hash of their names, neither the best nor the worst."""
SEED = 0
"""Of that draw."""
SIDE = 300
"""Longest side of a picture in pixels."""
MAX_CHECKS = 12


@dataclass(frozen=True)
class FinishedStage:
    """Where what a stage read and made lies on this machine."""

    name: str
    out: Path
    run: Path
    inputs: Mapping[str, Path]
    """Input → the output folder of the stage that made it."""
    title: str = ""
    """Heading of its page; by default its name's words."""

    def pictures(self, wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
        """sample_id → row of the samples that the stage read."""
        samples = self.inputs.get("samples")
        return sample_rows(samples, set(wanted), SAMPLE_COLUMNS) if samples else {}


SAMPLE_COLUMNS = ["image", "split", "prompt", "references", "question", "answer", "options", "source"]


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
    """One text on a card, under the name of who wrote it."""

    name: str
    text: str
    note: str = ""
    kind: str = ""
    """base | policy: its colour."""
    chip: str = ""


class Check(NamedTuple):
    """One criterion, and how each of the card's texts did on it."""

    weight: str
    title: str
    note: str = ""
    marks: Sequence[tuple[str, float | None]] = ()
    """(who, credit); None where it could not be judged."""
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
    """Beside the sample's name."""
    judgment: str = ""
    """What a judge said of the passages together."""


@dataclass(frozen=True)
class View:
    """All that is shown of a stage; what is empty is not shown."""

    sentence: str
    mood: Mood = "open"
    notes: Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Figures of the stage's own, beside those of its ledger."""
    tiles: Sequence[Tile] = ()
    curves: Sequence[LineChart] = ()
    series: Sequence[SeriesChart] = ()
    compared: Sequence[Comparison] = ()
    """Base against policy, from 0 to 1."""
    won: "MeanScore | None" = None
    """Of the policy against the base."""
    figure: str = ""
    """Markup of a picture that another page has too."""
    tables: Sequence[Table] = ()
    cards_title: str = ""
    cards: Sequence[Card] = ()
    cards_note: str = "Drawn by a hash of their names: neither the best nor the worst."
    page: str = ""
    """A whole page, shown instead of all of the above."""


def drawn(table: Path, count: int = SHOWN) -> list[str]:
    """The samples of a table that are shown."""
    return drawn_samples((row["sample_id"] for row in table_rows(table, ["sample_id"])), count, SEED)


def picture(sample: Mapping[str, Any] | None) -> str | None:
    """The sample's image in small, for an `src`."""
    if not sample or not sample.get("image"):
        return None
    from PIL import Image

    opened = Image.open(io.BytesIO(sample["image"])).convert("RGB")
    opened.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    opened.save(buffer, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def criteria_of(rubric: Rubric) -> list[Check]:
    """A rubric's criteria, the heaviest first; with references, essential ones before the others."""
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
