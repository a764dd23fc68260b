"""The recipe of the recaption_pretrain pipeline."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS
from rubricworks.methods.recaption_pretrain.stages.align_projector import Config as AlignConfig
from rubricworks.methods.recaption_pretrain.stages.benchmark_questions import Config as BenchmarkConfig
from rubricworks.methods.recaption_pretrain.stages.pretrain_vlm import Config as PretrainConfig
from rubricworks.methods.recaption_pretrain.stages.tune_vlm import Config as TuneConfig
from rubricworks.recipe.estimate import scoring_calls
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.prepare import Config as PrepareConfig
from rubricworks.stages.evaluation.score_config import AnswerEvaluation
from rubricworks.stages.release.report import Config as ReportConfig
from rubricworks.stages.synthesis.recaption import Config as RecaptionConfig


class RecaptionPretrainRecipe(Recipe):
    """Recaptioning for pretraining: two captioners' captions, a VLM trained on each, the two compared."""

    pipeline: Literal["recaption_pretrain"]
    data: PrepareConfig
    recaption: RecaptionConfig
    """Captioners of the images to pretrain on: the first is the policy, the second the baseline."""
    alignment: AlignConfig = AlignConfig()
    pretraining: PretrainConfig
    baseline: str = Field(min_length=1)
    """Captioner of the baseline arm, whose other settings are those of `pretraining`."""
    tuning: TuneConfig
    benchmarks: BenchmarkConfig
    evaluation: AnswerEvaluation
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _captioners_exist(self) -> Self:
        labels = [captioner.label for captioner in self.recaption.captioners]
        for field, name in (("pretraining.captioner", self.pretraining.captioner), ("baseline", self.baseline)):
            if name not in labels:
                raise ValueError(f"{field} is {name}; the captioners are {', '.join(labels)}")
        if self.baseline == self.pretraining.captioner:
            raise ValueError(f"baseline is {self.baseline}, which is the captioner it is compared with; name another")
        return self

    @model_validator(mode="after")
    def _engine_reads_llava(self) -> Self:
        if self.evaluation.engine.kind == "vllm":
            raise ValueError(
                "evaluation.engine.kind is vllm, which (vLLM 0.30) reads no LLaVA beside this Transformers; "
                "leave engine out, or set its kind to generate"
            )
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its own configuration, in the order of the pipeline."""
        return {
            "prepare": self.data,
            "recaption": self.recaption,
            "align_projector": self.alignment,
            "pretrain_vlm": self.pretraining,
            "tune_vlm": self.tuning,
            "pretrain_baseline": self.pretraining.model_copy(update={"captioner": self.baseline}),
            "tune_baseline": self.tuning,
            "benchmark_questions": self.benchmarks,
            "score": self.evaluation,
            "recaption_pretrain_report": self.report,
        }

    @property
    def base_model(self) -> str | None:
        return self.alignment.language_model

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        held_out = min(self.data.held_out, items)
        rest = max(items - held_out - self.data.warm_up, 0)
        train = rest if self.data.max_train is None else min(rest, self.data.max_train)
        for captioner in self.recaption.captioners:
            if captioner.endpoint:
                yield CallEstimate(
                    "recaption",
                    "recaption",
                    captioner.endpoint,
                    train,
                    image_tokens(captioner.endpoint),
                    CAPTION_TOKENS,
                )
        yield from scoring_calls(self.evaluation, held_out)


RECIPE = RecaptionPretrainRecipe
