"""`rubricworks study`: labels and preferences of people, out as pages and in as CSV, in a folder or an installation."""

from pathlib import Path

import click

from rubricworks.cli.installation.api_runs import require_api
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import POLICY
from rubricworks.evaluation.studies import preference_study, rubric_study
from rubricworks.evaluation.studies.label_file import write_label_file
from rubricworks.evaluation.studies.preference_study import Preferences, preference_tasks, preferences, read_candidates
from rubricworks.evaluation.studies.rubric_study import RubricReliability, rubric_items, rubric_reliability
from rubricworks.metrics import Interval
from rubricworks.policy.own_rewards import with_own_rewards
from rubricworks.reports.run_folder import is_simulated
from rubricworks.reports.study_page import preference_page, rubric_page
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo, echo_file
from rubricworks.tracking.installation import path_of

PAGE, LABELS, KEY = "page.html", "labels.csv", "key.json"
_OUT = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the study."
)
_SEED = click.option("--seed", default=1, show_default=True, help="Seed of the draw and of the images' order.")


@click.group()
def study() -> None:
    """Let people label rubrics and compare images, and compute what they say, with 95 % intervals.

    A study is a folder: page.html to label on, labels.csv to fill in instead, and key.json, which people must not see.

    \b
    rubricworks study rubrics runs/mine --out study
    rubricworks study images clip=runs/clip rubric=runs/mine --protocol pairs --out study
    rubricworks study results study labels.csv

    `labels` and `preferences` are those that people gave on the pages of the installation that RUBRICWORKS_API names.
    """


@study.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--prompts", default=100, show_default=True, type=click.IntRange(min=1), help="Prompts to draw.")
@_SEED
@_OUT
def rubrics(run: Path, prompts: int, seed: int, out: Path) -> None:
    """Ask people whether RUN's rubrics follow from their prompts, and whether an image meets them."""
    items = rubric_items(run, prompts, seed=seed)
    page = rubric_page(items, title="Do these criteria fit the prompt, and the image them?", simulated=_simulated(run))
    _start(out, page)
    write_label_file(out / LABELS, rubric_study.COLUMNS, (item._asdict() for item in items))
    rubric_study.write_key(out / KEY, items)
    drawn = len({item.sample_id for item in items})
    echo(f"{len(items)} criteria of {drawn} prompts: open {out / PAGE}, or fill in {out / LABELS}")


@study.command()
@click.argument("models", nargs=-1, required=True, metavar="NAME=RUN[:MODEL]...")
@click.option("--protocol", type=click.Choice(["top", "pairs", "within"]), default="top", show_default=True,
              help="Best of all models, better of two models, or better of two images of one model.")  # fmt: skip
@click.option("--prompts", default=100, show_default=True, type=click.IntRange(min=1), help="Prompts to draw.")
@_SEED
@_OUT
def images(models: tuple[str, ...], protocol: preference_study.Protocol, prompts: int, seed: int, out: Path) -> None:
    """Ask people which image they prefer, without telling them which model made it.

    MODEL is a name in the run's evaluation, by default the trained one. With `within`, people are compared with each
    run's own reward: the rubric reward of its evaluation, or its endpoints' scores of the images shown.
    """
    sources = dict(map(_source, models))
    if len(sources) < len(models):
        raise UserError("two models have the same name; give each its own: NAME=RUN[:MODEL]")
    tasks = preference_tasks(read_candidates(sources), protocol, prompts, seed=seed)
    if protocol == "within":
        tasks, unknown = with_own_rewards(tasks, {name: run for name, (run, _) in sources.items()})
        for name in unknown:
            echo(f"{name}: its run has no reward of images that is known here, so no agreement with people", err=True)
    title = "Which image is the best?" if protocol == "top" else "Which image is better?"
    page = preference_page(tasks, protocol, title=title, simulated=any(_simulated(run) for run, _ in sources.values()))
    _start(out, page)
    write_label_file(
        out / LABELS, preference_study.COLUMNS, ({"task": task.task, "prompt": task.prompt} for task in tasks)
    )
    preference_study.write_key(out / KEY, tasks, protocol)
    echo(f"{len(tasks)} tasks: open {out / PAGE}, or fill in {out / LABELS}")


