"""Gate on written rubrics: an audit of some of them before a policy is trained on them (`rubric.audit`).

The judges that will grade try each rubric on responses of its sample and on changed ones (`evaluation.rubric_audit`):
the committee's captions in RubiCap, the base model's rollouts in RLR³, the generator's images in RubricRL. The figures
and the page with the worst rubrics stand in the folder of the stage that has those responses.
"""

import asyncio
import random
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import MAX_CALLS, RubricAudit, audit_by_images, audit_rubrics
from rubricworks.grading import CallPer, Combine, Grader, Subject
from rubricworks.llm import Endpoint
from rubricworks.reports.rubric_audit import AUDIT_FILE, AUDIT_PAGE, audit_page, audit_text, refusal_text
from rubricworks.rubrics import Rubric
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic
from rubricworks.terminal import say

Action = Literal["warn", "refuse"]


class AuditGate(BaseModel):
    """Settings of the gate; a single word sets the action."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    action: Action
    """Consequence of too many flagged rubrics: a warning, or the end of the run before any training."""
    flagged: float = Field(default=0.2, ge=0, le=1)
    """Share of flagged rubrics that is accepted; one that was not wholly tested counts as flagged."""
    sample: int = Field(default=100, ge=2)
    """Rubrics to audit, drawn by the seed from those of the training samples; each takes up to eighteen calls."""
    judges: tuple[Endpoint, ...] = ()
    """Judges of the audit; by default the policy's, with its `combine` and `call_per`."""
    combine: Combine = "majority"
    """Decision of several judges."""
    call_per: CallPer = "response"
    """One judge call per response, or one per criterion."""


def _from_word(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


AuditOption = Annotated[AuditGate, BeforeValidator(_from_word, json_schema_input_type=Action | AuditGate)]


def audit_written_rubrics(gate: AuditGate, job: Job, *, seed: int) -> RubricAudit | None:
    """Audit rubrics of the job's finished table by the committee's captions; None if none can be tried.

    Raises:
        UserError: the gate refuses, or has nothing to try, or it names no judge.
    """
    entries = drawn_entries(gate, job.inputs["samples"], job.out, seed=seed)
    return audit_before_training(
        gate,
        job,
        entries,
        _captions(job, entries),
        option="rubric.audit",
        remedy="mend them by rubric.writer, coverage or guards",
    )


def audit_before_training(
    gate: AuditGate,
    job: Job,
    entries: Sequence[RubricEntry],
    responses: Mapping[str, Sequence[Any]],
    *,
    option: str,
    remedy: str,
    grader: Grader | None = None,
    subject: Subject = "caption",
) -> RubricAudit | None:
    """Audit rubrics into the job's folder, and warn or refuse; None if none can be tried.

    Args:
        responses: of each sample, the best first; texts, or PNG of images.
        grader: with the gate's judges as the training grades; by default one of texts by the gate's settings.
        option, remedy: place of the gate in a recipe, and advice about what is flagged, for messages.
        subject: kind of the responses.
    Raises:
        UserError: the gate refuses, or has nothing to try, or it names no judge.
    """
    if not gate.judges:
        raise UserError(f"{option}: no judge is named to try the rubrics with; name it in {option}.judges")
    if not any(responses.get(entry.sample_id) or entry.reference for entry in entries):
        message = f"{option}: none of {len(entries)} training samples with a rubric has a response to try it on"
        if gate.action == "refuse":
            raise UserError(
                f"{message}; rubrics that were not tried do not pass. See in {_place(job)} why they have none, or "
                f"set {option} to warn"
            )
        warnings.warn(message, stacklevel=2)
        return None
    grader = grader or Grader(
        [job.client(judge, "audit") for judge in gate.judges],
        call_per=gate.call_per,
        combine=gate.combine,
        subject=subject,
    )
    audit_by = (
        audit_by_images
        if any(isinstance(response[0], bytes) for response in responses.values() if response)
        else audit_rubrics
    )
    progress = job.progress(MAX_CALLS * len(entries), "calls")

    async def run() -> RubricAudit:
        async with AsyncExitStack() as stack:
            for client in grader.judges:
                await stack.enter_async_context(client)
            judge = " + ".join(judge.model for judge in gate.judges)
            return await audit_by(entries, responses, grader, judge=judge, progress=progress.at)

    audit = asyncio.run(run())
    write_atomic(job.out / AUDIT_FILE, audit.model_dump_json(indent=2).encode() + b"\n")
    page = audit_page(audit, {entry.sample_id: entry for entry in entries}, title=f"Rubrics of {job.run.name}")
    write_atomic(job.out / AUDIT_PAGE, page.encode())
    say(audit_text(audit))
    job.figures["audit"] = {
        "rubrics": len(audit.findings),
        "flagged": audit.flagged.value,
        **({"unaudited": audit.unaudited} if audit.unaudited else {}),
        **({"undecided": audit.undecided} if audit.undecided else {}),
        **({"unread": audit.unread} if audit.unread else {}),
        "gap": audit.gap and audit.gap.value,
        **{f"flagged_{name.replace(' ', '_')}": count for name, count in audit.by_flag.items()},
    }
    if refusal := refusal_text(audit, gate.flagged):
        message = f"{option}: {refusal}; the page: {_place(job)}/{job.out.name}/{AUDIT_PAGE}"
        if gate.action == "refuse":
            raise UserError(f"{message}; {remedy}, or set {option} to warn")
        warnings.warn(message, stacklevel=2)
    return audit


def _place(job: Job) -> str:
    """The run's folder or URI, as its user named it."""
    return job.work.run.rstrip("/") if job.work else str(job.run)


def drawn_entries(
    gate: AuditGate, samples: Path, rubrics: Path, *, seed: int, subject: Subject = "caption"
) -> list[RubricEntry]:
    """Rubrics of training samples, drawn by the seed, in the order of the table; those of answers with the question."""
    asked = ["question", "prompt", "answer"] if subject == "answer" else []
    rows = read_rows(samples, columns=["sample_id", "split", *asked])
    train = {row["sample_id"]: row for row in rows if row["split"] == "train"}
    written = [row for row in read_rows(rubrics, columns=["sample_id", "rubric"]) if row["sample_id"] in train]
    drawn = sorted(random.Random(seed).sample(range(len(written)), min(gate.sample, len(written))))
    entries = []
    for row in (written[at] for at in drawn):
        sample, rubric = train[row["sample_id"]], Rubric.model_validate_json(row["rubric"])
        prompt = sample.get("question") or sample.get("prompt") or ""
        entries.append(RubricEntry(row["sample_id"], rubric, prompt, sample.get("answer") or ""))
    return entries


def _captions(job: Job, entries: Sequence[RubricEntry]) -> dict[str, list[str]]:
    """Captions of each sample, first of the teacher that most of its rubric's weight names as right."""
    rubrics = {entry.sample_id: entry.rubric for entry in entries}
    captions: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for row in read_rows(job.inputs["captions"], columns=["sample_id", "captioner", "caption"]):
        if row["caption"] and (rubric := rubrics.get(row["sample_id"])):
            right = sum(
                criterion.weight for criterion in rubric.criteria if row["captioner"] in criterion.reference_teachers
            )
            captions[row["sample_id"]].append((-right, row["caption"]))
    # The sort is stable: captions of equal support stay in the committee's order.
    return {
        name: list(dict.fromkeys(text for _, text in sorted(several, key=lambda pair: pair[0])))
        for name, several in captions.items()
    }
