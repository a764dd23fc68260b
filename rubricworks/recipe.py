"""A recipe: the stages' own configurations composed, checked whole before anything runs.

`${NAME}` in a URL or a path is filled from the environment when the stage uses it, so that recipes hold no addresses
and no secrets. `recipe_file` reads recipes from YAML.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.llm import Budget, Endpoint
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


class Price(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    price_in: float = Field(ge=0)
    price_out: float = Field(ge=0)


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
    budget: Budget = Budget()
    """Caps on tokens and dollars over the whole run; it stops cleanly there and resumes when they are raised."""
    prices: dict[str, Price] = {}
    """By model, for the endpoints that state no price of their own."""
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

    @model_validator(mode="before")
    @classmethod
    def _prices_from_the_table(cls, data: Any) -> Any:
        prices = data.get("prices") if isinstance(data, dict) else None
        return _priced(data, prices) if isinstance(prices, dict) else data

    @model_validator(mode="after")
    def _dollars_have_prices(self) -> "Recipe":
        if self.budget.dollars is not None:
            free = {one.model for _, one in self.endpoints() if not one.price_in and not one.price_out}
            if unpriced := free - set(self.prices):
                raise ValueError(
                    f"budget.dollars caps the cost, but no price is known of {', '.join(sorted(unpriced))}; "
                    "add them to prices (0 for your own servers), or cap budget.tokens"
                )
        return self

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

    def endpoints(self) -> list[tuple[str, Endpoint]]:
        """Every endpoint that the stages use, with the field that names it."""
        policy, evaluation = self.policy, self.evaluation
        return [
            *((f"committee.teachers.{number}", teacher) for number, teacher in enumerate(self.committee.teachers)),
            ("rubric.writer", self.rubric.writer),
            ("policy.judge", policy.judge),
            *((f"policy.more_judges.{number}", judge) for number, judge in enumerate(policy.more_judges)),
            *([("policy.probe", policy.probe)] if policy.probe else []),
            ("evaluation.judge", evaluation.judge),
            ("evaluation.pairwise_judge", evaluation.pairwise_judge),
        ]

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


def _priced(data: Any, prices: dict[str, Any]) -> Any:
    """The same settings, with the table's price in every endpoint that states none."""
    if isinstance(data, list | tuple):
        return [_priced(one, prices) for one in data]
    if not isinstance(data, dict):
        return data
    data = {name: _priced(value, prices) if name != "prices" else value for name, value in data.items()}
    price = prices.get(data.get("model")) if "url" in data and isinstance(data.get("model"), str) else None
    return {**price, **data} if isinstance(price, dict) else data
