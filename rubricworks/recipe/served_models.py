"""Served models of a recipe: `{serve: NAME}` where an endpoint is expected, and the stages that call each model."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rubricworks.llm.served import ServedDefinition, ServedModel
from rubricworks.llm.served_names import SECTION
from rubricworks.runtime.config import StageConfig, served_in
from rubricworks.runtime.serving.identity import default_engine
from rubricworks.runtime.stage_table import STAGES


def without_definitions(value: Any) -> Any:
    """Return dumped settings with `serve: NAME` in place of each definition, as a recipe is written."""
    if isinstance(value, list):
        return [without_definitions(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if isinstance(served := value.get(SECTION), dict) and "url" in value:
        settings = {key: inner for key, inner in value.items() if key not in ("url", "model", SECTION)}
        return {SECTION: served["name"], **settings}
    return {key: without_definitions(inner) for key, inner in value.items()}


def called_models(config: Any) -> dict[str, ServedModel]:
    """Name → served model that a configuration's endpoints call."""
    return {served.name: served for served in served_in(config)}


def callers(configs: Mapping[str, StageConfig]) -> dict[str, list[str]]:
    """Name of each served model → the stages that call it, in the order of the pipeline."""
    stages: dict[str, list[str]] = {}
    for stage, config in configs.items():
        for name in called_models(config):
            stages.setdefault(name, []).append(stage)
    return stages


def plan_lines(section: Mapping[str, ServedDefinition], configs: Mapping[str, StageConfig]) -> list[str]:
    """Lines of a plan: each served model with its engine, its size, and the stages between which it runs."""
    lines: list[str] = []
    calling = callers(configs)
    for name, definition in section.items():
        model = f"the model of {definition.stage}" if definition.stage else str(definition.model)
        engine: str = definition.engine or default_engine()
        if definition.command:
            model, engine = "a program", " ".join(definition.command)
        each = f"{definition.accelerators} accelerators" if definition.accelerators else "no accelerator of its own"
        count = f"{definition.replicas} x " if definition.replicas > 1 else ""
        first, last = calling[name][0], calling[name][-1]
        life = f"from {first} to {last}" if first != last else f"during {first}"
        lines.append(f"served by the run: {name}, {model}, by {engine}, {count}{each}, {life}")
    return lines


def mistakes(section: Mapping[str, ServedDefinition], configs: Mapping[str, StageConfig]) -> Iterator[str]:
    """Yield a line for each model that no stage calls, or whose own stage is missing or too late."""
    calling = callers(configs)
    for name, definition in section.items():
        if name not in calling:
            yield f"{SECTION}.{name}: nothing calls it; write {{serve: {name}}} for an endpoint, or leave it out"
        elif definition.stage is not None and (problem := _stage_problem(definition.stage, calling[name], configs)):
            yield f"{SECTION}.{name}.model.stage: {problem}"


def _stage_problem(stage: str, calling: Iterable[str], configs: Mapping[str, StageConfig]) -> str | None:
    order = list(configs)
    trained = [name for name in order if STAGES[name].artifact == "Model"]
    if stage not in trained:
        close = difflib.get_close_matches(stage, trained, 1)
        hint = f"did you mean {close[0]}?" if close else f"those that train one are {', '.join(trained)}"
        what = "trains no model" if stage in order else "is no stage of this pipeline"
        return f"{stage} {what}; {hint}"
    for caller in calling:
        if stage not in STAGES[caller].served_stages:
            able = [name for name in order if STAGES[name].calls_models and stage in STAGES[name].served_stages]
            late = order.index(caller) <= order.index(stage)
            why = f"runs before {stage}" if late else f"does not read the model of {stage}"
            who = f"{' and '.join(able)} can call it" if able else "no stage can call it"
            return f"{caller} {why}; {who}: serve another model to {caller}, such as the one that training starts from"
    return None
