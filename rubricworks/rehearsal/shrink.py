"""A recipe in miniature: the same stages, classes, engines and options, with a few rows, steps and tokens.

Numbers that cost time become small, by their names; everything that decides which code runs stays. What has to be of
another kind on this machine is returned beside the recipe, for the verdict to name.
"""

import importlib.util
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rubricworks.recipe import Recipe
from rubricworks.recipe.files import set_field
from rubricworks.recipe.sizes import trainings
from rubricworks.runtime.stage_table import STAGES
from rubricworks.training.config import PolicyConfig, SupervisedConfig
from rubricworks.training.generators.config import DiffusionNftConfig

PROCESSES = 2
"""Processes of a training that runs on several accelerators at full size."""
_STEPS = 4
_SAVE_EVERY = 1
_GROUP = 4
_PROMPTS = 2
"""Prompts of a step: one for each process."""
_KEEP = 2
_TOKENS = 16
_SIDE = 96
_IMAGE_SIDE = 32
"""Side of a generated image."""
_HELD_OUT, _TRAIN = 4, 32
_MOST: dict[str, int] = {
    "held_out": _HELD_OUT,
    "max_new_tokens": _TOKENS,
    "max_side": _SIDE,
    "save_every": _SAVE_EVERY,
    "milestone_every": _SAVE_EVERY,
    "log_every": 1,
    "group_size": _GROUP,
    "prompts_per_step": _PROMPTS,
    "batch_size": 2 * PROCESSES,
    "rows_per_pass": 2,
    "keep": _KEEP,
    "top": 1,
    "every": _SAVE_EVERY,
    "samples": _TRAIN,
    "test": 2,
    "per_category": 2,
    "search_size": 4,
    "search_rounds": 1,
    "responses_each": 2,
    "images_per_prompt": 2,
    "queries": 2,
    "per_query": 4,
    "select": 4,
    "max_train": _TRAIN,
    "shard_size": 4,
    "tensor_parallel": PROCESSES,
}
"""Field → its largest value."""
_OWN_MODELS = frozenset({"capture", "specs"})
"""Scorers with a parser or an encoder."""
_LONGER_TEXTS = 8
"""Tokens of a text for one of the model's own tokenizer, at most."""


class Substitution(NamedTuple):
    """Something that is of another kind than at full size."""

    section: str
    """Section of the recipe; empty for all of it."""
    reason: str


class ShrunkRecipe(NamedTuple):
    """A recipe in miniature."""

    recipe: Recipe
    substitutions: list[Substitution]


def shrink(
    recipe: Recipe, models: Mapping[str, str], sources: Mapping[str, str], address: Callable[[str], str] | None
) -> ShrunkRecipe:
    """Make the miniature of a recipe.

    Args:
        models: field → folder of its model's miniature.
        sources: field → source of its rows.
        address: kind of server, `chat` or `detector`, → its URL; None keeps the recipe's endpoints.
    """
    substitutions: list[Substitution] = []
    data = recipe.model_dump(mode="json", exclude={"arms", "cluster", "tracking", "budget", "world"})
    data |= {"allow_cpu": True}
    for section, value in data.items():
        data[section] = _shrunk(value, (section,), substitutions)
    if "max_train" in (data.get("data") or {}):
        data["data"] |= {"max_train": _TRAIN, "held_out": _HELD_OUT}
    for field, value in (*models.items(), *sources.items()):
        set_field(data, field, value, field)
    if address is not None:
        substitutions += [
            Substitution("", f"the run serves no {name}: a model with random weights gives no verdicts")
            for name in data.pop("serve", {})
        ]
        _readdress(data, address)
    return ShrunkRecipe(type(recipe).model_validate(data), substitutions)


