"""A recipe: the stages' own configurations in one YAML file, checked whole before anything runs.

Errors name the file, the line and, for a misspelt field, the one that was probably meant. `${NAME}` in a URL or a path
is filled from the environment when the stage uses it, so that recipes hold no addresses and no secrets.
"""

import difflib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubricworks.errors import UserError
from rubricworks.stages.caption_committee import Config as CommitteeConfig
from rubricworks.stages.caption_student import Config as StudentConfig
from rubricworks.stages.config import StageConfig, canonical_json
from rubricworks.stages.evaluate import Config as EvaluateConfig
from rubricworks.stages.prepare import Config as PrepareConfig
from rubricworks.stages.promote import Config as PromoteConfig
from rubricworks.stages.report import Config as ReportConfig
from rubricworks.stages.synthesize_rubrics import Config as SynthesisConfig
from rubricworks.stages.train_policy import Config as TrainConfig
from rubricworks.stages.train_policy import PolicySection, Refresh
from rubricworks.stages.warm_up import Config as WarmUpConfig
from rubricworks.tracking import TrackingConfig


class WorldConfig(BaseModel):
    """The scene world as data and endpoints: simulated images and models, no network."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenes: int = Field(default=1024, ge=2)
    seed: int | None = Field(default=None, ge=0)
    """The recipe's, by default."""


class RubricSection(SynthesisConfig):
    refresh_every: int = Field(default=0, ge=0)
    """Write the rubrics anew from the current policy's captions every so many steps; 0 is never."""


class Recipe(BaseModel):
    """What `rubricworks run` runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str = ""
    pipeline: Literal["rubicap"] = "rubicap"
    seed: int = Field(default=1, ge=0)
    """Of every stage that does not set its own."""
    world: WorldConfig | None = None
    tracking: TrackingConfig = TrackingConfig()
    data: PrepareConfig
    warm_up: WarmUpConfig
    committee: CommitteeConfig
    student: StudentConfig = StudentConfig()
    rubric: RubricSection
    policy: PolicySection
    evaluation: EvaluateConfig
    promotion: PromoteConfig = PromoteConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="before")
    @classmethod
    def _one_seed(cls, data: Any) -> Any:
        if isinstance(data, dict):
            seed = data.get("seed", 1)
            for section in _SEEDED:
                content = data.get(section) or {}
                if isinstance(content, dict):
                    data = data | {section: {"seed": seed} | content}
            if isinstance(world := data.get("world"), dict) and world.get("seed") is None:
                data = data | {"world": world | {"seed": seed}}
        return data

    @model_validator(mode="after")
    def _sizes_fit(self) -> "Recipe":
        if self.world and self.world.scenes <= self.data.held_out:
            raise ValueError(
                f"world.scenes is {self.world.scenes}, data.held_out {self.data.held_out}: nothing is left to train on"
            )
        captions = len(self.committee.teachers) * self.committee.captions_each
        if captions < self.rubric.min_candidates:
            raise ValueError(
                f"the committee gives {captions} caption(s) of an image, rubric.min_candidates is "
                f"{self.rubric.min_candidates}: no rubric could be written; raise committee.captions_each"
            )
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its own configuration, in the order of the pipeline."""
        rubric = SynthesisConfig(**_fields(self.rubric, without={"refresh_every"}))
        refresh = None
        if self.rubric.refresh_every:
            refresh = Refresh(every=self.rubric.refresh_every, rubric=rubric)
        return {
            "prepare": self.data,
            "warm_up": self.warm_up,
            "caption_committee": self.committee,
            "caption_student": self.student,
            "synthesize_rubrics": rubric,
            "train_policy": TrainConfig(**_fields(self.policy), refresh=refresh),
            "evaluate": self.evaluation,
            "promote": self.promotion,
            "report": self.report,
        }

    def stage_json(self) -> dict[str, str]:
        """Stage → its configuration as canonical JSON, as pipelines pass it."""
        return {stage: canonical_json(config) for stage, config in self.stage_configs().items()}


