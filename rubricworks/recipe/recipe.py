"""The recipe class: the configurations of a pipeline's stages, validated as a whole before anything runs.

`${NAME}` in a URL or a path is filled from the environment when a stage uses it, so that recipes hold no addresses and
no secrets. `recipe.files` reads recipes from YAML.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.llm import Budget, Endpoint
from rubricworks.llm.endpoint import Prices
from rubricworks.llm.served import ServedDefinition, ServedName
from rubricworks.llm.served_names import with_definitions
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.policy import Policy
from rubricworks.policy.rewards.reward import Reward
from rubricworks.recipe import served_models
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.redaction import find_secret, is_secret_name
from rubricworks.reports.run_summary import read_summary
from rubricworks.runtime.config import (
    StageConfig,
    booleans_as_words,
    canonical_json,
    endpoints_in,
    image_endpoints_in,
    logprob_endpoints_in,
    require_bounded,
)
from rubricworks.runtime.preflight_checks import Check, DataSource
from rubricworks.runtime.stage_table import REPORTS, STAGES
from rubricworks.stages.release.promote import Config as PromoteConfig
from rubricworks.stages.release.report import REPORT_FIELD
from rubricworks.tracking import StagedRecipe, TrackingConfig

_PROMOTING = frozenset({"promote", "challenge"})
"""Stages that promote the model, or request that."""
_PLACE = (
    "keep it in an environment variable; on a cluster, in a Kubernetes Secret: "
    "cluster.secrets: {NAME-OF-SECRET: {its-key: VARIABLE}}"
)
_PLACES = {
    "tracking.uri": "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (on a cluster by cluster.secrets)"
}
"""Field → place for its secret, where it is not `_PLACE`."""


class WorldConfig(BaseModel):
    """The scene world as data and endpoints: simulated images and models, no network."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scenes: int = Field(default=1024, ge=0)
    """Images with known truth, for captions and questions; none for text-to-image alone."""
    questions: int = Field(default=0, ge=0, le=8)
    """Visual questions about each scene; none by default."""
    commentary: float = Field(default=0.0, ge=0, le=1)
    """Share of the images' captions that end with a sentence of commentary; none by default."""
    brevity: float = Field(default=0.0, ge=0, le=1)
    """Share of the captions that stop after the first half of their sentences; none by default."""
    repetition: float = Field(default=0.0, ge=0, le=1)
    """Share of the images' captions that say one of their sentences twice; none by default."""
    pictures: int = Field(default=0, ge=0)
    """Captioned pictures that a text-to-image generator is pretrained on, with prompts; none by default."""
    mismatched: float = Field(default=0.0, ge=0, le=1)
    """Share of the pictures whose caption describes another one; none by default."""
    coloured: float = Field(default=0.0, ge=0, le=1)
    """Share of the pictures whose caption says every shape's colour; otherwise those that are asked for alone."""
    benchmarks: int = Field(default=0, ge=0)
    """Questions in each of five small benchmarks; none by default."""
    seed: int | None = Field(default=None, ge=0)
    """Seed of the scenes; by default the recipe's."""

    @model_validator(mode="after")
    def _shows_something(self) -> "WorldConfig":
        if self.scenes < 2 and not self.pictures:
            raise ValueError(f"scenes is {self.scenes}; draw at least 2, or pictures for text-to-image")
        return self


