"""What a run's page tells of its judge and its rubrics: the audit before training, and `rubricworks agreement`.

The template is `judge_trust.html`. Figures of agreement are those of the file that corrected the rewards, or else of
the one that the recipe names for its report (`report.agreement`).
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from rubricworks.evaluation.rubric_audit import ADVICE, RubricAudit
from rubricworks.grading.agreement.report import AgreementReport, JudgeIdentity
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.policy.rewards.measured_rates import (
    AGREEMENT_FILE,
    OtherJudge,
    agreement_content,
    measured_identity,
    parse_agreement,
    stated_rates,
)
from rubricworks.reports.agreement import errors_text, identity_text, probe_lines
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import read_value
from rubricworks.rewards import NoiseRates
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic

REPORT_FIELD = "report.agreement"


class ReportConfig(StageConfig):
    """Base of the configuration of a run's report."""

    agreement: str | None = Field(default=None, min_length=1)
    """File that `rubricworks agreement --json` wrote of this run's judge, for the page: a path, `s3://bucket/file`, or
    `org/name@COMMIT/file` of a data set of the Hub. By default the one of `policy.reward.noise_correction`, if that names
    one."""

    @cached_property
    def agreement_bytes(self) -> bytes | None:
        """The file, fetched once; None if none is named.

        Raises:
            UserError: there is no such file.
            TransientError: the store or the Hub does not answer.
        """
        return agreement_content(self.agreement, REPORT_FIELD) if self.agreement else None

    def versions(self) -> dict[str, str]:
        """Digest of the file: a report of another one is written anew."""
        content = self.agreement_bytes
        return {} if content is None else {"agreement": hashlib.sha256(content).hexdigest()}


def keep_agreement(config: ReportConfig, job: Job) -> None:
    """Copy the file that the report's configuration names beside the report, where the page reads it.

    Raises:
        UserError: there is no such file, or it is something else.
    """
    if config.agreement and (content := config.agreement_bytes) is not None:
        parse_agreement(content, config.agreement, REPORT_FIELD)
        job.out.mkdir(parents=True, exist_ok=True)
        write_atomic(job.out / AGREEMENT_FILE, content)


def read_audit(run: Path, stage: str) -> RubricAudit | None:
    """Audit of a run's rubrics before training, from the folder of the stage that made it; None without one."""
    return read_value(run / stage / AUDIT_FILE, RubricAudit)


def audit_details(audit: RubricAudit | None) -> dict[str, JsonValue]:
    """The audit's figures for a run's summary; empty without an audit."""
    if audit is None:
        return {}
    figures: dict[str, JsonValue] = {
        "rubrics": len(audit.findings),
        "flagged": audit.flagged.value,
        **({"unaudited": audit.unaudited} if audit.unaudited else {}),
        **({"undecided": audit.undecided} if audit.undecided else {}),
        **({"unread": audit.unread} if audit.unread else {}),
        "gap": audit.gap.value if audit.gap else None,
        "flags": dict(audit.by_flag),
    }
    return {"rubric_audit": figures}


def judge_trust_values(
    run: Path, recipe: dict[str, Any], audit: RubricAudit | None, *, audited_in: str, stages: Sequence[str]
) -> dict[str, Any]:
    """Return the values of judge_trust.html.

    Args:
        audited_in: stage that made the audit.
        stages: training and report; the first that has a file of agreement tells its figures.
    """
    found = (read_value(run / stage / AGREEMENT_FILE, AgreementReport) for stage in stages)
    agreement = next((one for one in found if one), None)
    return {
        "rubric_audit": audit,
        "audited_in": audited_in,
        "flag_meanings": ADVICE,
        "noise_rates": _noise_rates(recipe, agreement),
        "other_judge": _other_judge(run, recipe, agreement) if agreement else "",
        "judge_sentences": _judge_sentences(run, recipe, agreement),
        "probe_lines": probe_lines(agreement.probe) if agreement and agreement.probe else [],
    }


def _noise_rates(recipe: dict[str, Any], agreement: AgreementReport | None) -> list[tuple[str, NoiseRates]]:
    """Error rates of the judge that rewards are corrected for, each with the criteria that it holds for."""
    written = (recipe.get("policy") or {}).get("noise_correction") or {}
    if file := written.get("agreement"):
        by = written.get("by_weight", False)
        return stated_rates(agreement, _judge_name(recipe), file, by_weight=by) if agreement else []
    by_weight = {} if "false_positive" in written else written
    rates = {f"criteria of weight {weight}": one for weight, one in by_weight.items()} or {"all criteria": written}
    return [(criteria, NoiseRates.model_validate(one)) for criteria, one in rates.items() if one]


def _judge_name(recipe: dict[str, Any]) -> str:
    return " + ".join(model for model, _ in _judges(recipe))


def _judges(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """Model and revision of each judge of the policy."""
    policy = recipe.get("policy") or {}
    return [_model(one) for one in (policy.get("judge"), *(policy.get("more_judges") or ())) if one and "model" in one]


def _model(endpoint: dict[str, Any]) -> tuple[str, str]:
    return str(endpoint["model"]), str(endpoint.get("revision") or "")


def _other_judge(run: Path, recipe: dict[str, Any], agreement: AgreementReport) -> str:
    """Reason why the file's figures are not of the judges that graded this run; empty if they are."""
    judges, pinned = _judges(recipe), read_identities(run / IDENTITY_FILE)
    if not judges:
        return ""
    graders = [(_judge_name(recipe), judges)]
    if escalation := recipe["policy"].get("escalate_to"):
        strong = _model(escalation["judge"])
        graders.append((f"{judges[0][0]} > {strong[0]}", [*judges, strong]))
    problems = []
    for name, endpoints in graders:
        entries = {model: pinned.get(model, ()) for model, _ in endpoints}
        prompts = {prompt for of_model in entries.values() for entry in of_model for prompt in entry.prompts}
        answers = {
            model: {entry.identity for entry in of_model if entry.identity} for model, of_model in entries.items()
        }
        try:
            measured_identity(agreement, name, endpoints, prompts, answers)
        except OtherJudge as error:
            problems.append(str(error))
    return problems[0] if len(problems) == len(graders) else ""


def _judge_sentences(run: Path, recipe: dict[str, Any], agreement: AgreementReport | None) -> list[str]:
    """Models that the policy's judges answered as, and what `rubricworks agreement` measured of their errors."""
    name, pinned = _judge_name(recipe), read_identities(run / IDENTITY_FILE)
    entries = tuple(entry for model in name.split(" + ") for entry in pinned.get(model, ()))
    sentences = [identity_text(JudgeIdentity(rater=name, judge=name, entries=entries))] if entries else []
    if agreement:
        sentences += [errors_text(one) for one in agreement.errors]
    return [one if one.endswith(".") else f"{one}." for one in sentences]
