"""Report sections on the trustworthiness of a run's judge and rubrics: the audit before training, and the judge's
errors.

Figures of agreement are those of the file that corrected the rewards, or else of the one that the recipe names for its
report (`report.agreement`).
"""

from pydantic import JsonValue

from rubricworks.evaluation.rubric_audit import ADVICE, RubricAudit
from rubricworks.grading.agreement.report import AgreementReport, JudgeIdentity
from rubricworks.llm import Endpoint
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.policy.judges import CascadeJudge, graders
from rubricworks.policy.policy import recorded_policy
from rubricworks.policy.rewards.canary import CANARY_FILE, CanaryRecord
from rubricworks.policy.rewards.checklist import ChecklistReward
from rubricworks.policy.rewards.image_rubric import ImageRubricReward
from rubricworks.policy.rewards.measured_rates import (
    AGREEMENT_FILE,
    MeasuredRates,
    OtherJudge,
    measured_identity,
    stated_rates,
)
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.reports.agreement import errors_text, identity_text, probe_lines
from rubricworks.reports.formats import interval, number, percent, percent_interval, signed, signed_interval, whole
from rubricworks.reports.page import Block
from rubricworks.reports.parts import Part, Table, Text
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import RunFolder, read_value
from rubricworks.rewards import NoiseRates

_AUDITED = ("synthesize_rubrics", "peer_rubrics", "offline_filter", "train_generator")
"""Stages that audit rubrics before the training."""


def audited_rubrics(run: RunFolder) -> Block | None:
    """Audit of the rubrics before training."""
    audits = {stage: audit for stage in _AUDITED if (audit := read_value(run.path / stage / AUDIT_FILE, RubricAudit))}
    if not audits:
        return None
    stage, audit = next(iter(audits.items()))
    sentences = [
        f"{percent(audit.flagged.value)} of {whole(len(audit.findings))} audited rubrics are flagged "
        f"({percent_interval(audit.flagged)}). The best response of a sample gets "
        f"{number(audit.gap.value if audit.gap else None)} more than the best-rewarded bad one ({interval(audit.gap)})."
    ]
    if audit.criteria:
        flips = (
            f", and {percent(audit.flips.value)} of them flip when it is asked the same again "
            f"({percent_interval(audit.flips)})"
            if audit.flips
            else ""
        )
        sentences.append(
            f"With the criteria in reverse, {percent(audit.order_changes.value)} of the judge's verdicts change "
            f"({percent_interval(audit.order_changes)}){flips}."
        )
    sentences.append(f"The page with the worst ones is {stage}/audit.html.")
    flags = [(name, count, ADVICE[name]) for name, count in audit.by_flag.items()]
    parts: list[Part] = [Text(" ".join(sentences))]
    if flags:
        parts.append(Table(("Flag", "Rubrics", "What it means"), flags))
    title = "Rubrics, tried before training"
    return Block("tried-rubrics", title, parts, name="Rubrics", details={"rubric_audit": _audit_figures(audit)})


def _audit_figures(audit: RubricAudit) -> dict[str, JsonValue]:
    return {
        "rubrics": len(audit.findings),
        "flagged": audit.flagged.value,
        **({"unaudited": audit.unaudited} if audit.unaudited else {}),
        **({"undecided": audit.undecided} if audit.undecided else {}),
        **({"unread": audit.unread} if audit.unread else {}),
        "gap": audit.gap.value if audit.gap else None,
        "flags": dict(audit.by_flag),
    }


def judge_errors(run: RunFolder) -> Block | None:
    """Section on the judge's errors: its identity, agreement with people, probe, canary, corrected rewards."""
    stages = (*run.trainings, run.stage)
    reports = (read_value(run.path / stage / AGREEMENT_FILE, AgreementReport) for stage in stages)
    agreement = next((report for report in reports if report), None)
    texts = _judge_sentences(run, agreement)
    if agreement and agreement.probe:
        texts += [f"{line}." for line in probe_lines(agreement.probe)]
    if rates := _noise_rates(run, agreement):
        by_criteria = "; ".join(
            f"of {criteria}, it credits {percent(rate.false_positive)} of what is not met (false positives) and does "
            f"not credit {percent(rate.false_negative)} of what is (false negatives)"
            for criteria, rate in rates
        )
        texts.append(f"Rewards are corrected for the judge's error rates, as the recipe states them: {by_criteria}.")
    parts: list[Part] = [Text(text) for text in texts]
    if agreement and (other := _other_judge(run, agreement)):
        parts.insert(0, Text(f"Not known to be of this run's judge: the file of agreement {other}.", "bad"))
    records = (read_value(run.path / stage / CANARY_FILE, CanaryRecord) for stage in run.trainings)
    canaries = [_canary(record) for record in records if record and record.checks]
    parts += canaries
    title = "Errors of the judge" if agreement or rates or canaries else "The judge"
    return Block("judge", title, parts, name="Judge") if parts else None