class Price(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    price_in: float = Field(ge=0)
    price_out: float = Field(ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    """Price of prompt tokens that the provider had cached; by default `price_in`."""


@dataclass(frozen=True)
class CallEstimate:
    """Requests of one kind to one model."""

    stage: str
    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Tokens per call, as `tokens_out`."""
    tokens_out: int

    @classmethod
    def of(cls, stage: str, planned: PlannedCalls) -> "CallEstimate":
        """Planned calls of a stage."""
        return cls(stage, planned.purpose, planned.endpoint, planned.count, planned.tokens_in, planned.tokens_out)

    @property
    def dollars(self) -> float:
        return self.endpoint.cost(self.count * self.tokens_in, self.count * self.tokens_out)


class Recipe(BaseModel):
    """Settings that all recipes share. Each method's subclass adds the sections of its stages."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)
    item_noun: ClassVar[str] = "image"
    """Noun for one sample of the recipe's source."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Name of the recipe; its runs are named after it."""
    description: str = ""
    """Purpose of the recipe, in `recipes list` and on pages."""
    pipeline: str
    seed: int = Field(default=1, ge=0)
    """Seed of every stage that does not set its own."""
    world: WorldConfig | None = None
    """Scene world to generate and serve for the run; none for images of your own."""
    tracking: TrackingConfig = TrackingConfig()
    """MLflow server and experiment."""
    budget: Budget = Budget()
    """Caps on tokens and dollars over the whole run, which stops there and can be resumed with higher ones."""
    prices: dict[str, Prices] = {}
    """Model → prices, for endpoints that state none of their own."""
    serve: dict[ServedName, ServedDefinition] = {}
    """Models that the run serves itself: name → model, engine and size. Where an endpoint is expected, `{serve: NAME}`
    calls one.
    """
    arms: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")], dict[str, Any]] = {}
    """Variants that `run --arm NAME` runs: name → the fields that differ, as `section.field: value`."""
    arm: str | None = None
    """Name of the arm that this recipe is; `--arm` sets it."""
    allow_cpu: bool = False
    """Train on this machine without a GPU, whatever the student's size; a small student needs no permission."""
    cluster: ClusterConfig | None = None
    """Placement of each stage on a Kubeflow cluster; part of no stage's configuration."""

    @model_validator(mode="before")
    @classmethod
    def _fill_seeds(cls, data: Any) -> Any:
        if isinstance(data, dict):
            seed = data.get("seed", 1)
            for section, field in cls.model_fields.items():
                content = data.get(section) or {}
                if _is_stage_config(field.annotation) and isinstance(content, dict):
                    data = data | {section: {"seed": seed} | content}
            if isinstance(world := data.get("world"), dict) and world.get("seed") is None:
                data = data | {"world": world | {"seed": seed}}
        return data

    @model_validator(mode="before")
    @classmethod
    def _fill_served(cls, data: Any) -> Any:
        return with_definitions(data) if isinstance(data, dict) else data

    @model_validator(mode="before")
    @classmethod
    def _fill_prices(cls, data: Any) -> Any:
        prices = data.get("prices") if isinstance(data, dict) else None
        return _with_prices(data, prices) if isinstance(prices, dict) else data

    @model_validator(mode="before")
    @classmethod
    def _booleans_are_no_numbers(cls, data: Any) -> Any:
        return booleans_as_words(cls, data)

    @model_validator(mode="after")
    def _numbers_have_bounds(self) -> "Recipe":
        require_bounded(self)
        return self

    @model_validator(mode="after")
    def _dollars_have_prices(self) -> "Recipe":
        if self.budget.dollars is not None:
            bought = [endpoint for _, endpoint in self.endpoints() if endpoint.serve is None]
            free = {endpoint.model for endpoint in bought if not endpoint.is_priced}
            if unpriced := free - set(self.prices):
                raise ValueError(
                    f"budget.dollars caps the cost, but no price is known of {', '.join(sorted(unpriced))}; "
                    "add them to prices (0 for your own servers), or cap budget.tokens"
                )
        return self

    @model_validator(mode="after")
    def _training_does_not_wait_for_batches(self) -> "Recipe":
        if field := next(
            (field for field, endpoint in self.endpoints() if endpoint.batch and field.startswith("policy.")), None
        ):
            raise ValueError(
                f"{field}.batch: a step of training waits for this model, and a batch may take a day; take batches for "
                "the committee, rubrics, recaptions and the judges of an evaluation"
            )
        return self

    @model_validator(mode="after")
    def _holds_no_secrets(self) -> "Recipe":
        if problem := next(secrets_in(self.model_dump(mode="json", exclude={"arms"})), None):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _cluster_names_real_stages(self) -> "Recipe":
        if self.cluster:
            self.cluster.check_stages(self.stage_names())
            self._check_served_placement(self.cluster)
            self._check_parts(self.cluster)
        return self

    def _check_parts(self, cluster: ClusterConfig) -> None:
        """Check that the parts of a fan-out get no accelerators that they would leave idle."""
        for stage, config in self.stage_configs().items():
            placement, engine = cluster.placement(stage), getattr(config, "engine", None)
            if placement.fan_out and engine and (placement.accelerators or 0) > engine.accelerators:
                raise ValueError(
                    f"cluster.stages.{stage}.accelerators is {placement.accelerators}, and each part of its fan_out "
                    f"uses {engine.accelerators} (engine.tensor_parallel); give it {engine.accelerators}, or leave "
                    "fan_out out: then one pod divides the work over its accelerators"
                )

    def _check_served_placement(self, cluster: ClusterConfig) -> None:
        """Check the cluster's section `serve` against the recipe's."""
        cluster.check_served(self.serve)

    def served_callers(self) -> dict[str, list[str]]:
        """Name of each served model → the stages that call it, in the order of the pipeline."""
        return served_models.callers(self.stage_configs())

    @model_validator(mode="after")
    def _served_models_are_called_in_time(self) -> "Recipe":
        if problem := next(served_models.mistakes(self.serve, self.stage_configs() if self.serve else {}), None):
            raise ValueError(problem)
        return self

    def endpoints(self) -> list[tuple[str, Endpoint]]:
        """Every endpoint of the stages with the field that names it, in the order of the sections."""
        return list(endpoints_in(self))

    def image_endpoints(self) -> Iterator[Endpoint]:
        """Endpoints of the stages whose models are shown images."""
        return image_endpoints_in(self)

    def logprob_endpoints(self) -> Iterator[Endpoint]:
        """Endpoints of the stages of which log-probabilities are used."""
        return logprob_endpoints_in(self)

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → configuration, in the order of the pipeline."""
        raise NotImplementedError

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        """Estimate every kind of call of a run.

        Args:
            items: images in the source, or questions, or prompts.
        """
        raise NotImplementedError

    def stage_json(self) -> dict[str, str]:
        """Stage → configuration as canonical JSON, as pipelines pass it."""
        return {stage: canonical_json(config) for stage, config in self.run_configs().items()}

    def run_configs(self) -> dict[str, StageConfig]:
        """Stage → configuration of a run: that of `promote` holds those of the others, for the registry of models."""
        configs = self.stage_configs()
        if isinstance(config := configs.get("promote"), PromoteConfig):
            configs["promote"] = config.model_copy(update={"recipe": self.staged_recipe()})
        return configs

    def staged_recipe(self) -> StagedRecipe:
        """The recipe as the configurations of its stages, without those that write reports."""
        configs = self.stage_configs().items()
        stages = {stage: config.model_dump(mode="json") for stage, config in configs if stage not in REPORTS}
        return StagedRecipe(name=self.name, pipeline=self.pipeline, stages=stages)

    def stage_names(self) -> list[str]:
        """Stages that the pipeline may run, in its order."""
        return list(self.stage_configs())

    @property
    def promotes(self) -> bool:
        """True if a stage promotes the model, or requests that."""
        return not _PROMOTING.isdisjoint(self.stage_names())

    @property
    def run_prefix(self) -> str:
        """Beginning of a run's default name, which a date and time follow."""
        return self.name if self.arm is None else f"{self.name}-{self.arm}"

    def items_in_world(self) -> int:
        """Samples that the scene world will have."""
        return self.world.scenes if self.world else 0

    @property
    def held_out(self) -> int:
        """Samples that are kept from training."""
        return getattr(getattr(self, "data", None), "held_out", 0)

    @property
    def data_source(self) -> DataSource | None:
        """Source of the samples for the checks before a run; None if the run itself finds them."""
        data = getattr(self, "data", None)
        return None if data is None else data.data_source

    @property
    def source_files(self) -> dict[str, str]:
        """Field → file that a stage reads beside its samples, for the checks before a run."""
        report = getattr(self, "report", None)
        files = {REPORT_FIELD: file} if (file := getattr(report, "agreement", None)) else {}
        return files | (reward.source_files() if (reward := self._reward) else {})

    @property
    def base_model(self) -> str | None:
        """Model that the policy starts from; None if the run itself finds it."""
        return getattr(getattr(self, "warm_up", None), "student", None)

    def trained_models(self, items: int) -> int:
        """Number of trained models that the evaluation scores: every milestone, where one is chosen among them.

        Args:
            items: images in the source, or questions.
        """
        policy, chosen = getattr(self, "policy", None), getattr(getattr(self, "evaluation", None), "select_by", None)
        every = getattr(policy.algorithm, "milestone_every", 0) if isinstance(policy, Policy) else 0
        return policy.algorithm.steps_on(items) // every if policy and chosen and every else 1

    def scored_models(self, items: int) -> int:
        """Number of models that a run evaluates beside those of its recipe: the base and the trained ones."""
        return 1 + self.trained_models(items)

    def sized_stages(self) -> tuple[dict[str, StageConfig], str | None]:
        """Stage → configuration, and the base model, by which workspaces are sized; empty if a run finds them itself.

        Raises:
            UserError: they cannot be found before the run.
        """
        return (self.stage_configs(), self.base_model) if self.base_model else ({}, None)

    @property
    def lora(self) -> bool:
        """Return True if the policy is trained with LoRA."""
        policy = getattr(self, "policy", None)
        return isinstance(policy, Policy) and policy.algorithm.trains_adapters

    @property
    def _reward(self) -> Reward | None:
        policy = getattr(self, "policy", None)
        return policy.reward if isinstance(policy, Policy) else None

    def method_checks(self, runs: Path) -> Iterator[Check]:
        """Checks of this method before a run starts, besides those of every recipe."""
        if reward := self._reward:
            yield from reward.checks()

    def plan_in_words(self) -> str | None:
        """Text in place of a plan if the calls are not known before the run."""
        return None

    def success_lines(self, run: Path) -> list[str]:
        """Last lines that `rubricworks run` prints about a finished run."""
        stage = next(stage for stage in self.stage_names() if stage in REPORTS)
        return STAGES[stage].load_report().success_lines(read_summary(run))


def _is_stage_config(annotation: Any) -> bool:
    """Return True for a class of stage configurations, and for a union of them."""
    kinds = get_args(annotation) or (annotation,)
    return all(isinstance(kind, type) and issubclass(kind, StageConfig) for kind in kinds)


def secrets_in(value: Any, *path: str) -> Iterator[str]:
    """Yield a line for each secret in a recipe's settings, which go into the run's files and the cluster's pipeline."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from secrets_in(inner, *path, key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from secrets_in(inner, *path, str(number))
    elif isinstance(value, str):
        is_variable = path[0] == "cluster" and path[-2] == "env"
        if secret := "a secret" if is_variable and value and is_secret_name(path[-1]) else find_secret(value):
            yield (
                f"{'.'.join(path)}: {secret} stands here for everybody who sees a file of the run or its pipeline; "
                f"{_PLACES.get('.'.join(path), _PLACE)}"
            )


def _with_prices(data: Any, prices: dict[str, object]) -> Any:
    """Copy of the settings, with the table's price in every endpoint that states none."""
    if isinstance(data, list | tuple):
        return [_with_prices(item, prices) for item in data]
    if not isinstance(data, dict):
        return data
    data = {name: _with_prices(value, prices) if name != "prices" else value for name, value in data.items()}
    price = prices.get(data.get("model")) if "url" in data and isinstance(data.get("model"), str) else None
    return data if price is None else {"prices": price, **data}
