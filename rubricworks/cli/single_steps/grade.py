"""`rubricworks grade`: captions or answers graded by rubrics, without a recipe."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import click
import pyarrow as pa

from rubricworks.cli.options import api_key_option, chosen_subject, parse_endpoint, report_line, subject_option
from rubricworks.cli.single_steps.row_file import check_row_file, write_rows
from rubricworks.data.response_rows import iter_responses
from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set
from rubricworks.data.source_entries import file_name
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, FailedCall, Grader, Subject
from rubricworks.llm import ChatClient, ChatError, telemetry
from rubricworks.reports.graded import Graded, graded_page, graded_text, verdict_rows
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.progress import Progress
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("responses", type=click.Path(path_type=Path))
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
@subject_option
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("scorecards.parquet"), show_default=True)
def grade(
    responses: Path,
    rubrics: Path,
    judge: tuple[str, ...],
    combine: Combine,
    call_per: CallPer,
    max_tokens: int,
    subject: Subject | None,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Grade RESPONSES by RUBRICS, in any format of rubric sets.

    RESPONSES have the columns sample_id (or prompt_id) and response (or caption, or text). Each is a Parquet file,
    JSON lines, a table's folder, or a data set of the Hub with its commit: org/name@COMMIT; RUBRICS is any file that
    `rubricworks rubrics import` reads.

    OUT is Parquet or, if it ends so, CSV. Beside it are OUT.criteria.csv, a row for each criterion of each response,
    and OUT.html, a page with the criteria and the responses. A response that could not be judged, or has no rubric,
    keeps an empty reward with the reason beside it; it never becomes a zero. What the judges answered to it is in
    OUT.dead_letters.jsonl. Run it again to call only for missing answers.

    \b
    rubricworks grade captions/ rubrics/ --judge Qwen2.5-7B-Instruct@http://localhost:8000/v1
    rubricworks grade captions/ rubrics/ --judge a@http://gpu1:8000/v1 --judge b@http://gpu2:8000/v1 --combine any
    """
    check_row_file(out)
    endpoints = [parse_endpoint(text, api_key_env, max_tokens=max_tokens) for text in judge]
    by_sample = {entry.sample_id: entry for entry in read_rubric_set(rubrics, note=report_line)}
    given = list(iter_responses(responses))
    gradable = [
        (by_sample[row.sample_id], row.text) for row in given if row.sample_id in by_sample and row.text is not None
    ]
    if not gradable:
        names = (
            f": {given[0].sample_id} is the first there, {next(iter(by_sample))} here" if given and by_sample else ""
        )
        raise UserError(f"no sample_id of {responses} is in {rubrics} with a text to grade{names}")
    report_line(f"matched {len(gradable)} of {len(given)} responses with a rubric")
    failed: list[FailedCall] = []

    def stop_if_refused(error: ChatError, client: ChatClient) -> None:
        if refused := client.access_refused(error):
            raise UserError(refused.replace("api_key_env", "--api-key-env"))

    telemetry.start_from_environment()

    async def grade_all() -> list[Scorecard]:
        cache = out.with_suffix(".cache.sqlite")
        async with AsyncExitStack() as stack:
            judges = [
                ChatClient(endpoint, cache=cache, purpose="judge", on_failure=stop_if_refused) for endpoint in endpoints
            ]
            for client in judges:
                await stack.enter_async_context(client)
            kind = chosen_subject(subject, by_sample.values())
            grader = Grader(judges, subject=kind, call_per=call_per, combine=combine, on_error=failed.append)
            jobs = ((entry.to_sample(), text, entry.rubric) for entry, text in gradable)
            total = sum(len(entry.rubric.criteria) for entry, _ in gradable)
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
    rows, graded = [], []
    for row in given:
        entry = by_sample.get(row.sample_id)
        columns = _no_grade(entry)
        if entry and row.text is not None:
            card = next(cards)
            columns = _grade_columns(card, entry.rubric)
            graded.append(Graded(row.sample_id, file_name(row.source), row.text, entry.rubric, card, columns["reward"]))
        rows.append({"sample_id": row.sample_id, "source": row.source or None, given[0].column: row.text, **columns})
    write_rows(rows, out, _schema(given[0].column))
    _write_dead_letters(failed, out.with_suffix(".dead_letters.jsonl"))
    if all(response.reward is None for response in graded):
        raise UserError(f"nothing could be judged: {failed[0].error}")
    write_rows(list(verdict_rows(graded)), out.with_suffix(".criteria.csv"))
    judges, ungraded, page = " + ".join(judge), len(given) - len(gradable), out.with_suffix(".html")
    write_atomic(page, graded_page(graded, title=out.stem, judges=judges, ungraded=ungraded).encode())
    echo(f"{page}: criteria and responses")
    without = f", {ungraded} without a rubric or text" if ungraded else ""
    echo(f"{graded_text(graded)}{without}")


def _schema(text_column: str) -> pa.Schema:
    """Columns of OUT; the text keeps the name of its column."""
    return pa.schema(
        [
            ("sample_id", pa.string()),
            ("source", pa.string()),
            (text_column, pa.string()),
            ("reward", pa.float64()),
            ("scorecard", pa.string()),
            ("reason", pa.string()),
        ]
    )


def _grade_columns(card: Scorecard, rubric: Rubric) -> dict[str, Any]:
    errors = [f"{verdict.error.value}: {verdict.reasoning}" for verdict in card.verdicts if verdict.error is not None]
    return {
        "reward": signed_reward(card.credits, rubric.weights),
        "scorecard": card.model_dump_json(),
        "reason": errors[0] if errors else None,
    }


def _no_grade(entry: RubricEntry | None) -> dict[str, Any]:
    return {"reward": None, "scorecard": None, "reason": "no text" if entry else "no rubric for this sample"}


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
        echo(f"{path}: {len(lines)} dead letters")
