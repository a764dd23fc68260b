"""`rubricworks rubrics import` and `export`: between this project's table and other formats.

An import decides of each pitfall whether meeting it is good or bad: by its phrasing, by a writer model with --judge, or
by the list that it writes beside OUT, which people correct, with --pitfalls.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from rubricworks.cli.options import api_key_option, parse_endpoint, report_line
from rubricworks.data.rubric_sets import FORMATS, RubricEntry, read_rubric_set, write_rubric_set
from rubricworks.data.rubric_sets.pitfall_file import check_pitfalls, read_pitfalls, write_pitfalls
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.reports.formats import counted
from rubricworks.synthesis.pitfall_polarity import read_polarity
from rubricworks.terminal import echo

sample_option = click.option("--sample", "samples", multiple=True, metavar="ID", help="This sample only; may repeat.")


@click.command("import")
@click.argument("source")
@click.option("--format", "name", type=click.Choice(FORMATS), help="Format of SOURCE; detected by default.")
@sample_option
@click.option("--judge", metavar="MODEL@URL", help="A writer model that classifies ambiguous pitfalls.")
@click.option(
    "--pitfalls",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="CSV",
    help="The list of pitfalls that an import wrote, as you corrected its column met.",
)
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("rubrics.parquet"), show_default=True)
def import_(
    source: str,
    name: str | None,
    samples: tuple[str, ...],
    judge: str | None,
    pitfalls: Path | None,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Write the rubrics of SOURCE as a table of this project: .parquet or .jsonl.

    SOURCE is a file, a folder, or a data set of the Hub with its commit: org/name@COMMIT, or org/name@COMMIT/FILES.
    A pitfall, of negative weight, earns its weight if it says what a response must not do, and takes it away if it
    names a fault; OUT's .pitfalls.csv lists which is which.

    \b
    rubricworks rubrics import 2025-05-07-06-14-12_oss_eval.jsonl --out healthbench.parquet
    rubricworks rubrics import org/name@9f26ac8b3d2c1e0f9f26ac8b3d2c1e0f9f26ac8b/data/train-*.parquet
    rubricworks rubrics import rar-science.parquet --judge Qwen2.5-7B-Instruct@http://localhost:8000/v1
    """
    endpoint = parse_endpoint(judge, api_key_env) if judge else None
    notes: Counter[str] = Counter()
    entries = list(_chosen_entries(source, name, samples, out, notes))
    if any(entry.pitfalls for entry in entries):
        entries = _with_polarity(entries, endpoint, pitfalls)
        listing = out.with_suffix(".pitfalls.csv")
        write_pitfalls(entries, listing)
        report_line(_pitfall_line(entries, listing, asked=judge is not None))
    _write(entries, out, "rubricworks", notes)


@click.command()
@click.argument("source", metavar="RUBRICS")
@click.option("--to", "name", type=click.Choice(FORMATS), required=True, help="Format to write.")
@sample_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File; for one rubric a file, a folder.")
def export(source: str, name: str, samples: tuple[str, ...], out: Path) -> None:
    """Write RUBRICS in another format: .jsonl or .parquet, .csv, or .toml and .json for rewardkit and verifiers.

    \b
    rubricworks rubrics export rubrics.parquet --to healthbench --out rubrics.jsonl
    rubricworks rubrics export rubrics.parquet --to rewardkit --sample s17 --out tests/quality.toml
    """
    _convert(source, None, samples, out, name)


def chosen(entries: Iterator[RubricEntry], samples: tuple[str, ...]) -> Iterator[RubricEntry]:
    """Entries of the named samples, or all if none is named.

    Raises:
        UserError: a named sample is not there.
    """
    missing = set(samples)
    for entry in entries:
        if not samples or entry.sample_id in missing:
            missing.discard(entry.sample_id)
            yield entry
    if missing:
        raise UserError(f"no rubric of sample {sorted(missing)[0]!r}")


def _convert(source: str, source_format: str | None, samples: tuple[str, ...], out: Path, target_format: str) -> None:
    notes: Counter[str] = Counter()
    _write(_chosen_entries(source, source_format, samples, out, notes), out, target_format, notes)


def _chosen_entries(
    source: str, source_format: str | None, samples: tuple[str, ...], out: Path, notes: Counter[str]
) -> Iterator[RubricEntry]:
    if out.is_file() and Path(source).exists() and out.samefile(source):
        raise UserError(f"--out {out} is what is read; name another file")
    return chosen(read_rubric_set(source, source_format, note=lambda text: notes.update([text])), samples)


def _write(entries: Iterable[RubricEntry], out: Path, target_format: str, notes: Counter[str]) -> None:
    count = write_rubric_set(entries, out, target_format, note=lambda text: notes.update([text]))
    for text, times in notes.items():
        report_line(f"note: {text} ({counted(times, 'rubric')})")
    echo(f"{out}: {count} rubrics, as {target_format}")


def _with_polarity(entries: list[RubricEntry], endpoint: Endpoint | None, pitfalls: Path | None) -> list[RubricEntry]:
    """Entries with the polarities of the corrected list, and of a writer where they are open."""
    if pitfalls:
        given = read_pitfalls(pitfalls)
        check_pitfalls(given, entries, pitfalls)
        entries = [
            entry.with_polarity(given.get(entry.sample_id, {}), f"{pitfalls}: {entry.sample_id}") for entry in entries
        ]
    if endpoint is None:
        return entries

    async def read(entry: RubricEntry, writer: ChatClient) -> RubricEntry:
        unknown = [pitfall.criterion for pitfall in entry.pitfalls if pitfall.met == "unknown"]
        return entry.with_polarity(await read_polarity(entry, unknown, writer)) if unknown else entry

    async def run() -> list[RubricEntry]:
        async with ChatClient(endpoint, purpose="writer") as writer:
            return await asyncio.gather(*(read(entry, writer) for entry in entries))

    return asyncio.run(run())


def _pitfall_line(entries: list[RubricEntry], listing: Path, *, asked: bool) -> str:
    met = Counter(pitfall.met for entry in entries for pitfall in entry.pitfalls)
    line = (
        f"{counted(met.total(), 'pitfall')}: {met['good']} say what a response must not do, and earn their weight; "
        f"{met['bad']} name a fault, and take it away"
    )
    if met["unknown"]:
        why = "the writer could not tell" if asked else "their phrasing does not tell"
        remedy = "" if asked else "ask a writer with --judge, or "
        line += f"; {met['unknown']} take it away as in SOURCE, for {why}: {remedy}correct them in the list"
    return f"{line}. {listing} lists them; give it as --pitfalls after a correction of its column met"
