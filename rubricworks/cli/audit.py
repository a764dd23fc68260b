"""`rubricworks audit`: the credit that a judge gives to responses that do not deserve it."""

import json
from pathlib import Path

import click

from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.data.tables import read_manifest, read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary, parse_audit_row
from rubricworks.evaluation.audit.values import SETTINGS
from rubricworks.llm import Endpoint
from rubricworks.methods.rlr3.stages import audit as audit_stage
from rubricworks.reports.judge_audit import audit_page, audit_text
from rubricworks.reports.judge_audit_cases import worst_cases
from rubricworks.reports.run_folder import SOURCE, is_simulated
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.launch import launch
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo

_SAMPLE_STAGES = ("prepare_questions", "open_questions", "prepare")
"""Stages of a run whose samples hold the images."""
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("source", required=False, metavar="[RUN_OR_TABLE]", type=_FOLDER)
@click.option("--from", "earlier", type=_FOLDER, help="Judge the responses of an earlier audit; generate none.")
@click.option("--judge", required=True, metavar="MODEL@URL", help="The judge to audit.")
@click.option("--setting", "settings", multiple=True, type=click.Choice(SETTINGS), help="Give several; default: all.")
@click.option("--generator", metavar="MODEL@URL", help="A strong model that writes abnormal responses.")
@click.option(
    "--quality-judge", "quality", multiple=True, metavar="MODEL@URL", help="Model that checks them; give two."
)
@click.option("--red-team", metavar="MODEL@URL", help="Model that searches for attacks; default: the paper's three.")
@click.option("--per-category", default=50, show_default=True, type=_COUNT, help="Abnormal responses of each kind.")
@click.option("--regular", type=_COUNT, help="Inputs whose regular responses are judged; default: all.")
@click.option("--search-size", default=32, show_default=True, type=_COUNT, help="Inputs that attacks are tried on.")
@click.option("--samples", type=click.Path(path_type=Path, exists=True), help="Samples table with the images.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the tables and the page.")
def audit(
    source: Path | None,
    earlier: Path | None,
    judge: str,
    settings: tuple[str, ...],
    generator: str | None,
    quality: tuple[str, ...],
    red_team: str | None,
    per_category: int,
    regular: int | None,
    search_size: int,
    samples: Path | None,
    seed: int,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Audit a judge on a run's GenRM data, or on the responses of an earlier audit.

    Prints the rates, and writes OUT/audit.html and OUT/audit/audit.json. Run again, it resumes where it stopped.

    \b
    rubricworks audit runs/ID --judge genrm@http://gpu1:8000/v1 --generator big@http://gpu2:8000/v1 \\
        --quality-judge a@http://gpu2:8000/v1 --quality-judge b@http://gpu3:8000/v1 --out audits/genrm
    rubricworks audit runs/ID --from audits/genrm/audit --judge other@http://gpu1:8000/v1 --out audits/other
    """
    table = find_responses(source, earlier)
    if (out / "audit").resolve() in (table.resolve(), *table.resolve().parents):
        raise UserError(f"{table} would be replaced by its own audit; give another folder with --out")
    inputs = {"audit" if earlier else "genrm_data": str(table)}
    settings = settings or SETTINGS
    if samples := samples or find_samples(source or table.parent):
        inputs["samples"] = str(samples)
    elif "image" in settings:
        raise UserError(
            f"no samples with images in {source or table.parent}: give --samples, or --setting without image"
        )

    def model(text: str, max_tokens: int = 2048) -> Endpoint:
        return parse_endpoint(text, api_key_env, max_tokens=max_tokens)

    generation: dict[str, object] = {}
    if earlier is None:
        if generator is None or len(quality) != 2:
            raise UserError("abnormal responses need --generator, and --quality-judge twice; or take --from an audit")
        generation = {
            "generator": model(generator, 4096),
            "quality_judges": tuple(model(name) for name in quality),
            "red_team": model(red_team, 4096) if red_team else None,
            "per_category": per_category,
            "regular": regular,
            "search_size": search_size,
        }
    elif generator or quality or red_team:
        raise UserError("responses --from an audit are judged as they are: leave generator, judges and red team out")
    config = audit_stage.Config(judge=model(judge), settings=settings, seed=seed, **generation)
    with lock_folder(out.absolute()):
        folder = Path(launch("audit", canonical_json(config), str(out), inputs))
    figures = AuditSummary.model_validate_json((folder / SUMMARY_FILE).read_bytes())
    images = audit_stage.read_images(Path(inputs["samples"])) if "samples" in inputs else {}
    cases = worst_cases(map(parse_audit_row, read_rows(folder)), images)
    simulated = any(is_simulated(Path(place).absolute().parent) for place in inputs.values())
    write_atomic(out / SOURCE, json.dumps({"responses": str(table), "simulated": simulated}).encode())
    page = audit_page(figures, cases, title=f"On the responses of {table}", simulated=simulated)
    write_atomic(out / "audit.html", page.encode())
    echo(audit_text(figures))
    echo(f"\n{out / 'audit.html'}: the page; {folder / 'audit.json'}: all numbers")


def find_responses(source: Path | None, earlier: Path | None) -> Path:
    """Find the table of responses to audit: GenRM data, or an earlier audit.

    Raises:
        UserError: no path is given, or it holds another table, or an unfinished one.
    """
    place = earlier or source
    if place is None:
        raise UserError("name a run's folder or its GenRM data, or an audit with --from")
    stage, words = ("audit", "an audit") if earlier else ("genrm_data", "GenRM data")
    table = place / stage if (place / stage).is_dir() else place
    if not (table / "done.json").is_file():
        raise UserError(f"{place}: no finished table of {words}, nor a folder that holds one; run the stage {stage}")
    kind = read_manifest(table).table
    if kind != stage:
        hint = f"; judge its responses again with --from {place}" if kind == "audit" else ""
        raise UserError(f"{place} is a table of {kind}, not {words}{hint}")
    return table


def find_samples(folder: Path) -> Path | None:
    """Find the finished samples of a run, by its folder or by that of one of its tables."""
    places = [parent / name for parent in (folder, folder.absolute().parent) for name in _SAMPLE_STAGES]
    return next((place for place in places if (place / "done.json").is_file()), None)