def _canary(canary: CanaryRecord) -> Text:
    """Section on changes of the judge during the training."""
    first, last = canary.checks[0], canary.checks[-1]
    alarms = [check for check in canary.checks if check.alarm]
    changed = f"The judge has changed by step {alarms[0].step}: {alarms[0].alarm}. " if alarms else ""
    return Text(
        f"{changed}The judge graded the same {len(canary.start)} responses again {len(canary.checks)} times: at step "
        f"{last.step}, {percent(last.changed.value)} of {last.verdicts} verdicts were others than at first "
        f"({percent(first.changed.value)}, {percent_interval(first.changed)}, when asked twice at once), and the mean "
        f"credit had moved by {signed(last.difference.value)} ({signed_interval(last.difference)}).",
        "bad" if alarms else "",
    )


def _reward(run: RunFolder) -> RubricReward | ChecklistReward | ImageRubricReward | None:
    """The reward of the run's training, if judges grade by rubrics."""
    policy = recorded_policy(run.recipe)
    reward = policy.reward if policy else None
    return reward if isinstance(reward, RubricReward | ChecklistReward | ImageRubricReward) else None


def _noise_rates(run: RunFolder, agreement: AgreementReport | None) -> list[tuple[str, NoiseRates]]:
    """Error rates of the judge that rewards are corrected for, each with the criteria that it holds for."""
    reward = _reward(run)
    match reward.noise_correction if isinstance(reward, RubricReward) else None:
        case MeasuredRates(agreement=file, by_weight=by_weight):
            return stated_rates(agreement, _judge_name(run), file, by_weight=by_weight) if agreement else []
        case NoiseRates() as pair:
            return [("all criteria", pair)]
        case dict() as by_weight:
            return [(f"criteria of weight {weight:g}", pair) for weight, pair in by_weight.items()]
    return []


def _judge_name(run: RunFolder) -> str:
    return " + ".join(model for model, _ in _judges(run))


def _judges(run: RunFolder) -> list[tuple[str, str]]:
    """Model and revision of each judge of the policy; that of a model that the run served is its identity."""
    reward = _reward(run)
    return [_judge(run, endpoint) for endpoint in graders(reward.judge)] if reward else []


def _judge(run: RunFolder, endpoint: Endpoint) -> tuple[str, str]:
    entries = read_identities(run.path / IDENTITY_FILE).get(endpoint.model, ()) if endpoint.serve else ()
    return endpoint.model, next((entry.revision for entry in reversed(entries)), endpoint.revision)


def _other_judge(run: RunFolder, agreement: AgreementReport) -> str:
    """Reason why the file's figures are not of the judges that graded this run; empty if they are."""
    judges, pinned, reward = _judges(run), read_identities(run.path / IDENTITY_FILE), _reward(run)
    if not judges or reward is None:
        return ""
    names = [(_judge_name(run), judges)]
    if isinstance(reward.judge, CascadeJudge):
        strong = _judge(run, reward.judge.strong)
        names.append((f"{judges[0][0]} > {strong[0]}", [*judges, strong]))
    problems = []
    for name, endpoints in names:
        entries = {model: pinned.get(model, ()) for model, _ in endpoints}
        prompts = {prompt for of_model in entries.values() for entry in of_model for prompt in entry.prompts}
        answers = {
            model: {entry.identity for entry in of_model if entry.identity} for model, of_model in entries.items()
        }
        try:
            measured_identity(agreement, name, endpoints, prompts, answers)
        except OtherJudge as error:
            problems.append(str(error))
    return problems[0] if len(problems) == len(names) else ""


def _judge_sentences(run: RunFolder, agreement: AgreementReport | None) -> list[str]:
    """Models that the policy's judges answered as, and what `rubricworks agreement` measured of their errors."""
    name, pinned = _judge_name(run), read_identities(run.path / IDENTITY_FILE)
    entries = tuple(entry for model in name.split(" + ") for entry in pinned.get(model, ()))
    sentences = [identity_text(JudgeIdentity(rater=name, judge=name, entries=entries))] if entries else []
    if agreement:
        sentences += [errors_text(errors) for errors in agreement.errors]
    return [sentence if sentence.endswith(".") else f"{sentence}." for sentence in sentences]
