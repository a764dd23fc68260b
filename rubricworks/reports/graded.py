"""Graded responses outside a run: mean reward, criteria and responses, as text, rows of a spreadsheet and a page."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rubricworks.metrics import Interval, mean_interval
from rubricworks.reports.formats import counted, interval, number, percent, shortened
from rubricworks.reports.page import Block, render_page
from rubricworks.reports.parts import Card, Cards, Check, CheckList, Entry, Mark, Passage, Table, Text, Tile, Tiles
from rubricworks.rubrics import Criterion, Rubric, Scorecard

_LINES = 12
"""Criteria on the terminal."""
_CARDS = 200
"""Responses on the page; all of them are in the spreadsheet."""
_LONGEST = 90
"""Characters of a criterion on the terminal."""


class Graded(NamedTuple):
    """A response with its scorecard."""

    sample_id: str
    file_name: str
    """Name of the image's file; empty if unknown."""
    text: str
    rubric: Rubric
    card: Scorecard
    reward: float | None


class CriterionFigures(NamedTuple):
    """Credits of one criterion over the responses that have it, or of all criteria of a weight."""

    name: str
    weight: str
    mean: float | None
    """Mean credit; None if none could be judged."""
    judged: int
    unjudged: int


def mean_reward(graded: Sequence[Graded]) -> Interval | None:
    """Mean over the judged responses with its 95 % interval, resampled by sample."""
    judged = [response for response in graded if response.reward is not None]
    return mean_interval(
        [response.reward for response in judged], share=False, clusters=[response.sample_id for response in judged]
    )


def criterion_figures(graded: Sequence[Graded]) -> list[CriterionFigures]:
    """Figures of each criterion, least met first; grouped by weight if every response has its own criteria."""
    credits: defaultdict[tuple[str, str], list[float | None]] = defaultdict(list)
    for criterion, credit in _verdicts(graded):
        credits[criterion.criterion, f"{criterion.weight:g}"].append(credit)
    if len(graded) > 1 and all(len(of_criterion) == 1 for of_criterion in credits.values()):
        by_weight: defaultdict[tuple[str, str], list[float | None]] = defaultdict(list)
        for (_, weight), of_criterion in credits.items():
            by_weight["all criteria of this weight", weight] += of_criterion
        credits = by_weight
    figures = []
    for (name, weight), of_criterion in credits.items():
        judged = [credit for credit in of_criterion if credit is not None]
        mean = sum(judged) / len(judged) if judged else None
        figures.append(CriterionFigures(name, weight, mean, len(judged), len(of_criterion) - len(judged)))
    return sorted(figures, key=lambda row: (row.mean is None, row.mean, row.name, row.weight))


def graded_text(graded: Sequence[Graded]) -> str:
    """Criteria and the mean, a line each."""
    figures, mean = criterion_figures(graded), mean_reward(graded)
    judged = sum(response.reward is not None for response in graded)
    lines = ["  met  judged  weight  criterion"]
    for row in figures[:_LINES]:
        name = row.name if len(row.name) <= _LONGEST else f"{row.name[: _LONGEST - 1]}…"
        lines.append(f"{_met(row):>5}  {row.judged:>6}  {row.weight:>6}  {name}")
    if len(figures) > _LINES:
        lines.append(f"       {counted(len(figures) - _LINES, 'criterion', 'criteria')} more are met more often")
    lines.append(
        f"mean reward {number(mean.value if mean else None, 3)} ({interval(mean, 3)}); {judged} judged, "
        f"{len(graded) - judged} not"
    )
    return "\n".join(lines)


def verdict_rows(graded: Sequence[Graded]) -> Iterator[dict[str, object]]:
    """Rows of a spreadsheet: one for each criterion of each response."""
    for response in graded:
        for criterion, verdict in zip(response.rubric.criteria, response.card.verdicts, strict=True):
            yield {
                "sample_id": response.sample_id,
                "file_name": response.file_name or None,
                "reward": response.reward,
                "criterion": criterion.criterion,
                "weight": criterion.weight,
                "credit": verdict.credit,
                "met": None if verdict.credit is None else verdict.credit >= 1,
                "reasoning": verdict.reasoning,
                "error": verdict.error.value if verdict.error else None,
                "response": response.text,
            }


def graded_page(graded: Sequence[Graded], *, title: str, judges: str, ungraded: int) -> str:
    """Render the page.

    Args:
        judges: names of the judging models.
        ungraded: responses without a rubric or a text.
    """
    mean, figures = mean_reward(graded), criterion_figures(graded)
    judged = sum(response.reward is not None for response in graded)
    note = f"{counted(ungraded, 'response')} without a rubric or a text" if ungraded else ""
    tiles = [
        Tile("mean reward", number(mean.value if mean else None, 3), interval(mean, 3)),
        Tile("judged responses", str(judged), note),
        Tile("not judged", str(len(graded) - judged), kind="worse" if judged < len(graded) else ""),
    ]
    rows: list[list[Entry]] = [[row.name, row.weight, _met(row), row.judged, row.unjudged] for row in figures]
    table = Table(["criterion", "weight", "met", "judged", "not judged"], rows, note="The least met first.")
    worst = sorted(graded, key=lambda response: (response.reward is None, response.reward))
    shown = f" {_CARDS} of {len(worst)} are shown." if len(worst) > _CARDS else ""
    cards = Cards([_card(response) for response in worst[:_CARDS]], note=f"By reward, the lowest first.{shown}")
    blocks = [
        Block("result", "Result", [Tiles(tiles), Text(f"Judged by {judges}.", "quiet")]),
        Block("criteria", "Criteria", [table]),
        Block("responses", "Responses", [cards]),
    ]
    return render_page(blocks, title=title, kicker="Rubricworks grades", footer="Made by rubricworks grade.")


def _verdicts(graded: Sequence[Graded]) -> Iterator[tuple[Criterion, float | None]]:
    for response in graded:
        for criterion, verdict in zip(response.rubric.criteria, response.card.verdicts, strict=True):
            yield criterion, verdict.credit


def _met(row: CriterionFigures) -> str:
    return percent(row.mean).replace("\N{NARROW NO-BREAK SPACE}", " ")


def _card(response: Graded) -> Card:
    checks = [
        Check(criterion.criterion, f"{criterion.weight:g}", marks=[Mark("", verdict.credit)], rule=verdict.reasoning)
        for criterion, verdict in zip(response.rubric.criteria, response.card.verdicts, strict=True)
    ]
    return Card(
        sample_id=response.sample_id,
        file_name=response.file_name,
        image=None,
        passages=[Passage(f"reward {number(response.reward)}", shortened(response.text))],
        lists=[CheckList(checks)],
    )
