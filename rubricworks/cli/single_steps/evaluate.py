"""`rubricworks evaluate`: any models on any samples, by any scorers, in one table.

It starts the same stages as a run, `prepare` and `score`, in a folder of its own, so it resumes like a run.
"""

import json
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import TypeAdapter, ValidationError

from rubricworks.cli.options import api_key_option, parse_endpoint, report_line
from rubricworks.cli.single_steps.caption import run_stage
from rubricworks.data.hub import hub_folder, hub_reading, hub_source, model_source, pinned_source
from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.data.source_entries import file_name
from rubricworks.data.tables import read_rows, read_rubrics
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.evaluation.models import ModelSource
from rubricworks.evaluation.scoreboard import LENGTH, Scoreboard, read_scoreboard
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers, CaptionScorers, ImageScorers, Scorers
from rubricworks.evaluation.suites.official_sets import (
    read_caption_qa,
    read_references,
    write_exams,
    write_referenced,
    write_rubrics,
)
from rubricworks.llm import Endpoint
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.reports.formats import interval, number
from rubricworks.reports.leaderboard import build_board, write_board
from rubricworks.reports.run_folder import SOURCE, is_simulated
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runs.input_tables import input_tables, is_run
from rubricworks.runtime.config import canonical_json, endpoints_in
from rubricworks.runtime.job import DONE
from rubricworks.runtime.launch import launch
from rubricworks.stages.data import prepare, prepare_questions
from rubricworks.stages.evaluation.responses import read_responses, response_to
from rubricworks.stages.evaluation.score_config import AnyEvaluation, Evaluation
from rubricworks.storage import files_digest, write_atomic
from rubricworks.strict_yaml import parse_yaml
from rubricworks.terminal import echo

_KINDS: dict[str, type[Scorers]] = {"captions": CaptionScorers, "answers": AnswerScorers, "images": ImageScorers}
"""Kind of responses → its scorers; a scorer of several is first of all the first's."""
_TRAINED = "train_*/model"
_RESPONSES = (".jsonl", ".parquet")


def _scorer_lines() -> str:
    """Names of the scorers by kind of responses, for `--help`."""
    lines = []
    for kind, scorers in _KINDS.items():
        names = ", ".join(name for name in scorers.model_fields if name not in ("functions", "benchmarks"))
        lines.append(textwrap.fill(f"{kind}: {names}", width=78, subsequent_indent=" " * (len(kind) + 2)))
    return "\b\n" + "\n".join(["Scorers (what each measures: docs/reference/scorers.md):", *lines])


