"""`rubricworks grade`: captions graded by rubrics, without a recipe."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from rubricworks.cli.caption import write_parquet
from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.rows import iter_rows
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, FailedCall, Grader
from rubricworks.llm import ChatClient
from rubricworks.rewards import weighted_reward
from rubricworks.rubrics import Rubric
from rubricworks.runtime.progress import Progress
from rubricworks.storage import write_atomic


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
    endpoints = [parse_endpoint(one, api_key_env) for one in judge]
    captions, rubrics = _command_output(captions, "captions"), _command_output(rubrics, "rubrics")
    by_sample = {row["sample_id"]: _parse_rubric(row, rubrics) for row in iter_rows(rubrics, ["sample_id", "rubric"])}
    gradable = [row for row in iter_rows(captions, ["sample_id", "caption"]) if row["sample_id"] in by_sample]
    if not gradable:
        raise UserError(f"no sample_id of {captions} stands in {rubrics}")
    failed: list[FailedCall] = []

    async def grade_all() -> list[dict[str, Any]]:
        cache = out.with_suffix(".cache.sqlite")
        async with AsyncExitStack() as stack:
            judges = [ChatClient(one, cache=cache, purpose="judge") for one in endpoints]
            for client in judges:
                await stack.enter_async_context(client)
            grader = Grader(judges, call_per=call_per, combine=combine, on_error=failed.append)
            jobs = (
                (Sample(sample_id=row["sample_id"], image=b"", prompt=""), row["caption"], by_sample[row["sample_id"]])
                for row in gradable
            )
            total = sum(len(by_sample[row["sample_id"]].criteria) for row in gradable)
            progress = Progress("grade", total, "verdicts", clients=judges)
            rows: list[dict[str, Any]] = []
            async for card in grader.grade_many(jobs):
                rows.append(
                    {
                        "sample_id": card.sample_id,
                        "caption": card.response.key,
                        "reward": weighted_reward(card.credits, by_sample[card.sample_id].weights),
                        "scorecard": card.model_dump_json(),
                    }
                )
                progress.at(progress.done + len(card.verdicts))
            return rows

    rows = asyncio.run(grade_all())
    write_parquet(rows, out)
    _write_dead_letters(failed, out.with_suffix(".dead_letters.jsonl"))
    judged = [row["reward"] for row in rows if row["reward"] is not None]
    if not judged:
        raise UserError(f"nothing could be judged: {failed[0].error}")
    click.echo(f"mean reward {sum(judged) / len(judged):.3f}; {len(judged)} judged, {len(rows) - len(judged)} not")


def _command_output(folder: Path, table: str) -> Path:
    """The file that `caption` or `synthesize` wrote into a folder; the path itself if it is a table or a file."""
    file = folder / f"{table}.parquet"
    return file if file.is_file() and not (folder / MANIFEST).is_file() else folder


def _write_dead_letters(failed: list[FailedCall], path: Path) -> None:
    """One line for each criterion that a failed call was to decide; no file when there is none."""
    lines = [
        {
            "sample_id": call.sample_id,
            "response": call.response.key,
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


def _parse_rubric(row: dict[str, Any], path: Path) -> Rubric:
    try:
        return Rubric.model_validate_json(row["rubric"])
    except ValidationError as error:
        problem = json.loads(error.json())[0]
        where = ".".join(map(str, problem["loc"]))
        raise UserError(f"{path}: rubric of {row['sample_id']}: {where}: {problem['msg']}") from error
