"""`rubricworks grade`: captions graded by rubrics, without a recipe."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import click
import pyarrow as pa
from pydantic import ValidationError

from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.cli.single_steps.row_file import check_row_file, write_rows
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.rows import iter_rows
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, FailedCall, Grader
from rubricworks.llm import ChatClient, ChatError, telemetry
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.progress import Progress
from rubricworks.storage import write_atomic

_ROWS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("caption", pa.string()),
        ("reward", pa.float64()),
        ("scorecard", pa.string()),
        ("reason", pa.string()),
    ]
)


@click.command()
@click.argument("captions", type=click.Path(path_type=Path))
@click.argument("rubrics", type=click.Path(path_type=Path))
@click.option("--judge", required=True, multiple=True, metavar="MODEL@URL", help="A judge; several vote.")
@click.option("--combine", type=click.Choice(get_args(Combine)), default="majority", show_default=True)
@click.option("--call-per", type=click.Choice(get_args(CallPer)), default="response", show_default=True)
@click.option(
    "--max-tokens",
    default=1024,
    show_default=True,
    type=click.IntRange(min=1),
    help="Longest answer of a judge; long rubrics and judges that think need more. Another value asks all anew.",
)
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("scorecards.parquet"), show_default=True)
def grade(
    captions: Path,
    rubrics: Path,
    judge: tuple[str, ...],
    combine: Combine,
    call_per: CallPer,
    max_tokens: int,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Grade CAPTIONS (columns sample_id, caption) by RUBRICS (sample_id, rubric).

    Each is a Parquet file, JSON lines, a table's folder, or a data set of the Hub with its commit: org/name@COMMIT.

    OUT is Parquet or, if it ends so, CSV. A caption that could not be judged, or has no rubric, keeps an empty reward
    with the reason beside it; it never becomes a zero. What the judges answered to it stands in OUT.dead_letters.jsonl.
    Run again, only what is not answered yet is asked.

    \b
    rubricworks grade captions/ rubrics/ --judge Qwen2.5-7B-Instruct@http://localhost:8000/v1
    rubricworks grade captions/ rubrics/ --judge a@http://gpu1:8000/v1 --judge b@http://gpu2:8000/v1 --combine any
    """
    check_row_file(out)
    endpoints = [parse_endpoint(one, api_key_env, max_tokens=max_tokens) for one in judge]
    captions, rubrics = _command_output(captions, "captions"), _command_output(rubrics, "rubrics")
    by_sample = {row["sample_id"]: _parse_rubric(row, rubrics) for row in iter_rows(rubrics, ["sample_id", "rubric"])}
    captioned = list(iter_rows(captions, ["sample_id", "caption"]))
    gradable = [row for row in captioned if row["sample_id"] in by_sample]
    if not gradable:
        raise UserError(f"no sample_id of {captions} stands in {rubrics}")
    failed: list[FailedCall] = []

    def stop_if_refused(error: ChatError, client: ChatClient) -> None:
        if refused := client.access_refused(error):
            raise UserError(refused.replace("api_key_env", "--api-key-env"))

    telemetry.start_from_environment()

    async def grade_all() -> list[Scorecard]:
        cache = out.with_suffix(".cache.sqlite")
        async with AsyncExitStack() as stack:
            judges = [ChatClient(one, cache=cache, purpose="judge", on_failure=stop_if_refused) for one in endpoints]
            for client in judges:
                await stack.enter_async_context(client)
            grader = Grader(judges, call_per=call_per, combine=combine, on_error=failed.append)
            jobs = (
                (Sample(sample_id=row["sample_id"], image=b"", prompt=""), row["caption"], by_sample[row["sample_id"]])
                for row in gradable
            )
            total = sum(len(by_sample[row["sample_id"]].criteria) for row in gradable)
            progress = Progress("grade", total, "verdicts", clients=judges)
            cards: list[Scorecard] = []
            # One by one until every judge has answered something: a wrong key is found by one question.
            while any(client.totals.calls == client.totals.cached for client in judges) and (job := next(jobs, None)):
                cards.append(await grader.grade(*job))
                progress.at(progress.done + len(cards[-1].verdicts))
            async for card in grader.grade_many(jobs):
                cards.append(card)
                progress.at(progress.done + len(card.verdicts))
            return cards

    cards = iter(asyncio.run(grade_all()))
    rows = [
        _graded_row(next(cards), by_sample[row["sample_id"]]) if row["sample_id"] in by_sample else _ungraded_row(row)
        for row in captioned
    ]
    write_rows(rows, out, _ROWS)
    _write_dead_letters(failed, out.with_suffix(".dead_letters.jsonl"))
    judged = [row["reward"] for row in rows if row["reward"] is not None]
    if not judged:
        raise UserError(f"nothing could be judged: {failed[0].error}")
    without = f", {len(captioned) - len(gradable)} without a rubric" if len(captioned) > len(gradable) else ""
    click.echo(
        f"mean reward {sum(judged) / len(judged):.3f}; {len(judged)} judged, {len(gradable) - len(judged)} not{without}"
    )


def _graded_row(card: Scorecard, rubric: Rubric) -> dict[str, Any]:
    errors = [f"{verdict.error.value}: {verdict.reasoning}" for verdict in card.verdicts if verdict.error is not None]
    return {
        "sample_id": card.sample_id,
        "caption": card.response.key,
        "reward": signed_reward(card.credits, rubric.weights),
        "scorecard": card.model_dump_json(),
        "reason": errors[0] if errors else None,
    }


def _ungraded_row(row: dict[str, Any]) -> dict[str, Any]:
    empty = dict.fromkeys(_ROWS.names)
    return {**empty, **row, "reason": "no rubric for this sample"}


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
