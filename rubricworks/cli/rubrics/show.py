"""`rubricworks rubrics show` and `diff`: what a set of rubrics holds, and what changed between two."""

from collections import Counter
from collections.abc import Iterator

import click

from rubricworks.cli.rubrics.convert import chosen
from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.terminal import echo

_SHOWN = {"prompt": "the sample's prompt", "reference": "the sample's reference answer"}
"""Fields of a sample that judges of answers are shown."""
_WIDTH = 80
_NAMED = ("description", "evaluation_rule", "reference", "key")


@click.command()
@click.argument("source", metavar="RUBRICS")
@click.argument("samples", nargs=-1)
def show(source: str, samples: tuple[str, ...]) -> None:
    """Summarise RUBRICS, in any format or of the Hub; with SAMPLES, print their rubrics."""
    entries = chosen(read_rubric_set(source, note=_ignore), samples)
    for line in _rubric_lines(entries) if samples else _summary(entries):
        echo(line)


@click.command()
@click.argument("old")
@click.argument("new")
def diff(old: str, new: str) -> None:
    """Print what changed from the rubrics OLD to NEW, sample by sample, criterion by criterion.

    A sample's prompt and reference answer count too: judges of answers are shown them.

    Exit code 1 if they differ, 0 if not.
    """
    before = {entry.sample_id: entry for entry in read_rubric_set(old, note=_ignore)}
    after = {entry.sample_id: entry for entry in read_rubric_set(new, note=_ignore)}
    changed = 0
    for sample_id in [*before, *(name for name in after if name not in before)]:
        lines = list(_changes(before.get(sample_id), after.get(sample_id)))
        if lines:
            changed += 1
            echo(f"{sample_id}")
            for line in lines:
                echo(f"  {line}")
    echo(f"{changed} of {len({*before, *after})} samples differ")
    if changed:
        click.get_current_context().exit(1)


def _summary(entries: Iterator[RubricEntry]) -> Iterator[str]:
    rubrics = criteria = essential = pitfalls = references = 0
    met: Counter[str] = Counter()
    sizes: list[int] = []
    weights: Counter[float] = Counter()
    for entry in entries:
        rubrics += 1
        sizes.append(len(entry.rubric.criteria))
        pitfalls += entry.rubric.has_pitfalls
        met.update(pitfall.met for pitfall in entry.pitfalls)
        for criterion in entry.rubric.criteria:
            criteria += 1
            essential += criterion.essential
            references += bool(criterion.reference)
            weights[criterion.weight] += 1
    negative = sum(count for weight, count in weights.items() if weight < 0)
    mean = criteria / rubrics
    yield f"{rubrics} rubrics, {criteria} criteria: {min(sizes)} to {max(sizes)} in a rubric, {mean:.1f} on average"
    yield f"{essential} essential, {references} with a reference, {negative} pitfalls in {pitfalls} rubrics"
    if met["good"] or met["unknown"]:
        yield (
            f"{met['good']} earn by not doing what their source takes points for, and of {met['unknown']} pitfalls the "
            "phrasing does not tell: rubrics import lists them"
        )
    shown = sorted(weights.items(), reverse=True)
    others = f", and {len(shown) - 12} other weights" if len(shown) > 12 else ""
    yield f"weights: {', '.join(f'{weight:g} ({count})' for weight, count in shown[:12])}{others}"


def _rubric_lines(entries: Iterator[RubricEntry]) -> Iterator[str]:
    for entry in entries:
        yield f"{entry.sample_id}{': ' + ' '.join(entry.prompt.split())[:200] if entry.prompt else ''}"
        for criterion in entry.rubric.criteria:
            yield f"  {_line(criterion)}"
            for name in _NAMED:
                if text := " ".join(str(getattr(criterion, name)).split()):
                    yield f"      {name.replace('_', ' ')}: {text}"


def _line(criterion: Criterion) -> str:
    return f"{criterion.weight:+g} {criterion.criterion}{' (essential)' if criterion.essential else ''}"


def _changes(old: RubricEntry | None, new: RubricEntry | None) -> Iterator[str]:
    if old is None or new is None:
        only = new if old is None else old
        yield f"{'added' if old is None else 'removed'}, {len(only.rubric.criteria) if only else 0} criteria"
        return
    for name, label in _SHOWN.items():
        if getattr(old, name) != getattr(new, name):
            yield f"~ {_change(label, getattr(old, name), getattr(new, name))}"
    yield from _criterion_changes(old.rubric, new.rubric)


def _criterion_changes(old: Rubric, new: Rubric) -> Iterator[str]:
    before = {criterion.criterion: criterion for criterion in old.criteria}
    after = {criterion.criterion: criterion for criterion in new.criteria}
    for title, criterion in before.items():
        if title not in after:
            yield f"- {_line(criterion)}"
    for title, criterion in after.items():
        if title not in before:
            yield f"+ {_line(criterion)}"
        else:
            other = before[title]
            fields = [name for name in Criterion.model_fields if getattr(criterion, name) != getattr(other, name)]
            if fields:
                changed = [
                    _change(name.replace("_", " "), getattr(other, name), getattr(criterion, name)) for name in fields
                ]
                yield f"~ {title}: {'; '.join(changed)}"
    if list(before) != list(after) and set(before) == set(after):
        yield "~ another order of its criteria"


def _change(label: str, old: object, new: object) -> str:
    """Both values in one line; of long ones the part in which they differ."""
    before, after = (" ".join(str(value).split()) or "(empty)" for value in (old, new))
    start = 0
    if max(len(before), len(after)) > _WIDTH:
        pairs = enumerate(zip(before, after, strict=False))
        same = next((place for place, (first, other) in pairs if first != other), min(len(before), len(after)))
        start = max(0, same - _WIDTH // 2)
    lead = "…" if start else ""
    shown = [lead + text[start : start + _WIDTH] for text in (before, after)]
    return f"{label} {' → '.join(shown)}"


def _ignore(_: str) -> None:
    """Drop notes on conversion: `import` and `export` print them."""
