"""`rubricworks rubrics audit`: rubrics probed by a judge before they train."""

import asyncio
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Literal

import click

from rubricworks.cli.options import (
    api_key_option,
    chosen_subject,
    parse_endpoint,
    parse_prices,
    prices_option,
    report_line,
    subject_option,
)
from rubricworks.data.response_rows import iter_responses
from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set, write_rubric_set
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import (
    MAX_CALLS,
    AuditCost,
    RubricAudit,
    RubricFixes,
    audit_rubrics,
    fix_rubrics,
    with_rubrics,
)
from rubricworks.grading import Grader, Subject
from rubricworks.llm import ChatClient, ChatError
from rubricworks.llm.identity import IDENTITY_FILE, read_identity
from rubricworks.reports.formats import counted
from rubricworks.reports.rubric_audit import (
    AUDIT_FILE,
    AUDIT_PAGE,
    FIXED_SET,
    FIXES_FILE,
    audit_page,
    audit_text,
    fixes_lines,
    refusal_text,
)
from rubricworks.runtime.progress import Progress
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("source", metavar="RUBRICS")
@click.option("--judge", required=True, metavar="MODEL@URL", help="The judge that will grade by the rubrics.")
@click.option(
    "--responses",
    metavar="RESPONSES",
    help=".parquet, .jsonl, a stage's table or a data set of the Hub: sample_id and response (or caption, text), the "
    "best of a sample first.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Audit the first rubrics only.")