_SEEDED = ("data", "warm_up", "committee", "student", "rubric", "policy", "evaluation", "promotion", "report")


def _fields(section: BaseModel, *, without: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    return {name: getattr(section, name) for name in type(section).model_fields if name not in without}


def recipe_path(name: str) -> Path:
    """The file of a recipe: a path, or the name of one that comes with the package."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise UserError(f"{name}: no such file; `rubricworks recipes list` shows the built-in ones")
        return path
    built_in = {file.stem: file for file in built_in_recipes()}
    if name not in built_in:
        close = difflib.get_close_matches(name, built_in, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"no recipe {name!r}; {hint}`rubricworks recipes list` shows them")
    return built_in[name]


def built_in_recipes() -> list[Path]:
    folder = Path(str(resources.files("rubricworks.recipes")))
    return sorted(folder.glob("*.yaml"))


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        overrides: `a.b=c` each, the value as YAML; they win over the file.
    Raises:
        UserError: with file and line, for all mistakes at once.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _unshared(yaml.safe_load(text))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: a recipe is a mapping such as `name: quickstart`; this is {type(data).__name__}")
    for override in overrides:
        _apply(data, override)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(_explain(path, tree, item) for item in error.errors())) from error


def _unshared(value: Any) -> Any:
    """A place and its `*alias` are one object in YAML; an override of the one must not reach the other."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {override}: write it as section.field=value")
    *parents, last = key.strip().split(".")
    place: Any = data
    for parent in parents:
        step = _step(place, parent, override)
        if isinstance(place, dict) and not isinstance(place.get(step), dict | list):
            place[step] = {}
        place = place[step]
    try:
        place[_step(place, last, override)] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UserError(f"--set {override}: {value!r} is not a YAML value") from error


def _step(place: Any, part: str, override: str) -> str | int:
    """What `part` of an override's path is in a section, or in a list."""
    if isinstance(place, dict):
        return part
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    there = f"a list, numbered 0 to {len(place) - 1}" if isinstance(place, list) else "no section"
    raise UserError(f"--set {override}: no {part!r} here; this is {there}")


def _explain(path: Path, tree: yaml.Node | None, item: Any) -> str:
    loc = [part for part in item["loc"] if not _is_branch(part)]
    field = ".".join(map(str, loc)) or "recipe"
    where = f"{path}:{_line(tree, loc)}"
    if item["type"] == "extra_forbidden":
        known = _fields_at(loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, 1)
        hint = f"did you mean {close[0]}?" if close else f"the fields there are {', '.join(known)}"
        return f"{where}: {field}: no such field; {hint}"
    if item["type"] == "missing":
        return f"{where}: {field} is missing; add it"
    message = item["msg"].removeprefix("Value error, ")
    if (name := message.split(" ", 1)[0]) in _fields_at(loc):  # a check of the section that is about this one field
        return f"{path}:{_line(tree, [*loc, name])}: {'.'.join(map(str, [*loc, message]))}"
    given = item["input"]
    shown = f" (given: {json.dumps(given)})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {field}: {message}{shown}"


def _is_branch(part: Any) -> bool:
    """Pydantic puts the names of union members into error locations."""
    return isinstance(part, str) and (part in ("none", "str") or "[" in part or part[:1].isupper())


def _line(node: yaml.Node | None, loc: Sequence[Any]) -> int:
    """Line of the deepest part of the location that the file has."""
    line = 1
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _fields_at(loc: Sequence[Any]) -> list[str]:
    kinds: list[Any] = [Recipe]
    for part in loc:
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        kinds = _unwrap(
            [model.model_fields[part].annotation for model in models if part in model.model_fields]
            if isinstance(part, str)
            else kinds
        )
    return sorted(
        {name for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel) for name in kind.model_fields}
    )


def _unwrap(kinds: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for kind in kinds:
        if get_origin(kind) in (Union, UnionType, tuple, list):
            flat += _unwrap(get_args(kind))
        else:
            flat.append(kind)
    return flat
