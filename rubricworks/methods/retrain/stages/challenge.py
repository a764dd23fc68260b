"""Register a retrained model as the challenger, and say whether it takes the champion's place.

It was evaluated with the champion as its base, on the same samples, so the gate's "over the base" is over the champion.
Whoever passes is promoted at once, or waits for a person's `rubricworks promote`. Neither happens when the champion
has changed meanwhile: what was measured says nothing of the new one.
"""

from typing import Literal

from rubricworks.data.tables import read_rows
from rubricworks.methods.retrain.champion import Found, open_registry, read_found, tell_outcome
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.stages.release.promote import evaluation_figures, register_policy
from rubricworks.storage import write_atomic
from rubricworks.tracking import Connection, Gate, ModelVersion, registry, stage_run
from rubricworks.tracking.lineage import read_lineage


class Config(StageConfig):
    gate: Gate | None = None
    """What the challenger must show against the champion; by default the gate of the champion's recipe."""
    approval: Literal["person", "gate"] = "person"
    """Who makes a challenger that passes the champion: a person, with `rubricworks promote`, or the gate itself."""


def run(config: Config, job: Job) -> None:
    found = read_found(job)
    gate = config.gate or Gate.model_validate(found.recipe.stages.get("promote", {}).get("gate", {}))
    figures = evaluation_figures(job.inputs["evaluations"])
    result = gate.check(figures)
    connection, mlflow_run = open_registry(job)
    champion = registry.version_of(connection, found.model_name, found.champion)
    with stage_run(job.run, job.stage) as log:
        log.log_metrics({f"{name}/{part}": value for name, pair in figures.items() for part, value in pair.items()})
        log.set_tags({"gate": "passed" if result.passed else "failed"})
        version = register_policy(
            job,
            connection,
            mlflow_run,
            found.model_name,
            result,
            figures,
            found.recipe,
            **{
                registry.CHALLENGED: found.champion,
                "held_out_known_to_champion": _held_out_known(job, connection, champion),
            },
        )
        standing, outcome = _settled(config, connection, version, found, result.passed)
        # Of a stage that is run again under another gate the version is there already.
        registry.tag(connection, version, {registry.APPROVAL: standing, "gate": "; ".join(result.reasons)})
        log.set_tags({"outcome": outcome})
    challenge = {
        "model_name": found.model_name,
        "champion": found.champion,
        "version": version.version,
        "passed": result.passed,
        "standing": standing,
        "reasons": list(result.reasons),
    }
    write_atomic(job.out / "challenge.json", canonical_json(challenge).encode())
    job.figures.update(version=version.version, passed=result.passed)
    if not result.passed:
        outcome += f": {'; '.join(result.reasons)}"
    tell_outcome(job, outcome, found, **{key: challenge[key] for key in ("version", "passed", "standing", "reasons")})


def _settled(
    config: Config, connection: Connection, version: ModelVersion, found: Found, passed: bool
) -> tuple[str, str]:
    """Make the version champion or challenger; how it stands, and the same for people."""
    now = registry.champion(connection, found.model_name)
    label = f"{found.model_name} version {version.version}"
    if now and now.version == version.version:
        return "promoted", f"{label} is the champion"
    registry.nominate(connection, found.model_name, version.version)
    if not passed:
        return "not passed", f"{label} stays challenger, not passed"
    if now is None or now.version != found.champion:
        changed = f"version {now.version}" if now else "gone"
        return "outdated", f"{label} passed against version {found.champion}, but the champion is {changed} now"
    if config.approval == "person":
        return registry.WAITING, f"{label} passed and waits for approval: rubricworks promote {found.model_name}"
    registry.promote(connection, found.model_name, version.version)
    return "promoted", f"{label} passed and is the champion"


def _held_out_known(job: Job, connection: Connection, champion: ModelVersion) -> int:
    """Held-out samples that the champion was trained on, which flatter it: 0 as long as nothing leaves the source."""
    trained = {key.sample_id for key in read_lineage(connection, champion).samples if key.split != "held_out"}
    rows = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    return sum(row["split"] == "held_out" and row["sample_id"] in trained for row in rows)
