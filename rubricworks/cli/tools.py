"""`caption`, `synthesize`, `grade`: the stages' work on its own, without a recipe.

`caption` and `synthesize` start the same stages as a run does, in a folder of their own, so they resume like a run.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from rubricworks.cli.endpoints import api_key_option, endpoint_of
from rubricworks.cli.run import only_run_in
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.rows import iter_rows
from rubricworks.data.tables import Sample, read_rows
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, FailedCall, Grader
from rubricworks.llm import ChatClient
from rubricworks.rewards import weighted_reward
from rubricworks.rubrics import Rubric
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.launch import launch
from rubricworks.runtime.progress import Progress
from rubricworks.stages.data import prepare
from rubricworks.stages.synthesis import caption_committee, caption_student, synthesize_rubrics
from rubricworks.stages.training import warm_up
from rubricworks.storage import write_atomic
from rubricworks.synthesis.prompts import CAPTION_PROMPT

_OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the tables.")
_PROMPT = click.option("--prompt", default=CAPTION_PROMPT, help="What the captioner is asked.", show_default=False)


@click.command()
@click.argument("images")
@click.option("--model", required=True, help="A model directory, or MODEL@URL of an OpenAI-compatible server.")
@click.option("--max-new-tokens", default=1024, show_default=True)
@_PROMPT
@api_key_option
@_OUT
def caption(images: str, model: str, max_new_tokens: int, prompt: str, api_key_env: str | None, out: Path) -> None:
    """Caption IMAGES (a folder, Parquet, dataset or tar) and write OUT/captions.parquet.

    \b
    rubricworks caption photos/ --model runs/ID/train_policy/model --out captions/
    rubricworks caption photos/ --model Qwen2.5-VL-7B@http://localhost:8000/v1 --out captions/
    """
    with only_run_in(out.absolute()):
        samples = _stage(out, "prepare", prepare.Config(source=images, prompt=prompt, held_out=1))
        if "@" in model:
            teacher = endpoint_of(model, api_key_env, max_tokens=max_new_tokens)
            config = caption_committee.Config(teachers=(teacher,))
            captions = _stage(out, "caption_committee", config, samples=samples)
        else:
            captions = _student_captions(out, model, max_new_tokens, samples)
        sources = {row["sample_id"]: row["source"] for row in read_rows(samples, columns=["sample_id", "source"])}
        rows = [
            {"sample_id": row["sample_id"], "source": sources[row["sample_id"]], "caption": row["caption"]}
            for row in read_rows(captions, columns=["sample_id", "caption"])
        ]
    _write(rows, out / "captions.parquet")


@click.command()
@click.argument("images")
@click.option("--committee", required=True, multiple=True, metavar="MODEL@URL", help="A captioner; give several.")
@click.option("--writer", required=True, metavar="MODEL@URL", help="The model that writes the rubrics.")
@click.option("--student", help="Model directory of the captioner to improve; needed for discriminative rubrics.")
@click.option("--coverage", type=click.Choice(["discriminative", "full"]), default="full", show_default=True)
@click.option("--guards/--no-guards", default=True, show_default=True, help="Standing criteria against padding.")
@_PROMPT
@api_key_option
@_OUT
def synthesize(
    images: str,
    committee: tuple[str, ...],
    writer: str,
    student: str | None,
    coverage: str,
    guards: bool,
    prompt: str,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Caption IMAGES by a committee, write a rubric for each, into OUT/rubrics.parquet.

    \b
    rubricworks synthesize photos/ --committee gemma@http://gpu1:8000/v1 --committee qwen@http://gpu2:8000/v1 \\
        --writer qwen@http://gpu2:8000/v1 --out rubrics/
    """
    if coverage == "discriminative" and student is None:
        raise UserError("discriminative rubrics ask what a student gets wrong: give --student, or --coverage full")
    with only_run_in(out.absolute()):
        samples = _stage(out, "prepare", prepare.Config(source=images, prompt=prompt, held_out=1))
        teachers = tuple(endpoint_of(teacher, api_key_env) for teacher in committee)
        inputs = {"samples": samples}
        inputs["captions"] = _stage(out, "caption_committee", caption_committee.Config(teachers=teachers), **inputs)
        if student:
            inputs["student_captions"] = _student_captions(out, student, 1024, samples)
        config = synthesize_rubrics.Config(
            writer=endpoint_of(writer, api_key_env, max_tokens=4096),
            coverage=coverage,  # type: ignore[arg-type]
            guards=guards,
            min_candidates=min(2, len(teachers)),
        )
        rubrics = _stage(out, "synthesize_rubrics", config, **inputs)
        rows = list(read_rows(rubrics, columns=["sample_id", "rubric"]))
    _write(rows, out / "rubrics.parquet")


