"""Blocks, the sections that make them, and the pages that show them: a run's report, and a stage's page in Kubeflow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from rubricworks.data.alarm import Alarm
from rubricworks.data.manifest import MANIFEST
from rubricworks.reports.parts import Cards, Part, Text
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.run_summary import RunSummary, last_lines, run_summary


@dataclass(frozen=True)
class Block:
    """Content of a section, and its figures for the run's summary or the stage's metrics."""

    id: str
    """Anchor on the page."""
    title: str = ""
    """Heading; without one, the block opens the page."""
    parts: Sequence[Part] = ()
    name: str = ""
    """Entry in the page's navigation; by default the title."""
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    """Figures that only this method measures: `details` of `summary.json`."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Figures of the stage for the Kubeflow UI, in addition to those of its ledger line."""
    styles: Sequence[Path] = ()
    scripts: Sequence[Path] = ()
    page: str = ""
    """A whole page in place of all of the above."""


_STAGE_EXAMPLES = 4
"""Samples that the section of a stage shows within a run's report."""
Section = Callable[[RunFolder], Block | None]
"""Block of a run; None if the run has nothing for it."""


@dataclass(frozen=True)
class Report:
    """A method's report."""

    method: str
    sections: Sequence[Section]
    success_lines: Callable[[RunSummary], list[str]] = last_lines
    """Lines about the results that `rubricworks run` prints."""
    trainings: Mapping[str, str] = field(default_factory=dict)
    """Stage that trains a policy → the policy's name; empty where there is only one."""
    responses: str = "captions"
    stood_in: str = "images, teachers, rubric writer and judges"
    """Note on a simulated run's page: the parts that the scene world replaces."""
    footer: str = ""


def build_report(run: RunFolder, report: Report) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run."""
    run = replace(run, trainings=report.trainings)
    blocks = [block for section in report.sections if (block := section(run))]
    named = {name: alarm for stage, name in report.trainings.items() if (alarm := run.alarm(stage))}
    summary = run_summary(
        run,
        method=report.method,
        alarm="; ".join(f"{name}, {alarm}" if name else str(alarm) for name, alarm in named.items()) or None,
        details={name: value for block in blocks for name, value in block.details.items()},
    )
    page = render_page(
        with_file_names(run, blocks),
        title=run.path.name,
        kicker="Rubricworks run report",
        lead=str(run.recipe.get("description") or ""),
        navigation=True,
        stood_in=report.stood_in if summary.simulated else "",
        alarms=[(f" in {name}" if name else "", alarm) for name, alarm in named.items()],
        responses=report.responses,
        footer=f"Made by Rubricworks {run.version} from the files in this run's folder. {report.footer}",
    )
    return page, summary


def render_page(
    blocks: Sequence[Block],
    *,
    title: str,
    kicker: str,
    footer: str,
    lead: str = "",
    navigation: bool = False,
    stood_in: str = "",
    alarms: Sequence[tuple[str, Alarm]] = (),
    responses: str = "",
) -> str:
    """Render blocks below each other as one HTML file that needs no network.

    Args:
        stood_in: what the scene world stood in for; empty if nothing is simulated.
        alarms: (place, alarm) of the hacking alarms.
    """
    return render(
        "shell.html",
        styles=("report.css", "tables.css", "audit.css", *(path for block in blocks for path in block.styles)),
        scripts=tuple(path for block in blocks for path in block.scripts),
        blocks=blocks,
        title=title,
        kicker=kicker,
        footer=footer,
        lead=lead,
        navigation=navigation,
        stood_in=stood_in,
        alarms=alarms,
        responses=responses,
    )


def of_stage(stage: str, section: Section, title: str = "") -> Section:
    """A stage's section within a run's report.

    Args:
        title: heading of the block, instead of its own.
    """

    def at_stage(run: RunFolder) -> Block | None:
        block = section(replace(run, stage=stage, trainings={}, examples=_STAGE_EXAMPLES))
        return replace(block, metrics={}, title=title or block.title) if block else None

    return at_stage


def unfinished(run: RunFolder, id: str, title: str, what: str) -> Block | None:
    """Block stating that a stage has no output table yet; None if it has one."""
    if (run.out / MANIFEST).is_file():
        return None
    return Block(id, title, [Text(f"There are {what}: the {run.stage} stage has not finished in this run.", "missing")])


def with_file_names(run: RunFolder, blocks: Sequence[Block]) -> list[Block]:
    """The blocks, with the names of their pictures' files on the cards."""
    shown = {
        card.sample_id for block in blocks for part in block.parts if isinstance(part, Cards) for card in part.cards
    }
    names = run.file_names(shown)

    def named(part: Part) -> Part:
        if not isinstance(part, Cards):
            return part
        return replace(part, cards=[card._replace(file_name=names.get(card.sample_id, "")) for card in part.cards])

    return [replace(block, parts=[named(part) for part in block.parts]) for block in blocks]


def without_cards(blocks: Sequence[Block]) -> list[Block]:
    """Replace the cards of each block by a sentence with their number, so that the page fits the Kubeflow UI."""

    def reduced(part: Part) -> Part:
        if not isinstance(part, Cards):
            return part
        return Text(
            f"{len(part.cards)} cards are left out: with them the page would be too large for the Kubeflow UI.",
            "missing",
        )

    return [replace(block, parts=[reduced(part) for part in block.parts]) for block in blocks]