@study.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("labels", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all numbers here.")
def results(folder: Path, labels: Path, json_file: Path | None) -> None:
    """Compute the results of the study in FOLDER from the filled-in LABELS, of one person or several."""
    key = folder / KEY
    if not key.is_file():
        raise UserError(f"{folder}: there is no {KEY}; name the folder that `rubricworks study` wrote")
    result: RubricReliability | Preferences
    if "verdicts" in key.read_text(encoding="utf-8")[:40]:
        result = rubric_reliability(labels, key)
        lines = _reliability_lines(result)
    else:
        result = preferences(labels, key)
        lines = _preference_lines(result)
    if json_file:
        write_atomic(json_file, result.model_dump_json(indent=2).encode() + b"\n")
    echo("\n".join(lines))


@study.command()
@click.argument("run")
@click.argument("stage")
@click.option(
    "--add", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Store the labels of this CSV."
)
def labels(run: str, stage: str, add: Path | None) -> None:
    """Print people's labels of the responses of RUN's STAGE at the installation, or add those of a CSV.

    The columns are those of `rubricworks agreement`; rows without a rater are yours.

    \b
    rubricworks study labels my-20261123-020900 train_policy > labels.csv
    rubricworks study labels my-20261123-020900 train_policy --add labels.csv
    """
    _csv(path_of("runs", run, "stages", stage, "labels", "csv"), add, "labels")


@study.command("preferences")
@click.argument("run")
@click.option("--judges", is_flag=True, help="Those between judges, not between models.")
@click.option("--add", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Store those of this CSV.")
def preferences_command(run: str, judges: bool, add: Path | None) -> None:
    """Print people's preferences among the models of RUN at the installation, or add those of a CSV.

    The columns are sample_id, first, second, choice (first, second or equal) and rater; rows without a rater are yours.
    Those between judges have response and criterion, too, and the choices both and neither.

    \b
    rubricworks study preferences my-20261123-020900 > preferences.csv
    rubricworks study preferences my-20261123-020900 --add preferences.csv
    """
    _csv(path_of("runs", run, "judge-preferences" if judges else "preferences", "csv"), add, "preferences")


def _csv(place: str, add: Path | None, name: str) -> None:
    api = require_api()
    if add is None:
        echo_file(api.download(place))
    else:
        echo(f"{api.upload(place, add.read_bytes(), 'text/csv')['stored']} {name} are stored")


def _start(out: Path, page: str) -> None:
    if (out / KEY).exists():
        raise UserError(f"{out}: there is a study already, whose labels belong to its key; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / PAGE, page.encode())


def _source(text: str) -> tuple[str, tuple[Path, str]]:
    name, equals, place = text.partition("=")
    folder, _, model = place.partition(":")
    if not equals or not name or not folder:
        raise UserError(f"{text!r}: write NAME=RUN, or NAME=RUN:MODEL")
    if not Path(folder).is_dir():
        raise UserError(f"{text!r}: there is no folder {folder}")
    return name, (Path(folder), model or POLICY)


def _simulated(run: Path) -> bool:
    return is_simulated(run)


def _reliability_lines(result: RubricReliability) -> list[str]:
    rows = (
        ("consistent with the prompt", result.consistency),
        ("hallucinated", result.hallucination),
        ("grader agrees with people", result.agreement),
    )
    counts = f"{result.pairs} prompt-criterion pairs of {result.prompts} prompts, {_people(result.raters)}"
    return [counts, *(f"{name:<28} {_share(value)}" for name, value in rows)]


def _preference_lines(result: Preferences) -> list[str]:
    lines = [f"{result.answers} answers of {_people(result.raters)}"]
    width = max([len(scores.model) for scores in result.models], default=0)
    for scores in sorted(result.models, key=lambda row: -(row.share.value if row.share else 0)):
        own = f", its reward agrees with people in {_share(scores.agreement)}" if scores.agreement else ""
        lines.append(
            f"{scores.model:<{width}}  {'preferred in ' + _share(scores.share) if scores.share else ''}{own}".rstrip(
                ", "
            )
        )
    if result.equal is not None:
        lines.append(f"equal: {_share(result.equal)}")
    lines.append(f"the reward agrees with people in {_share(result.agreement)}")
    return lines


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count} people"


def _share(value: Interval | None) -> str:
    if value is None:
        return "-"
    bounds = f" [{value.low:.1%}, {value.high:.1%}]" if value.low is not None and value.high is not None else ""
    missing = f", {value.missing} without a verdict" if value.missing else ""
    return f"{value.value:.1%}{bounds} of {value.samples}{missing}"
