"""Configurations of trainings from flat options: each goes to the section that has a field of its name."""

import json
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from rubricworks.policy.algorithms.grpo import Grpo
from rubricworks.training.config import CodeGrpoConfig, SftConfig, TextGrpoConfig
from rubricworks.training.generators.config import DiffusionNftConfig

Config = TypeVar("Config", bound=BaseModel)


def grpo_config(**options: Any) -> TextGrpoConfig:
    """GRPO of a model that writes text."""
    return nested(TextGrpoConfig, options)


def code_grpo_config(**options: Any) -> CodeGrpoConfig:
    """GRPO of an autoregressive image generator."""
    return nested(CodeGrpoConfig, options)


def nft_config(**options: Any) -> DiffusionNftConfig:
    """DiffusionNFT of a flow-matching generator."""
    return nested(DiffusionNftConfig, options)


def sft_config(**options: Any) -> SftConfig:
    """Supervised training of a model that writes text."""
    return nested(SftConfig, options)


def policy_json(reward: dict[str, Any] | None, kind: type[BaseModel] = Grpo, **options: Any) -> str:
    """Configuration of a policy's stage.

    Args:
        kind: algorithm that takes the options.
    """
    (name,) = get_args(kind.model_fields["type"].annotation)
    algorithm = nested(kind, {"type": name, **options})
    settings = algorithm.model_dump(mode="json", exclude_unset=True)
    return json.dumps({"reward": reward, "algorithm": settings})


def nested(kind: type[Config], options: dict[str, Any]) -> Config:
    """A configuration with the options in its sections `rollouts`, `optimizer` and `watch`."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        sections = (section for section in ("rollouts", "optimizer", "watch") if _has(kind, section, name))
        section = "" if name in kind.model_fields else next(sections, "")
        (values.setdefault(section, {}) if section else values)[name] = value
    return kind.model_validate(values)


def _has(kind: type[BaseModel], section: str, name: str) -> bool:
    field = kind.model_fields.get(section)
    return field is not None and name in getattr(field.annotation, "model_fields", {})
