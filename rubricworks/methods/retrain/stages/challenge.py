"""Register a retrained model as the challenger, and decide whether it replaces the champion.

It was evaluated with the champion as its base, on the same samples, so the gate's "over the base" is over the champion.
A challenger that passes is promoted at once, or waits for a person's `rubricworks promote`. It is not promoted if the
champion has changed since the evaluation, which compared it with the earlier one.
"""

from typing import Literal

from pydantic import field_validator

from rubricworks.data.tables import read_rows
from rubricworks.methods.retrain.champion import NewSampleReport, open_registry, read_report, write_outcome
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.stages.release.promote import check_run, evaluation_figures, register_policy
from rubricworks.storage import write_atomic
from rubricworks.tracking import Connection, Gate, ModelVersion, registry, stage_run
from rubricworks.tracking.installation import promoting_api, request_promotion
from rubricworks.tracking.lineage import read_lineage


class Config(StageConfig):
    gate: Gate | None = None
    """Gate that the challenger must pass against the champion; by default the gate of the champion's recipe, but for
    its rule on the judge's audit: a retraining keeps the judge, and does not audit it again.
    """
    approval: Literal["person", "gate"] = "person"
    """Approver of a challenger that passes: a person, with `rubricworks promote`, or the gate itself."""

    @field_validator("gate")
    @classmethod
    def _has_no_audit(cls, gate: Gate | None) -> Gate | None:
        if gate is not None and gate.audit_false_positives_at_most is not None:
            raise ValueError("a retraining has no audit for audit_false_positives_at_most; leave that rule out")
        return gate


def run(config: Config, job: Job) -> None:
    api = promoting_api()  # before anything is registered
    approval = config.approval if api is None else "person"  # where an API is named, it alone moves the alias
    report = read_report(job)
    of_recipe = Gate.model_validate(report.recipe.stages.get("promote", {}).get("gate", {}))
    gate = config.gate or of_recipe.model_copy(update={"audit_false_positives_at_most": None})
    figures = evaluation_figures(job.inputs["scores"])
    result = check_run(gate, figures, job)
    connection, mlflow_run = open_registry(job)
    champion = registry.get_version(connection, report.model_name, report.champion)
    with stage_run(job.run, job.stage) as log:
        log.log_metrics({f"{name}/{part}": value for name, pair in figures.items() for part, value in pair.items()})
        log.set_tags({"gate": "passed" if result.passed else "failed"})
        version = register_policy(
            job,
            connection,
            mlflow_run,
            report.model_name,
            result,
            figures,
            report.recipe,
            **{
                registry.OPPONENT_TAG: report.champion,
                "held_out_known_to_champion": _count_leaked(job, connection, champion),
                **{tag: champion.tags[tag] for tag in [registry.REWARD_MODEL_TAG] if tag in champion.tags},
            },
        )
        standing, outcome = _update_aliases(approval, connection, version, report, result.passed)
        # The version exists already if the stage runs again with another gate.
        registry.tag(connection, version, {registry.APPROVAL_TAG: standing, **result.tags})
        if standing == registry.WAITING and api is not None:
            outcome += f"; {request_promotion(api, report.model_name, version.version, f'run {job.run.name}')}"
        log.set_tags({"outcome": outcome})
    challenge = {
        "model_name": report.model_name,
        "champion": report.champion,
        "version": version.version,
        "passed": result.passed,
        "standing": standing,
        "reasons": list(result.reasons),
    }
    write_atomic(job.out / "challenge.json", canonical_json(challenge).encode())
    job.figures.update(version=version.version, passed=result.passed)
    if not result.passed:
        outcome += f": {'; '.join(result.reasons)}"
    write_outcome(job, outcome, report, **{key: challenge[key] for key in ("version", "passed", "standing", "reasons")})


def _update_aliases(
    approval: str, connection: Connection, version: ModelVersion, report: NewSampleReport, passed: bool
) -> tuple[str, str]:
    """Make the version champion or challenger; return its standing, as a tag and as a sentence."""
    now = registry.champion(connection, report.model_name)
    label = f"{report.model_name} version {version.version}"
    if now and now.version == version.version:
        return "promoted", f"{label} is the champion"
    registry.nominate(connection, report.model_name, version.version)
    if not passed:
        return "not passed", f"{label} stays challenger, not passed"
    if now is None or now.version != report.champion:
        return "outdated", _outdated(label, report, now)
    if approval == "person":
        return registry.WAITING, f"{label} passed and waits for approval: rubricworks promote {report.model_name}"
    try:
        registry.promote(connection, report.model_name, version.version, expected=report.champion)
    except registry.ChampionMoved:
        return "outdated", _outdated(label, report, registry.champion(connection, report.model_name))
    return "promoted", f"{label} passed and is the champion"


def _outdated(label: str, report: NewSampleReport, now: ModelVersion | None) -> str:
    changed = f"version {now.version}" if now else "gone"
    return f"{label} passed against version {report.champion}, but the champion is {changed} now"


def _count_leaked(job: Job, connection: Connection, champion: ModelVersion) -> int:
    """Count held-out samples that the champion was trained on, which bias the comparison in its favour.

    The count is 0 as long as no sample disappears from the source.
    """
    trained = {key.sample_id for key in read_lineage(connection, champion).samples if key.split != "held_out"}
    rows = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    return sum(row["split"] == "held_out" and row["sample_id"] in trained for row in rows)