def processes_of(recipe: Recipe) -> tuple[int, list[Substitution]]:
    """Processes of each training, and why it is one where a cluster would have several.

    A `cluster:` section says; without one there are two, unless something in the recipe needs the policy whole.
    """
    configs = {stage: config for stage, config in recipe.stage_configs().items() if STAGES[stage].multi_process}
    if recipe.cluster is not None:
        return min(PROCESSES, max((recipe.cluster.placement(stage).processes for stage in configs), default=1)), []
    for stage, config in configs.items():
        if reason := next(filter(None, map(_needs_whole_policy, trainings(config))), ""):
            return 1, [Substitution("", f"one process for each training: {reason} of {stage} needs the policy whole")]
    if getattr(getattr(getattr(recipe, "policy", None), "reward", None), "refresh", None):
        return 1, [Substitution("", "one process for each training: policy.reward.refresh needs the policy whole")]
    return PROCESSES, []


def _needs_whole_policy(options: SupervisedConfig | PolicyConfig) -> str:
    """Setting of a training that FSDP refuses; empty if there is none. Diffusion is not sharded."""
    if isinstance(options, DiffusionNftConfig):
        return ""
    if options.optimizer.adapters:
        return "optimizer.lora"
    return "watch.probe" if isinstance(options, PolicyConfig) and options.watch.probe else ""


def has_gpu() -> bool:
    """Return True if torch sees a GPU here."""
    import torch

    return torch.cuda.is_available()


def has_vllm() -> bool:
    """Return True if vLLM is installed here."""
    return importlib.util.find_spec("vllm") is not None


def _shrunk(value: Any, path: tuple[str, ...], substitutions: list[Substitution]) -> Any:
    if isinstance(value, list):
        return [_shrunk(inner, (*path, str(at)), substitutions) for at, inner in enumerate(value)]
    if not isinstance(value, dict):
        return _smaller(path[-1], value)
    small = {key: _shrunk(inner, (*path, key), substitutions) for key, inner in value.items()}
    if "steps" in value and ("optimizer" in value or "rollouts" in value) and value["steps"] is not None:
        small["steps"] = _STEPS
    elif "steps" in value and "side" in value:
        least = {"steps": 2, "side": _IMAGE_SIDE}
        small |= {name: least[name] for name in least if value[name] is not None}
    if "rollouts" in value and isinstance(value["rollouts"], int):
        small["rollouts"] = min(_GROUP, value["rollouts"])
    if path[-1] == "scorers" and "coco" in small and shutil.which("java") is None:
        del small["coco"]
        substitutions.append(Substitution(path[0], "Java is not installed: `coco` scores nothing"))
    if path[-1] == "scorers":
        for name in _OWN_MODELS & {name for name in small if small[name] is not None}:
            del small[name]
            substitutions.append(Substitution(path[0], f"`{name}` reads models of its own, which have no miniatures"))
    return _without_vllm(small, path, substitutions)


def _without_vllm(small: dict[str, Any], path: tuple[str, ...], substitutions: list[Substitution]) -> dict[str, Any]:
    if has_vllm():
        if path[-1] != "vllm" or small.get("mode") != "colocate" or has_gpu():
            return small
        if small.get("sleep") or small.get("tensor_parallel", 1) > 1:
            # On a CPU the shared memory of several processes outlives a training that is killed.
            reason = "there is no GPU: each process has a vLLM of its own, which does not sleep during the update"
            substitutions.append(Substitution(path[0], reason))
        return small | {"sleep": False, "tensor_parallel": 1}
    reason = "vLLM is not installed: Transformers' generate takes its place"
    if small.get("kind") == "vllm" and path[-1] == "engine":
        substitutions.append(Substitution(path[0], reason))
        return {"kind": "generate"}
    if small.get("vllm") and path[-1] == "rollouts":
        substitutions.append(Substitution(path[0], reason))
        return small | {"vllm": None}
    return small


def _smaller(name: str, value: Any) -> Any:
    if name == "false_positives_at_most" and value is not None:
        return 1.0  # scripted verdicts have no quality to hold against it
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if name == "max_prompt_tokens":
        return _LONGER_TEXTS * value
    return min(value, _MOST[name]) if name in _MOST else value


def _readdress(value: Any, address: Callable[[str], str]) -> None:
    """Send every endpoint to the rehearsal's own server, those of models too that the run would serve."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _readdress(inner, address)
    if isinstance(value, dict) and "url" in value:
        value["url"] = address("chat" if "model" in value else "detector")
        value.pop("serve", None)
