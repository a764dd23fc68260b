"""`rubricworks agreement`: judges compared with people, with each other, and with themselves asked again."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import click

from rubricworks.cli.options import (
    api_key_option,
    chosen_subject,
    parse_endpoint,
    parse_prices,
    prices_option,
    subject_option,
)
from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set
from rubricworks.errors import UserError
from rubricworks.grading import Subject
from rubricworks.grading.agreement.judge_probe import JudgeProbe, ProbeRow, probe_judge
from rubricworks.grading.agreement.labels import human_ratings, read_labels
from rubricworks.grading.agreement.ratings import Ratings, normalise_text, read_judges
from rubricworks.grading.agreement.report import AgreementReport, report_agreement
from rubricworks.llm import Endpoint
from rubricworks.reports.agreement import (
    LEGEND,
    comparison_text,
    errors_text,
    group_text,
    identity_text,
    probe_text,
    rater_text,
    weights_text,
)
from rubricworks.runtime.progress import Progress
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="[LABELS.csv] SCORECARDS...")
@click.option("--min-count", default=10, show_default=True, help="Criteria with fewer verdicts share one row.",
              type=click.IntRange(min=1))  # fmt: skip
@click.option(
    "--rubrics", metavar="RUBRICS", help="Rubrics used for grading. Adds per-weight error rates; required by --judge."
)
@click.option(
    "--judge",
    metavar="MODEL@URL",
    help="Call this judge again to measure flips, effects of order and prices; needs --rubrics.",
)
@click.option("--limit", default=32, show_default=True, type=click.IntRange(min=2), help="Responses to ask about.")
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(min=2), help="Draws of each answer.")
@click.option("--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Of the judge.")
@click.option("--revision", default="", help="Judge model revision, as set in the recipe.")
@prices_option
@subject_option
@api_key_option
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all numbers here too."
)
def agreement(
    sources: tuple[str, ...],
    min_count: int,
    rubrics: str | None,
    judge: str | None,
    limit: int,
    repeats: int,
    temperature: float,
    revision: str,
    prices: str | None,
    subject: Subject | None,
    api_key_env: str | None,
    json_file: Path | None,
) -> None:
    """Compare judges with people, and with each other: accuracy, kappa, alpha, error rates, with 95 % intervals.

    LABELS.csv has the columns sample_id, criterion and label (0 to 1, yes/no, pass/fail, true/false), and may have
    response (where a sample has several) and rater (where several people label). SCORECARDS are tables of a run, or
    Parquet files of `rubricworks grade`. Every judge is compared with the people and with every other judge.

    With --judge, the first responses of the tables are graded again, REPEATS + 2 times, and no cache answers: the share
    of verdicts that flip, that change with the criteria in reverse, and the price of one call per response and of one
    per criterion. A recipe's noise_correction takes its rates from the file of --json.

    \b
    rubricworks agreement labels.csv scorecards/
    rubricworks agreement strict.parquet lenient.parquet --json agreement.json
    rubricworks agreement labels.csv scorecards/ --rubrics rubrics/ --judge m@http://gpu1:8000/v1 --prices 0.15,0.6
    """
    endpoint = _endpoint(judge, api_key_env, temperature, revision, prices, rubrics) if judge else None
    by_sample = _rubrics(rubrics) if rubrics else {}
    people, judges, empty = _raters(sources, alone=endpoint is not None)
    weights = {
        (normalise_text(name), normalise_text(criterion.criterion)): criterion.weight
        for name, entry in by_sample.items()
        for criterion in entry.rubric.criteria
    }
    report, notes = report_agreement(people, judges, empty_labels=empty, min_count=min_count, weights=weights)
    if endpoint:
        rows = _probe_rows(judges, by_sample, limit, rubrics or "")
        kind = chosen_subject(subject, by_sample.values())
        report = report.model_copy(update={"probe": _probe(endpoint, rows, kind, repeats)})
    if json_file:
        write_atomic(json_file, report.model_dump_json(indent=2).encode() + b"\n")
    _print(report, notes)


def _print(report: AgreementReport, notes: Sequence[str]) -> None:
    width = max(len(rater.name) for rater in report.raters)
    for rater in report.raters:
        echo(rater_text(rater, width))
    if report.empty_labels:
        echo(f"empty labels, which say nothing: {report.empty_labels:,}")
    for identity in report.identities:
        echo(identity_text(identity))
    for group in report.groups:
        echo(group_text(group))
    for errors in report.errors:
        echo(errors_text(errors))
        if errors.by_weight:
            echo(weights_text(errors))
    if report.probe:
        echo(f"\n{probe_text(report.probe)}")
    for comparison, note in zip(report.comparisons, notes, strict=True):
        echo(f"\n{comparison_text(comparison, note)}")
    echo(f"\n{LEGEND}")


def _raters(sources: tuple[str, ...], *, alone: bool) -> tuple[list[Ratings], list[Ratings], int]:
    """The people, the judges, and the number of empty labels.

    Args:
        alone: True if one judge without people has something to tell.
    """
    files = [source for source in sources if source.lower().endswith(".csv")]
    tables = [source for source in sources if source not in files]
    if len(files) > 1:
        raise UserError(f"{files[1]}: a second file of labels; put several people in one, told apart by a column rater")
    if not tables:
        raise UserError(f"{files[0]} is compared with nothing: name a table of scorecards too")
    labels = read_labels(files[0]) if files else None
    judges = read_judges(tables)
    people = human_ratings(labels, judges) if labels else []
    if not people and len(judges) < 2 and not alone:
        raise UserError(f"{tables[0]} holds one judge, {judges[0].name}: name a CSV of labels or a second table")
    return people, judges, labels.empty if labels else 0


def _endpoint(
    judge: str, api_key_env: str | None, temperature: float, revision: str, prices: str | None, rubrics: str | None
) -> Endpoint:
    if rubrics is None:
        raise UserError("--judge asks about responses by their rubrics: name them by --rubrics")
    fields: dict[str, object] = {"temperature": temperature, "revision": revision}
    if prices:
        fields["prices"] = parse_prices(prices)
    return parse_endpoint(judge, api_key_env).model_copy(update=fields)


def _rubrics(source: str) -> dict[str, RubricEntry]:
    return {entry.sample_id: entry for entry in read_rubric_set(source, note=lambda _: None)}


def _probe_rows(judges: Sequence[Ratings], rubrics: dict[str, RubricEntry], limit: int, source: str) -> list[ProbeRow]:
    if any(judge.of_images for judge in judges):
        raise UserError("--judge asks about texts, and these scorecards are of images; leave it out")
    responses = dict.fromkeys((item.sample_id, item.response) for judge in judges for item in judge)
    entries = ((rubrics[name], text) for name, text in responses if name in rubrics)
    rows = (ProbeRow(entry.to_sample(), text, entry.rubric) for entry, text in entries)
    if not (first := list(islice(rows, limit))):
        raise UserError(f"no sample_id of the scorecards stands in {source}")
    return first


def _probe(endpoint: Endpoint, rows: list[ProbeRow], subject: Subject, repeats: int) -> JudgeProbe:
    progress = Progress("probe", (repeats + 2) * len(rows), "gradings")
    return asyncio.run(probe_judge(endpoint, rows, subject=subject, repeats=repeats, progress=progress.at))