@click.command(epilog=_scorer_lines())
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--on", "source", required=True, metavar="SOURCE", help="A run, a samples table, or images or questions.")
@click.option(
    "--with",
    "scorers",
    multiple=True,
    required=True,
    metavar="SCORER",
    help="A scorer below, or a file; give several.",
)
@click.option("--judge", metavar="MODEL@URL", help="Judge of the scorers that are given by name.")
@click.option("--against", metavar="NAME", help="Opponent of comparisons and gains; default: the first model.")
@click.option("--decoding", "decodings", multiple=True, type=click.Choice(["greedy", "sampled"]), default=["greedy"])
@click.option("--max-new-tokens", default=1024, show_default=True, type=click.IntRange(min=1))
@click.option("--rubrics", metavar="SET", help="Table or any set of rubrics, here or on the Hub; default: the run's.")
@click.option(
    "--exams",
    metavar="TABLE",
    help="Table of exams, or CaptionQA's questions (.json), here or on the Hub; default: the run's.",
)
@click.option("--references", metavar="[SOURCE=]FILE", help="Reference captions in place of the samples' own.")
@click.option("--reuse", type=click.Path(path_type=Path, exists=True), help="Earlier evaluation whose responses serve.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the tables and the page.")
def evaluate(
    models: tuple[str, ...],
    source: str,
    scorers: tuple[str, ...],
    judge: str | None,
    against: str | None,
    decodings: tuple[Any, ...],
    max_new_tokens: int,
    rubrics: str | None,
    exams: str | None,
    references: str | None,
    reuse: Path | None,
    seed: int,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Score MODELs on the held-out samples of SOURCE, or on all of them if it is no run.

    A MODEL is a model directory, a run (its policy), MODEL@URL of an OpenAI-compatible server, or a file of responses
    (JSON lines or Parquet with `sample_id` or `file_name`, and `response` or `caption`); NAME=MODEL gives it a name.
    Models and files may be the Hub's, with their commit: org/name@COMMIT, org/name@COMMIT/FILE.

    A SCORER is a scorer's name, with --judge where it needs one; MODULE:FUNCTION of your own; or a recipe, or a YAML
    file, with the section `evaluation`.

    \b
    rubricworks evaluate base=runs/ID/warm_up/model runs/ID --on runs/ID --with quickstart --out scored/
    rubricworks evaluate mine=captions.jsonl gpt=gpt-4.1@https://api.openai.com/v1 --on photos/ \\
        --with arena --with likert --judge gpt-4.1@https://api.openai.com/v1 --api-key-env OPENAI_API_KEY --out scored/

    Prints the means with 95 % intervals, and writes OUT/scores.html and OUT/score/scores.json. Run it
    again to resume.
    """
    sources = _models_by_name(models, api_key_env, max_new_tokens)
    if against is not None and against not in sources:
        raise UserError(f"--against {against}: no such model; the models are {', '.join(sources)}")
    settings = _scorer_settings(scorers, parse_endpoint(judge, api_key_env, max_tokens=4096) if judge else None)
    place = Path(source)
    tables = input_tables(place)
    with lock_folder(out.absolute()):
        samples = tables.pop("samples", None) or _prepare(out, source, settings)
        if references:
            samples = _with_references(out, samples, references)
        options = {
            "rubrics": _rubric_table(out, samples, rubrics) if rubrics else None,
            "exams": _exam_table(out, samples, exams) if exams else None,
        }
        inputs = {"samples": samples, **tables, **{name: str(path) for name, path in options.items() if path}}
        splits = ["held_out"] if is_run(place) else None
        _report_matches(sources, samples, splits, decodings[0])
        if options["rubrics"]:
            _report_rubrics(read_rubrics(options["rubrics"]), samples, splits)
        if reuse:
            sources = {name: _reused(name, model, reuse) for name, model in sources.items()}
        config = _config(
            {
                **settings,
                "models": {name: model.model_dump() for name, model in sources.items()},
                "opponent": against or next(iter(sources)),
                "decodings": decodings,
                **({} if settings["type"] == "images" else {"max_new_tokens": max_new_tokens}),
                "splits": splits,
                "seed": seed,
            }
        )
        for where, endpoint in endpoints_in(config):
            for url in endpoint.urls:
                fill(url, f"the URL of {where}")  # before anything is paid for
        simulated = any(map(is_simulated, (place, Path(samples).absolute().parent)))
        write_atomic(out / SOURCE, json.dumps({"samples": samples, "simulated": simulated}).encode())
        folder = Path(launch("score", canonical_json(config), str(out), inputs, view=str(out / "scores.html")))
    board = read_scoreboard(folder)
    assert board is not None
    echo(board_text(board))
    for note in board_notes(board):
        echo(note, err=True)
    if simulated:
        echo("\nsimulated: the scene world stood in for images and judges")
    write_board(build_board([out], against=against), out, title=f"Evaluation {out.name}", simulated=simulated)
    echo(f"\n{out / 'scores.html'}: the page; {folder / 'scores.json'}: all numbers")
    echo(f"{out / 'leaderboard.html'}: models against scorers, with significant differences")


def board_text(board: Scoreboard) -> str:
    """The first figure of each scorer by model, with intervals, as aligned columns."""
    figures = [*board.headlines, LENGTH]
    rows = [["model", "decoding", *(board.title(figure) for figure in figures)]]
    for model in board.models:
        name = model.model if model.step is None else f"{model.model} at {model.step}"
        cells = []
        for figure in figures:
            mean = model.means.get(figure)
            bounds = f" [{interval(mean)}]" if mean and mean.bounds else ""
            cells.append(f"{number(mean.value)}{bounds}" if mean else "-")
        rows.append([name, model.decoding, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def board_notes(board: Scoreboard) -> list[str]:
    """Sentences about what the table leaves out: scorers that were skipped, responses without a score."""
    notes = [f"{name} was skipped: {reason}" for name, reason in board.skipped.items()]
    notes += [
        f"{model.model}: {board.title(figure)} has no mean: {task}: {reason}"
        for model in board.models
        for figure, tasks in model.incomplete.items()
        for task, reason in tasks.items()
    ]
    for model in board.models:
        for figure in board.headlines:
            mean = model.means.get(figure)
            if mean and mean.missing:
                total = (mean.samples or 0) + mean.missing
                notes.append(
                    f"{model.model}: {board.title(figure)} is of {mean.samples} of {total} samples; the rows of the "
                    f"other {mean.missing} say why"
                )
    notes += [
        f"{name}: {number(bias.value)} [{interval(bias)}] of the decided judgments prefer the caption that stands first"
        for name, bias in board.position_bias.items()
    ]
    return notes


def _models_by_name(texts: Sequence[str], api_key_env: str | None, max_tokens: int) -> dict[str, ModelSource]:
    """Name → model, in order.

    Raises:
        UserError: two models have one name, or a place holds no model.
    """
    models: dict[str, ModelSource] = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not equals or "/" in name or "@" in name:
            name, place = "", text
        source, default = _model_source(place, api_key_env, max_tokens)
        name = name or default
        if name in models:
            raise UserError(f"two models are called {name}; name them, as in first={place}")
        models[name] = source
    return models


def _model_source(place: str, api_key_env: str | None, max_tokens: int) -> tuple[ModelSource, str]:
    """Model of an argument, and its default name."""
    if "@http" in place:
        endpoint = parse_endpoint(place, api_key_env, max_tokens=max_tokens)
        return ModelSource(endpoint=endpoint), endpoint.model
    path = Path(place)
    if (on_hub := pinned_source(place)) and not on_hub.files:
        return ModelSource(folder=place, revision=on_hub.revision), on_hub.name.rpartition("/")[2]
    if on_hub:
        path, place = hub_folder(on_hub), str(hub_folder(on_hub))
    if path.is_file() and path.suffix in _RESPONSES:
        return ModelSource(responses=place, revision=files_digest([path], path.parent)), path.stem
    if path.is_dir():
        if (path / MANIFEST).is_file():
            return ModelSource(responses=place, revision=read_manifest(path).digest), path.name
        folder = path if (path / "config.json").is_file() else next(iter(sorted(path.glob(_TRAINED))), None)
        if folder is None:
            raise UserError(f"{place}: no model (config.json), no run with a trained one, and no table of responses")
        files = [file for file in folder.iterdir() if file.is_file()]
        name = path.name if folder is not path else path.parent.name if path.name == "model" else path.name
        return ModelSource(folder=str(folder), revision=files_digest(files, folder)), name
    if not path.exists() and place.count("/") == 1:
        model_source(place)  # refuses a name without its commit
    kinds = "a model directory, a run, MODEL@URL, a .jsonl or .parquet file, or org/name@COMMIT of the Hub"
    raise UserError(f"{place}: there is no such model; give {kinds}")


def _scorer_settings(names: Sequence[str], judge: Endpoint | None) -> dict[str, object]:
    """Fields of the section `evaluation` from the values of --with.

    Raises:
        UserError: a value names no scorer, file or function, or a scorer lacks its judge.
    """
    settings: dict[str, object] = {}
    scorers: dict[str, Any] = {}
    by_name = [name for name in names if name in _scorer_names(*_KINDS.values())]
    for name in names:
        if name in by_name:
            scorers[name] = {}
        elif ":" in name and not Path(name).exists():
            scorers.setdefault("functions", []).append({"function": name})
        else:
            section = _section(name)
            scorers |= section.pop("scorers", {})
            settings |= section
    settings.setdefault("type", _kind_of(scorers))
    fields = _KINDS[settings["type"]].model_fields if settings["type"] in _KINDS else {}
    for name in by_name:
        if judge and name in fields and "judge" in get_args(fields[name].annotation)[0].model_fields:
            scorers[name] = {"judge": judge.model_dump()}
    return {**settings, "scorers": scorers}


def _kind_of(scorers: Iterable[str]) -> str:
    """First kind of responses that has all of the scorers.

    Raises:
        UserError: no kind has them all.
    """
    for kind, of_kind in _KINDS.items():
        if set(scorers) <= of_kind.model_fields.keys():
            return kind
    kinds = "; ".join(f"{kind}: {', '.join(_scorer_names(of_kind))}" for kind, of_kind in _KINDS.items())
    raise UserError(f"--with {', '.join(scorers)}: these are scorers of different responses, or none ({kinds})")


def _scorer_names(*kinds: type[Scorers]) -> list[str]:
    """Names that --with takes."""
    fields = dict.fromkeys(field for kind in kinds for field in kind.model_fields)
    return [field for field in fields if field != "functions"]


def _section(name: str) -> dict[str, Any]:
    """Section `evaluation` of a recipe, or of a file that holds nothing else."""
    names = ", ".join(_scorer_names(*_KINDS.values()))
    try:
        path = recipe_path(name)
    except UserError as error:
        raise UserError(f"--with {name}: no scorer ({names}), no MODULE:FUNCTION, and no recipe or file") from error
    try:
        data = parse_yaml(path.read_text(encoding="utf-8")).value
    except ValueError as error:
        raise UserError(f"--with {name}: {path} is not YAML: {error}") from error
    if not isinstance(data, dict) or not data.keys() & {"evaluation", "scorers"}:
        raise UserError(f"--with {name}: {path} has neither `evaluation` nor `scorers`")
    if "name" not in data:
        section: dict[str, Any] = data.get("evaluation", data)
        return dict(section)
    evaluation: Evaluation | None = getattr(load_recipe(path), "evaluation", None)
    if evaluation is None:
        raise UserError(f"--with {name}: the recipe evaluates nothing")
    keep = {"scorers", "temperature", "batch_size", "questions"}
    settings = evaluation.model_dump(include=keep, exclude_none=True, exclude_unset=True)
    return {"type": type(evaluation).model_fields["type"].default, **settings}


def _config(settings: dict[str, Any]) -> Evaluation:
    try:
        config: Evaluation = TypeAdapter(AnyEvaluation).validate_python(settings)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"][1:]))  # without the kind
        hint = "; give --judge MODEL@URL" if first["type"] == "missing" and field.endswith(".judge") else ""
        message = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{field}: {message}{hint}" if field else message) from error
    return config


def _prepare(out: Path, source: str, settings: dict[str, Any]) -> str:
    """Make a samples table of the source: of questions if their answers are scored, else of images."""
    if "answers" in settings["scorers"]:
        return run_stage(out, "prepare_questions", prepare_questions.Config(source=source, held_out=1))
    return run_stage(out, "prepare", prepare.Config(source=source, held_out=1))


def _report_matches(sources: dict[str, ModelSource], samples: str, splits: Sequence[str] | None, decoding: str) -> None:
    """Report how many samples each file of responses has one to.

    Raises:
        UserError: a file has none to any of them.
    """
    rows = [row for row in read_rows(samples, columns=["sample_id", "source", "split"])]
    scored = [row for row in rows if splits is None or row["split"] in splits]
    for name, model in sources.items():
        if not model.responses:
            continue
        responses = read_responses(model.responses, model.model, decoding)
        matched = sum(response_to(responses, row["sample_id"], row["source"]) is not None for row in scored)
        if not matched:
            raise UserError(
                f"{name}: none of its responses is to one of the {len(scored)} samples of {samples}: it names "
                f"{next(iter(responses))}, they are {scored[0]['sample_id']} ({file_name(scored[0]['source'])}), …"
            )
        report_line(f"{name}: responses to {matched} of {len(scored)} samples")


def _report_rubrics(rubrics: Collection[str], samples: str, splits: Sequence[str] | None) -> None:
    """Report how many samples have one of the rubrics that are given."""
    rows = read_rows(samples, columns=["sample_id", "split"])
    scored = [row["sample_id"] for row in rows if splits is None or row["split"] in splits]
    report_line(f"rubrics: of {sum(name in rubrics for name in scored)} of {len(scored)} samples")


def _local(place: str, option: str) -> Path:
    """Path of an option's value, fetched from the Hub first if it names a data set there.

    Raises:
        UserError: there is nothing, here or there.
    """
    on_hub = hub_source(place)
    path = hub_folder(on_hub) if on_hub else Path(place)
    if not path.exists():
        raise UserError(f"{option} {place}: there is no such file or folder{hub_reading(place)}")
    return path


def _rubric_table(out: Path, samples: str, place: str) -> Path:
    """Table of rubrics: the one that is named, or one of the set that is."""
    if (Path(place) / MANIFEST).is_file():
        return Path(place)
    write_rubrics(read_rubric_set(place, note=str), Path(samples), out / "rubric_set", place)
    return _finished(out / "rubric_set")


def _exam_table(out: Path, samples: str, place: str) -> Path:
    path = _local(place, "--exams")
    return _official_exams(out, samples, path) if path.suffix == ".json" else path


def _official_exams(out: Path, samples: str, path: Path) -> Path:
    """Table of the exams that a benchmark's file holds for these samples."""
    exams = read_caption_qa(path)
    absent = write_exams(
        exams.by_image, Path(samples), out / "exam_set", f"{path.name} {files_digest([path], path.parent)}"
    )
    if exams.unusable or absent:
        echo(f"{path}: {exams.unusable} questions cannot be used; {absent} samples have none", err=True)
    return _finished(out / "exam_set")


def _with_references(out: Path, samples: str, place: str) -> str:
    """Table of the samples with the references of a file."""
    source, equals, name = place.partition("=")
    path = _local(name if equals else place, "--references")
    references = read_references(path, source if equals else None)
    origin = f"{place} {files_digest([path], path.parent)}"
    if absent := write_referenced(references, Path(samples), out / "referenced", origin):
        echo(f"{path}: {absent} samples have no reference there", err=True)
    return str(_finished(out / "referenced"))


def _finished(table: Path) -> Path:
    """Mark a table as a finished stage's, which a stage can take."""
    manifest = read_manifest(table)
    done = {"stage": table.name, "inputs": {}, "version": "1", "config": "", "digest": manifest.digest}
    write_atomic(table / DONE, canonical_json(done).encode())
    return table


def _reused(name: str, source: ModelSource, earlier: Path) -> ModelSource:
    """The model's responses in an earlier evaluation, if it has those of the same revision; else the model itself."""
    table = earlier / "score" / "responses"
    if not (table / MANIFEST).is_file():
        raise UserError(f"--reuse {earlier}: no finished responses ({table})")
    revisions = {row["revision"] for row in read_rows(table, columns=["model", "revision"]) if row["model"] == name}
    if revisions != {source.revision}:
        return source
    return ModelSource(responses=str(table), model=name, revision=source.revision)
