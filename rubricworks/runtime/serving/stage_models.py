"""Served models of one stage: their identities before it starts, and their addresses while it runs."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.kubernetes import SERVE
from rubricworks.kubernetes.config import ServePlan, plan_from_environment
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm.served import SLEEPING_ENV, ServedModel, mark_lost
from rubricworks.runtime.config import StageConfig, canonical_json, served_in
from rubricworks.runtime.job import DONE
from rubricworks.runtime.serving.identity import (
    ServedIdentity,
    Weights,
    served_identity,
    served_weights,
    server_options,
)
from rubricworks.runtime.serving.local_servers import LocalServers
from rubricworks.runtime.serving.run_socket import ask_run
from rubricworks.runtime.stage_table import STAGES
from rubricworks.runtime.store.workspace import is_finished
from rubricworks.storage import is_remote, join, local_path

_DEVICES = "CUDA_VISIBLE_DEVICES"


class StageModel(NamedTuple):
    """A served model that the stage calls."""

    served: ServedModel
    identity: ServedIdentity
    weights: Weights


def read_inputs(stage: str, config: str, uris: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs that the stage reads: models are left out if its configuration does not call them.

    So training another GenRM leaves the work of a stage that asks another judge in place.
    """
    if not (served := STAGES[stage].served):
        return dict(uris)
    called = {model["model"].get("stage") for model in _definitions(json.loads(config)) if _is_of_stage(model)}
    unused = {model.name for model in served} - {model.name for model in served if model.stage in called}
    return {name: uri for name, uri in uris.items() if name not in unused}


def stage_models(config: StageConfig, inputs: Mapping[str, Path]) -> dict[str, StageModel]:
    """Name → served model that the stage calls.

    Raises:
        UserError: weights are missing, or an engine is not installed.
    """
    models = {}
    for served in {served.name: served for served in served_in(config)}.values():
        weights = served_weights(served, inputs)
        models[served.name] = StageModel(served, served_identity(served, weights), weights)
    return models


def with_identities(stage: str, config: StageConfig, models: Mapping[str, StageModel]) -> StageConfig:
    """Return the configuration with the identity of each served model as its endpoints' revision."""
    if not models:
        return config
    value = config.model_dump(mode="json")
    for endpoint in _endpoints(value):
        endpoint["revision"] = str(models[endpoint["serve"]["name"]].identity)
    return STAGES[stage].parse_config(canonical_json(value))


@contextmanager
def served_models(work: StageWork, run: Path, models: Mapping[str, StageModel]) -> Iterator[None]:
    """Context manager: the models answer while the block runs, at the addresses in this process's environment.

    In a run on this machine the run's own process serves them, and stops each after the last stage that calls it; on a
    cluster the stages create and delete the servers. A stage that runs by itself serves them itself. Processes that a
    stage starts use what it has.

    Args:
        run: the run's folder on this machine.
    Raises:
        UserError: a model does not start.
    """
    waiting = [model for model in models.values() if not all(map(os.environ.get, model.served.variables))]
    if not waiting:
        with _sleeping(models):
            yield
        return
    own, plan = None, plan_from_environment(SERVE, ServePlan)
    names = [_DEVICES, *(variable for model in waiting for variable in model.served.variables)]
    before = {name: os.environ[name] for name in names if name in os.environ}
    with ExitStack() as stack:
        try:
            for served, identity, weights in waiting:
                if plan is not None:
                    urls = stack.enter_context(_on_cluster(plan, work, served, identity, weights))
                    os.environ |= dict(zip(served.variables, urls, strict=True))
                    continue
                place = ask_run(served, identity, weights, partial(mark_lost, served.name))
                if place is None:
                    own = own or stack.enter_context(LocalServers(run, on_lost=mark_lost))
                    place = own.serve(served, identity, weights)
                os.environ |= dict(zip(served.variables, place.urls, strict=True))
                if place.devices is not None:
                    os.environ[_DEVICES] = ",".join(place.devices)
            with _sleeping(models):
                yield
        finally:
            for name in names:
                os.environ.pop(name, None)
            os.environ |= before


@contextmanager
def _sleeping(models: Mapping[str, StageModel]) -> Iterator[None]:
    """Context manager: a training finds the addresses of the models that sleep."""
    variables = [name for model in models.values() if model.served.sleep for name in model.served.variables]
    if not variables:
        yield
        return
    os.environ[SLEEPING_ENV] = " ".join(os.environ[name].removesuffix("/v1") for name in variables)
    try:
        yield
    finally:
        del os.environ[SLEEPING_ENV]


@contextmanager
def _on_cluster(
    plan: ServePlan, work: StageWork, served: ServedModel, identity: ServedIdentity, weights: Weights
) -> Iterator[list[str]]:
    """Serve a model on the cluster; delete it if the stage succeeds and all others that call it are done.

    A failed stage leaves it to the next attempt, or to the run's exit task.
    """
    from rubricworks.kubernetes.connection import connect
    from rubricworks.kubernetes.served_model import Request, delete, serve

    cluster = connect(plan.namespace)
    source = next((uri for uri in work.inputs.values() if uri.rstrip("/").rpartition("/")[2] == served.stage), "")
    place = join(source, Path(weights.place).name) if served.stage else weights.place
    options = tuple(server_options(served, identity.engine))
    request = Request(work.run, served, str(identity), place, options)
    yield serve(cluster, plan, request)
    others = [stage for stage in plan.callers.get(served.name, ()) if stage != work.stage]
    if all(_is_done(work.run, stage) for stage in others):
        delete(cluster, work.run, kserve=plan.kserve, key=request.key)


def stop_served_models(run: str) -> None:
    """Delete what the stages of a run on a cluster left running; nothing to do elsewhere.

    Args:
        run: URI of the run.
    """
    if (plan := plan_from_environment(SERVE, ServePlan)) is None:
        return
    from rubricworks.kubernetes.connection import connect
    from rubricworks.kubernetes.served_model import delete

    delete(connect(plan.namespace), run, kserve=plan.kserve)


def _is_done(run: str, stage: str) -> bool:
    return is_finished(run, stage) if is_remote(run) else (local_path(run) / stage / DONE).is_file()


def _endpoints(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every endpoint of a dumped configuration that the run serves."""
    if isinstance(value, dict):
        if isinstance(value.get("serve"), dict) and "name" in value["serve"]:
            yield value
            return
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _endpoints(inner)


def _definitions(value: Any) -> Iterator[dict[str, Any]]:
    return (endpoint["serve"] for endpoint in _endpoints(value))


def _is_of_stage(definition: Mapping[str, Any]) -> bool:
    return isinstance(definition.get("model"), dict)