@click.option(
    "--refuse",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with code 1 if more than this share of the rubrics is flagged or might be, or half is not audited.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=2),
    metavar="N",
    help="Ask about the first responses N times, for the share of verdicts that flip.",
)
@click.option("--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Of the judge.")
@click.option("--revision", default="", help="Judge model revision, as set in the recipe.")
@prices_option
@click.option(
    "--on-change",
    type=click.Choice(["warn", "refuse"]),
    default="warn",
    show_default=True,
    help="Action if the judge's model differs from that of the first answer in OUT.",
)
@subject_option
@click.option("--fix", metavar="MODEL@URL", help="A writer that rewrites the flagged rubrics, into OUT/fixed.jsonl.")
@api_key_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("rubric-audit"), show_default=True)
def audit(
    source: str,
    judge: str,
    responses: str | None,
    limit: int | None,
    refuse: float | None,
    repeats: int | None,
    temperature: float,
    revision: str,
    prices: str | None,
    on_change: Literal["warn", "refuse"],
    subject: Subject | None,
    fix: str | None,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Probe RUBRICS with responses that deserve less, and flag what can be gamed or is faulty.

    Each rubric is tried on its sample's responses (or reference answers), and on changed ones: halved, padded,
    shuffled, empty, another sample's, with everything thrown in, and a text that only claims to meet the criteria.
    Prints the figures, and writes OUT/audit.json and OUT/audit.html with the worst rubrics. With --fix, a writer
    rewrites the flagged ones and they are tried again: the page and OUT/fixes.json show old and new, OUT/fixed.jsonl
    is the whole set with the rewrites that have fewer flags; RUBRICS is not changed. Run it again to call only for
    missing answers.

    \b
    rubricworks rubrics audit rubrics.parquet --responses captions/ --judge Qwen2.5-7B-Instruct@http://localhost:8000/v1
    rubricworks rubrics audit rubrics.parquet --responses captions/ --judge j@http://gpu:8000/v1 --fix w@http://gpu:8001/v1
    """
    settings: dict[str, object] = {"temperature": temperature, "revision": revision, "on_change": on_change}
    settings |= {"prices": parse_prices(prices)} if prices else {}
    endpoint = parse_endpoint(judge, api_key_env).model_copy(update=settings)
    writer = parse_endpoint(fix, api_key_env, max_tokens=4096) if fix else None
    entries: list[RubricEntry] = []
    for entry in read_rubric_set(source, note=lambda _: None):
        entries.append(entry)
        if len(entries) == limit:
            break
    if writer and Path(source).resolve() == (out / FIXED_SET).resolve():
        raise UserError(f"{source} would be overwritten by its own rewrites; give another --out")
    texts = _responses(responses) if responses else {}

    def stop_if_refused(error: ChatError, client: ChatClient) -> None:
        if refused := client.access_refused(error):
            raise UserError(refused.replace("api_key_env", "--api-key-env"))

    def write_audit(audit: RubricAudit, fixes: RubricFixes | None = None) -> None:
        write_atomic(out / AUDIT_FILE, audit.model_dump_json(indent=2).encode() + b"\n")
        page = audit_page(audit, {entry.sample_id: entry for entry in entries}, title=source, fixes=fixes)
        write_atomic(out / AUDIT_PAGE, page.encode())

    def with_record(audit: RubricAudit, client: ChatClient, start: float) -> RubricAudit:
        """The audit with its judge's cost so far, and the models that answered: of the cache's answers too."""
        entry = read_identity(out / IDENTITY_FILE, endpoint)
        identities = () if entry is None else (entry,)
        cost = AuditCost.of(client, time.monotonic() - start)
        return audit.model_copy(update={"identities": identities, "cost": cost})

    async def run() -> tuple[RubricAudit, RubricFixes | None]:
        async with AsyncExitStack() as stack:
            client = partial(ChatClient, cache=out / "answers.sqlite", on_failure=stop_if_refused)
            kind = chosen_subject(subject, entries)
            grader = Grader(judging := client(endpoint, purpose="judge"), subject=kind)
            await stack.enter_async_context(judging)
            progress = Progress("audit", MAX_CALLS * len(entries), "calls", clients=[judging])
            repeated = Grader(judging, subject=kind, confidence="repeats", repeats=repeats) if repeats else None
            start = time.monotonic()
            audited = await audit_rubrics(
                entries, texts, grader, repeated=repeated, judge=endpoint.model, progress=progress.at
            )
            if audited.unjudged == audited.calls:
                raise UserError(
                    f"{endpoint.label}: no probe could be judged; check the endpoint with rubricworks grade"
                )
            audited = with_record(audited, judging, start)
            write_audit(audited)  # before the writer is asked, whose refusal must not lose it
            if writer is None or not audited.worst:
                return audited, None
            writing = client(writer, purpose="writer")
            await stack.enter_async_context(writing)
            progress = Progress("fix", MAX_CALLS * len(entries), "calls", clients=[judging, writing])
            asked = time.monotonic()
            fixes = await fix_rubrics(entries, texts, audited, writing, grader, progress=progress.at)
            costs = {
                "audit": with_record(fixes.audit, judging, start),
                "writer_cost": AuditCost.of(writing, time.monotonic() - asked),
            }
            return audited, fixes.model_copy(update=costs)

    out.mkdir(parents=True, exist_ok=True)
    try:
        audited, fixes = asyncio.run(run())
    except UserError as error:
        raise UserError(str(error).replace("set on_change to warn", "give --on-change warn")) from None
    echo(audit_text(audited))
    if fixes:
        write_audit(audited, fixes)
        write_atomic(out / FIXES_FILE, fixes.model_dump_json(indent=2).encode() + b"\n")
        write_rubric_set(with_rubrics(entries, fixes.kept), out / FIXED_SET, "rubricworks", note=lambda _: None)
        echo("\n" + "\n".join(fixes_lines(fixes)))
        echo(f"{out / FIXED_SET}: the set with these rewrites; {out / FIXES_FILE}: old and new")
    echo(f"\n{out / AUDIT_PAGE}: the page; {out / AUDIT_FILE}: every finding")
    last = fixes.audit if fixes else audited
    if refuse is not None and (refusal := refusal_text(last, refuse)):
        echo(f"refused: {refusal}", err=True)
        click.get_current_context().exit(1)


def _responses(place: str) -> dict[str, list[str]]:
    """Responses of each sample, in the file's order, each once; rows without one are skipped, and counted in a note."""
    texts: dict[str, list[str]] = defaultdict(list)
    count = empty = 0
    for row in iter_responses(place):
        count += 1
        if not row.text:
            empty += 1
        elif row.text not in texts[row.sample_id]:
            texts[row.sample_id].append(row.text)
    if empty:
        report_line(
            f"{place}: {empty} of {counted(count, 'row')} {'has' if empty == 1 else 'have'} no response; skipped"
        )
    return texts
