"""First task of a run on a cluster: check all external needs before anything costs money, then open the run.

All problems are reported together, so that they can be fixed together. The checks are repeated in every attempt, since
what was there yesterday may be gone. Opening the run writes its recipe and caps and starts its MLflow run.
"""

import os
from collections.abc import Iterator
from functools import partial

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rubricworks.environment import fill
from rubricworks.errors import TransientError, UserError
from rubricworks.llm import Budget, Endpoint, write_budget
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import (
    Check,
    DataSource,
    count_items,
    promotion_checks,
    require_budget,
    require_endpoint,
    require_file,
    require_model,
    require_parts,
    require_tracking,
    run_check,
)
from rubricworks.storage import check_storage, write_atomic
from rubricworks.terminal import say
from rubricworks.tracking import TrackingConfig, open_pipeline


class NamedEndpoint(BaseModel):
    """An endpoint and the recipe's field that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: str
    endpoint: Endpoint
    sees_images: bool = False
    logprobs_of: Endpoint | None = None
    """The same endpoint as where its log-probabilities are used, if they are anywhere."""

    def require(self) -> str:
        """Ask the endpoint for everything that the recipe needs from it."""
        return require_endpoint(self.endpoint, sees_images=self.sees_images, logprobs_of=self.logprobs_of)


class Config(StageConfig):
    """External needs of the recipe's stages, and the recipe itself."""

    recipe: str
    """The recipe as YAML, for the run's folder and MLflow."""
    storage: str | None = None
    """URI of the folder of all runs."""
    data: DataSource | None = None
    files: dict[str, str] = Field(default={})
    """Field of the recipe → file that a stage reads besides its samples."""
    endpoints: tuple[NamedEndpoint, ...] = ()
    models: dict[str, str] = Field(default={})
    """Field of the recipe → folder or name of a model to start from."""
    tracking: TrackingConfig = TrackingConfig()
    budget: Budget = Budget()
    namespace: str | None = None
    """Namespace of the jobs that stages make; None = the stages' own."""
    fan_outs: tuple[str, ...] = ()
    """Stages whose samples are divided among pods."""
    promotes: bool = False
    """A stage of the recipe promotes the model, or requests that from the installation's API."""


def run(config: Config, job: Job) -> None:
    checks = []
    for check in check_all(config, job):
        say(f"{'missing' if check.problem else 'ok'}: {check.name}: {check.problem or check.detail}")
        checks.append(check)
    record = [{"name": check.name, "problem": check.problem, "detail": check.detail} for check in checks]
    write_atomic(job.out / "checks.json", canonical_json(record).encode())
    missing = [check for check in checks if check.problem]
    job.figures.update(checks=len(checks), missing=len(missing))
    if missing:
        problems = "; ".join(f"{check.name}: {check.problem}" for check in missing)
        # It holds no accelerators, and what is missing may be there a minute later.
        raise TransientError(f"{len(missing)} of {len(checks)} checks failed: {problems}")
    write_atomic(job.run / "recipe.yaml", config.recipe.encode())
    write_budget(job.run, config.budget)
    open_pipeline(config.tracking, job.run, yaml.safe_load(config.recipe) or {})


def check_all(config: Config, job: Job) -> Iterator[Check]:
    """Check storage, budget, data, files, models, endpoints, cluster, promotion, tracking; yield each result."""
    if config.storage:
        yield run_check("storage", lambda: check_storage(fill(config.storage or "", "cluster.storage")))
    yield run_check("budget", partial(require_budget, config.budget, job.run))
    if data := config.data:
        yield run_check(data.kind, lambda: f"{count_items(data)} {data.kind}")
    for field, source in config.files.items():
        yield run_check(f"file {field}", partial(require_file, source, field))
    for where, model in config.models.items():
        yield run_check(f"model {where}", partial(require_model, model))
    for named in config.endpoints:
        yield run_check(f"endpoint {named.where}", named.require)
    if config.fan_outs:
        yield run_check("kubernetes", partial(require_parts, config.fan_outs, config.namespace))
    if config.promotes:
        yield from promotion_checks()
    yield run_check("tracking", lambda: _require_tracking_server(config.tracking, job))


def _require_tracking_server(tracking: TrackingConfig, job: Job) -> str:
    if not (tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")):
        raise UserError(
            "no MLflow server is named, and pods share no file; set MLFLOW_TRACKING_URI in cluster.env, or tracking.uri"
        )
    return require_tracking(tracking, job.run.parent)
