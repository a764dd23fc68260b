"""`rubricworks rubrics import` and `export`: between this project's table and other formats."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from rubricworks.data.rubric_sets import FORMATS, RubricEntry, read_rubric_set, write_rubric_set
from rubricworks.errors import UserError

sample_option = click.option("--sample", "samples", multiple=True, metavar="ID", help="This sample only; may repeat.")


@click.command("import")
@click.argument("source")
@click.option("--format", "name", type=click.Choice(FORMATS), help="Format of SOURCE; by default it is found.")
@sample_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("rubrics.parquet"), show_default=True)
def import_(source: str, name: str | None, samples: tuple[str, ...], out: Path) -> None:
    """Write the rubrics of SOURCE as a table of this project: .parquet or .jsonl.

    SOURCE is a file, a folder, or a data set of the Hub with its commit: org/name@COMMIT, or org/name@COMMIT/FILES.

    \b
    rubricworks rubrics import 2025-05-07-06-14-12_oss_eval.jsonl --out healthbench.parquet
    rubricworks rubrics import org/name@9f26ac8b3d2c1e0f9f26ac8b3d2c1e0f9f26ac8b/data/train-*.parquet
    """
    _convert(source, name, samples, out, "rubricworks")


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

    def note(text: str) -> None:
        notes[text] += 1

    if out.is_file() and Path(source).exists() and out.samefile(source):
        raise UserError(f"--out {out} is what is read; name another file")
    entries = chosen(read_rubric_set(source, source_format, note=note), samples)
    count = write_rubric_set(entries, out, target_format, note=note)
    for text, times in notes.items():
        click.echo(f"note: {text} ({times} rubric{'s' if times > 1 else ''})", err=True)
    click.echo(f"{out}: {count} rubrics, as {target_format}")