@click.command()
@click.argument("captions", type=click.Path(path_type=Path, exists=True))
@click.argument("rubrics", type=click.Path(path_type=Path, exists=True))
@click.option("--judge", required=True, multiple=True, metavar="MODEL@URL", help="A judge; several vote.")
@click.option("--combine", type=click.Choice(get_args(Combine)), default="majority", show_default=True)
@click.option("--call-per", type=click.Choice(get_args(CallPer)), default="response", show_default=True)
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("scorecards.parquet"), show_default=True)
def grade(
    captions: Path,
    rubrics: Path,
    judge: tuple[str, ...],
    combine: Combine,
    call_per: CallPer,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Grade CAPTIONS (columns sample_id, caption) by RUBRICS (sample_id, rubric): Parquet files or table folders.

    A caption that could not be judged keeps an empty reward; it never becomes a zero. What the judges answered to it
    stands in OUT.dead_letters.jsonl. Run again, only what is not answered yet is asked.

    \b
    rubricworks grade captions/ rubrics/ --judge Qwen2.5-7B-Instruct@http://localhost:8000/v1
    rubricworks grade captions/ rubrics/ --judge a@http://gpu1:8000/v1 --judge b@http://gpu2:8000/v1 --combine any
    """
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file, such as {out / 'scorecards.parquet'}")
    captions, rubrics = _made_by_a_command(captions, "captions"), _made_by_a_command(rubrics, "rubrics")
    by_sample = {row["sample_id"]: _rubric(row, rubrics) for row in iter_rows(rubrics, ["sample_id", "rubric"])}
    wanted = [row for row in iter_rows(captions, ["sample_id", "caption"]) if row["sample_id"] in by_sample]
    if not wanted:
        raise UserError(f"no sample_id of {captions} stands in {rubrics}")
    failed: list[FailedCall] = []

    async def grade_all() -> list[dict[str, Any]]:
        cache = out.with_suffix(".cache.sqlite")
        async with AsyncExitStack() as stack:
            judges = [ChatClient(endpoint_of(one, api_key_env), cache=cache, purpose="judge") for one in judge]
            for client in judges:
                await stack.enter_async_context(client)
            grader = Grader(judges, call_per=call_per, combine=combine, on_error=failed.append)
            jobs = (
                (Sample(sample_id=row["sample_id"], image=b"", prompt=""), row["caption"], by_sample[row["sample_id"]])
                for row in wanted
            )
            total = sum(len(by_sample[row["sample_id"]].criteria) for row in wanted)
            progress = Progress("grade", total, "verdicts", clients=judges)
            rows: list[dict[str, Any]] = []
            async for card in grader.grade_many(jobs):
                rows.append(
                    {
                        "sample_id": card.sample_id,
                        "caption": card.response,
                        "reward": weighted_reward(card.credits, by_sample[card.sample_id].weights),
                        "scorecard": card.model_dump_json(),
                    }
                )
                progress.at(progress.done + len(card.verdicts))
            return rows

    rows = asyncio.run(grade_all())
    _write(rows, out)
    _write_dead_letters(failed, out.with_suffix(".dead_letters.jsonl"))
    judged = [row["reward"] for row in rows if row["reward"] is not None]
    if not judged:
        raise UserError(f"nothing could be judged: {failed[0].error}")
    click.echo(f"mean reward {sum(judged) / len(judged):.3f}; {len(judged)} judged, {len(rows) - len(judged)} not")


def _made_by_a_command(folder: Path, table: str) -> Path:
    """What `caption` and `synthesize` leave in their `--out`, or the table or file itself."""
    file = folder / f"{table}.parquet"
    return file if file.is_file() and not (folder / MANIFEST).is_file() else folder


def _write_dead_letters(failed: list[FailedCall], path: Path) -> None:
    """One line for each criterion that a failed call was to decide; no file when there is none."""
    lines = [
        {
            "sample_id": call.sample_id,
            "response": call.response,
            "judge": call.judge,
            "criterion": criterion,
            "reason": call.error.error_class.value,
            "message": call.error.message,
            "raw": call.error.raw,
            "request": call.error.request,
            "attempts": call.error.attempts,
        }
        for call in failed
        for criterion in call.criteria
    ]
    path.unlink(missing_ok=True)
    if lines:
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        click.echo(f"{path}: {len(lines)} dead letters")


def _stage(out: Path, stage: str, config: BaseModel, **inputs: str) -> str:
    return launch(stage, canonical_json(config), str(out), inputs)


def _student_captions(out: Path, student: str, max_new_tokens: int, samples: str) -> str:
    model = _stage(out, "warm_up", warm_up.Config(student=student), samples=samples)
    config = caption_student.Config(max_new_tokens=max_new_tokens)
    return _stage(out, "caption_student", config, samples=samples, model=model)


def _rubric(row: dict[str, Any], path: Path) -> Rubric:
    try:
        return Rubric.model_validate_json(row["rubric"])
    except ValidationError as error:
        problem = json.loads(error.json())[0]
        where = ".".join(map(str, problem["loc"]))
        raise UserError(f"{path}: rubric of {row['sample_id']}: {where}: {problem['msg']}") from error


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    content = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    write_atomic(path, content.getvalue())
    click.echo(f"{path}: {len(rows)} rows")
