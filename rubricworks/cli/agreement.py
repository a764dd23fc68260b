"""`rubricworks agreement`: judges compared with people, and with each other."""

from pathlib import Path

import click

from rubricworks.errors import UserError
from rubricworks.grading.agreement_report import AgreementReport, report_agreement
from rubricworks.grading.labels import human_ratings, read_labels
from rubricworks.grading.ratings import read_judges
from rubricworks.reports.agreement import LEGEND, comparison_text, errors_text, group_text, rater_text
from rubricworks.storage import write_atomic


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="[LABELS.csv] SCORECARDS...")
@click.option("--min-count", default=10, show_default=True, help="Criteria with fewer verdicts share one row.",
              type=click.IntRange(min=1))  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all numbers here too."
)
def agreement(sources: tuple[str, ...], min_count: int, json_file: Path | None) -> None:
    """Compare judges with people, and with each other: accuracy, kappa, alpha, error rates, with 95 % intervals.

    LABELS.csv has the columns sample_id, criterion and label (0 to 1, yes/no, pass/fail, true/false), and may have
    response (where a sample has several) and rater (where several people label). SCORECARDS are tables of a run, or
    Parquet files of `rubricworks grade`. Every judge is compared with the people and with every other judge.

    \b
    rubricworks agreement labels.csv scorecards/
    rubricworks agreement strict.parquet lenient.parquet --json agreement.json
    """
    report, notes = _report(sources, min_count)
    if json_file:
        write_atomic(json_file, report.model_dump_json(indent=2).encode() + b"\n")
    width = max(len(rater.name) for rater in report.raters)
    for rater in report.raters:
        click.echo(rater_text(rater, width))
    if report.empty_labels:
        click.echo(f"empty labels, which say nothing: {report.empty_labels:,}")
    for group in report.groups:
        click.echo(group_text(group))
    for errors in report.errors:
        click.echo(errors_text(errors))
    for comparison, note in zip(report.comparisons, notes, strict=True):
        click.echo(f"\n{comparison_text(comparison, note)}")
    click.echo(f"\n{LEGEND}")


def _report(sources: tuple[str, ...], min_count: int) -> tuple[AgreementReport, list[str]]:
    """The numbers, and for each comparison the reason why it has none, or ""."""
    files = [source for source in sources if source.lower().endswith(".csv")]
    tables = [source for source in sources if source not in files]
    if len(files) > 1:
        raise UserError(f"{files[1]}: a second file of labels; put several people in one, told apart by a column rater")
    if not tables:
        raise UserError(f"{files[0]} is compared with nothing: name a table of scorecards too")
    labels = read_labels(files[0]) if files else None
    judges = read_judges(tables)
    people = human_ratings(labels, judges) if labels else []
    if not people and len(judges) < 2:
        raise UserError(f"{tables[0]} holds one judge, {judges[0].name}: name a CSV of labels or a second table")
    return report_agreement(people, judges, empty_labels=labels.empty if labels else 0, min_count=min_count)
