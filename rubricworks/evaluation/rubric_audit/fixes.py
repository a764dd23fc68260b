"""Rewriting of flagged rubrics: the writer is shown the flags, and its rewrite is tried like the rubric before it.

A rewrite is kept if fewer flags are on it than on the rubric that it replaces.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit.cost import AuditCost
from rubricworks.evaluation.rubric_audit.fix_prompts import (
    FIX_PROMPT_VERSION,
    RubricFix,
    apply_fix,
    check_fix,
    fix_messages,
)
from rubricworks.evaluation.rubric_audit.flags import RubricFinding
from rubricworks.evaluation.rubric_audit.run import RubricAudit, audit_rubrics, probe_responses
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Rubric


class Rewrite(BaseModel):
    """A flagged rubric, and the one that the writer made of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    old: Rubric
    before: RubricFinding
    new: Rubric | None = None
    """None if the writer gave no usable answer."""
    after: RubricFinding | None = None
    error: str = ""

    @property
    def kept(self) -> bool:
        """True if fewer flags are on the rewrite than before; one that is untested only now counts as one."""
        if self.after is None:
            return False
        untested = set(self.after.untested) - set(self.before.untested)
        return len(self.after.flags) + len(untested) < len(self.before.flags)


class RubricFixes(BaseModel):
    """Rewrites of the flagged rubrics of a set, and the audit of the set with those that are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    writer: str
    prompt_version: str = FIX_PROMPT_VERSION
    rewrites: tuple[Rewrite, ...]
    audit: RubricAudit
    """With the cost of the judge for the set and its rewrites together."""
    writer_cost: AuditCost | None = None

    @property
    def kept(self) -> dict[str, Rubric]:
        """Sample → the rewrite that is kept."""
        return {rewrite.sample_id: rewrite.new for rewrite in self.rewrites if rewrite.new and rewrite.kept}


async def fix_rubrics(
    entries: Sequence[RubricEntry],
    responses: Mapping[str, Sequence[str]],
    audit: RubricAudit,
    writer: ChatClient,
    grader: Grader,
    *,
    progress: Callable[[int], object] = lambda done: None,
) -> RubricFixes:
    """Have the flagged rubrics rewritten, and audit the set with the rewrites.

    Args:
        entries, responses: as the audit had them.
        grader: as the audit had it; with a cache, only what is new is asked.
        progress: called with the number of gradings done.
    """
    by_sample = {entry.sample_id: entry for entry in entries}
    flagged = [(by_sample[finding.sample_id], finding) for finding in audit.findings if finding.flags]
    rewrites = await asyncio.gather(
        *(_rewrite(entry, finding, probe_responses(entry, responses), writer) for entry, finding in flagged)
    )
    new = {rewrite.sample_id: rewrite.new for rewrite in rewrites if rewrite.new}
    tried = await audit_rubrics(with_rubrics(entries, new), responses, grader, judge=audit.judge, progress=progress)
    after = {finding.sample_id: finding for finding in tried.findings}
    rewrites = [
        rewrite.model_copy(update={"after": after[rewrite.sample_id]}) if rewrite.new else rewrite
        for rewrite in rewrites
    ]
    improved = {rewrite.sample_id for rewrite in rewrites if rewrite.kept}
    # A finding depends on the rubric of its own sample alone, so those of both audits stand together.
    findings = tuple(
        after[finding.sample_id] if finding.sample_id in improved else finding for finding in audit.findings
    )
    fixes = RubricFixes(writer=writer.endpoint.model, rewrites=tuple(rewrites), audit=audit)
    probed = {finding.sample_id for finding in findings}
    criteria = sum(
        len(entry.rubric.criteria) for entry in with_rubrics(entries, fixes.kept) if entry.sample_id in probed
    )
    return fixes.model_copy(update={"audit": tried.model_copy(update={"findings": findings, "criteria": criteria})})


def with_rubrics(entries: Sequence[RubricEntry], rubrics: Mapping[str, Rubric]) -> list[RubricEntry]:
    """Entries with other rubrics, by sample; the rest as they are."""
    return [
        replace(entry, rubric=rubrics[entry.sample_id]) if entry.sample_id in rubrics else entry for entry in entries
    ]


async def _rewrite(entry: RubricEntry, finding: RubricFinding, responses: Sequence[str], writer: ChatClient) -> Rewrite:
    rubric = entry.rubric
    messages = fix_messages(entry, finding, responses)
    try:
        reply = await writer.chat(messages, RubricFix, check=lambda fix: check_fix(rubric, fix))
    except ChatError as error:
        return Rewrite(sample_id=entry.sample_id, old=rubric, before=finding, error=str(error))
    return Rewrite(sample_id=entry.sample_id, old=rubric, before=finding, new=apply_fix(rubric, reply.value))
