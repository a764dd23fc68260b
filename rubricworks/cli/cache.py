"""`rubricworks cache`: what a run's answer cache holds, made smaller, or written out."""

import re
from pathlib import Path

import click

from rubricworks.errors import UserError
from rubricworks.llm.pruning import prune as prune_answers
from rubricworks.llm.stored_answers import CacheFigures, cache_figures, cache_file, export_answers, write_answers

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class _Age(click.ParamType):
    name = "age"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([mhdw])", value)
        if not found:
            self.fail(f"{value!r} is no age; write minutes, hours, days or weeks: 90m, 12h, 30d, 4w", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


_PATH = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def cache() -> None:
    """Look into, trim and export the answers that a run keeps.

    PATH is a cache file (llm_cache.sqlite) or the folder of a run. A run may be using it meanwhile.
    """


@cache.command()
@_PATH
@click.option("--json", "as_json", is_flag=True, help="Exact numbers, as JSON.")
def stats(path: Path, as_json: bool) -> None:
    """How many answers are kept, of which models, and what they first cost.

    \b
    rubricworks cache stats runs/quickstart-20260101-120000
    """
    file = cache_file(path)
    figures = cache_figures(file)
    click.echo(figures.model_dump_json(indent=2) if as_json else _table(file, figures))


@cache.command()
@_PATH
@click.option("--older-than", "older_than_s", type=_Age(), metavar="AGE",
              help="Delete what is older: 90m, 12h, 30d, 4w.")  # fmt: skip
@click.option("--model", metavar="NAME", help="Delete only this model's; all, if nothing else is given.")
@click.option("--keep-mb", type=click.FloatRange(min=0), metavar="MB",
              help="Delete the oldest until the rest takes about this much.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say how many would go; delete nothing.")
def prune(path: Path, older_than_s: float | None, model: str | None, keep_mb: float | None, dry_run: bool) -> None:
    """Delete answers and give their room back to the disk.

    A run resumes from what its cache keeps: pruned answers are asked, and paid, again when they are needed again.

    \b
    rubricworks cache prune runs/ID --older-than 30d --dry-run
    rubricworks cache prune runs/ID --model old-judge
    rubricworks cache prune runs/ID --keep-mb 500
    """
    if older_than_s is None and model is None and keep_mb is None:
        raise UserError("say what is to go: --older-than 30d, --model NAME or --keep-mb 500")
    file = cache_file(path)
    keep_bytes = None if keep_mb is None else keep_mb * 1e6
    pruned = prune_answers(file, older_than_s=older_than_s, model=model, keep_bytes=keep_bytes, dry_run=dry_run)
    what = f"{_count(pruned.answers)} ({_size(pruned.answer_bytes)})"
    before, after = _size(pruned.bytes_before), _size(pruned.bytes_after)
    if dry_run:
        click.echo(f"would delete {what}; the cache takes {before}")
    elif pruned.kept_room:
        click.echo(f"deleted {what}; the cache took {before}")
        click.echo(f"it could not be made smaller yet: {pruned.kept_room}; prune again later to give the room back")
    else:
        click.echo(f"deleted {what}; the cache took {before} and takes {after}")


@cache.command()
@_PATH
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
              metavar="FILE.jsonl", help="Where to write; - is standard output.")  # fmt: skip
def export(path: Path, out: Path) -> None:
    """Write every answer as a line of JSON: key, model, made, raw, prompt_tokens, completion_tokens, cost.

    \b
    rubricworks cache export runs/ID --out answers.jsonl
    rubricworks cache export runs/ID --out - | jq -r 'select(.model == "judge") | .raw'
    """
    file = cache_file(path)
    if str(out) == "-":
        write_answers(file, click.get_binary_stream("stdout"))
        return
    click.echo(f"{_count(export_answers(file, out))} in {out}")


def _table(file: Path, figures: CacheFigures) -> str:
    free = f", {_size(figures.free_bytes)} of it free" if figures.free_bytes else ""
    heading = f"{file}: {_count(figures.answers)}, {_size(figures.bytes)}{free}"
    if figures.oldest is None or figures.newest is None:
        return heading
    first, last = (f"{when:%Y-%m-%d %H:%M}" for when in (figures.oldest, figures.newest))
    width = max(5, *(len(one.model) for one in figures.models))
    titles = f"{'model':<{width}} {'answers':>11} {'prompt':>13} {'completion':>13} {'dollars':>11} {'length':>8}"
    rows = [
        f"{one.model:<{width}} {one.answers:>11,} {one.prompt_tokens:>13,} {one.completion_tokens:>13,}"
        f" {one.cost:>11,.4f} {one.mean_characters:>8,.0f}"
        for one in figures.models
    ]
    legend = "prompt, completion: tokens when first asked, as the dollars; length: characters, mean"
    return "\n".join([heading, f"made from {first} to {last} UTC", "", titles, *rows, "", legend])


def _count(answers: int) -> str:
    return f"{answers:,} {'answer' if answers == 1 else 'answers'}"


def _size(count: int) -> str:
    for unit, bytes_of_it in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_of_it:
            return f"{count / bytes_of_it:,.1f} {unit}"
    return f"{count} bytes"
