"""The first task of a run on a cluster: everything that can be asked is asked before anything is paid for, and the run
is opened: its recipe, its caps and its MLflow run.

All answers are given at once, so that what is missing can be put right at once. They are asked for again in every
attempt, since what was there yesterday may be gone.
"""

import os
import sys
from collections.abc import Iterator
from functools import partial

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.llm import Budget, Endpoint, write_budget
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import (
    Check,
    DataSource,
    count_items,
    require_budget,
    require_endpoint,
    require_model,
    require_tracking,
    run_check,
)
from rubricworks.storage import check_storage, write_atomic
from rubricworks.tracking import TrackingConfig, open_pipeline


class NamedEndpoint(BaseModel):
    """An endpoint and the recipe's field that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: str
    endpoint: Endpoint


class Config(StageConfig):
    """What the recipe's stages will need, and the recipe itself."""

    recipe: str
    """As YAML, for the run's folder and MLflow."""
    storage: str | None = None
    """Where all runs lie."""
    data: DataSource | None = None
    endpoints: tuple[NamedEndpoint, ...] = ()
    models: dict[str, str] = Field(default={})
    """Field of the recipe → folder or name of a model to start from."""
    tracking: TrackingConfig = TrackingConfig()
    budget: Budget = Budget()


def run(config: Config, job: Job) -> None:
    checks = []
    for check in check_all(config, job):
        print(f"{'missing' if check.problem else 'ok'}: {check.name}: {check.problem or check.detail}", file=sys.stderr)
        checks.append(check)
    record = [{"name": one.name, "problem": one.problem, "detail": one.detail} for one in checks]
    write_atomic(job.out / "checks.json", canonical_json(record).encode())
    missing = [check for check in checks if check.problem]
    job.figures.update(checks=len(checks), missing=len(missing))
    if missing:
        said = "; ".join(f"{check.name}: {check.problem}" for check in missing)
        raise UserError(f"{len(missing)} of {len(checks)} checks failed: {said}")
    write_atomic(job.run / "recipe.yaml", config.recipe.encode())
    write_budget(job.run, config.budget)
    open_pipeline(config.tracking, job.run, yaml.safe_load(config.recipe) or {})


def check_all(config: Config, job: Job) -> Iterator[Check]:
    """Storage, budget, samples, models, endpoints, tracking; each as it is answered."""
    if config.storage:
        yield run_check("storage", lambda: check_storage(fill(config.storage or "", "cluster.storage")))
    yield run_check("budget", partial(require_budget, config.budget, job.run))
    if data := config.data:
        yield run_check(data.kind, lambda: f"{count_items(data)} {data.kind}")
    for where, model in config.models.items():
        yield run_check(f"model {where}", partial(require_model, model))
    for one in config.endpoints:
        yield run_check(f"endpoint {one.where}", partial(require_endpoint, one.endpoint))
    yield run_check("tracking", lambda: _tracking(config.tracking, job))


def _tracking(tracking: TrackingConfig, job: Job) -> str:
    if not (tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")):
        raise UserError(
            "no MLflow server is named, and pods share no file; set MLFLOW_TRACKING_URI in cluster.env, or tracking.uri"
        )
    return require_tracking(tracking, job.run.parent)
