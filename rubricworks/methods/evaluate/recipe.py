"""Recipe of an evaluation by itself: samples, models, scorers, one leaderboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS
from rubricworks.methods.evaluate.stages.evaluation_report import Config as ReportConfig
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.stages.data.prepare import Config as DataConfig
from rubricworks.stages.evaluation.score_config import AnyEvaluation


class EvaluateRecipe(Recipe):
    """Evaluation: every model of `evaluation.models` on the held-out samples, or on all with `splits: null`."""

    pipeline: Literal["evaluate"]
    data: DataConfig
    evaluation: AnyEvaluation
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _opponent_is_a_model(self) -> "EvaluateRecipe":
        if not self.evaluation.models:
            raise ValueError("evaluation.models: none is given; name the models to evaluate")
        if self.evaluation.opponent not in self.evaluation.models:
            names = ", ".join(self.evaluation.models)
            raise ValueError(f"evaluation.opponent: {self.evaluation.opponent} is none of the models: {names}")
        return self

    def stage_configs(self) -> dict[str, StageConfig]:
        """Stage → its configuration, in the order of the pipeline."""
        return {"prepare": self.data, "score": self.evaluation, "evaluation_report": self.report}

    def scored_models(self, items: int) -> int:
        return 0

    def success_lines(self, run: Path) -> list[str]:
        from rubricworks.reports.leaderboard import build_board, leaderboard_text

        board = build_board([run], every_figure=self.report.every_figure)
        return [*leaderboard_text(board).splitlines(), f"{run / 'leaderboard.html'}: the page"]

    def estimate_calls(self, items: int) -> Iterator[CallEstimate]:
        config = self.evaluation
        scored = items if config.splits is None else min(self.data.held_out, items)
        for source in config.models.values():
            if source.endpoint:
                yield CallEstimate(
                    "score", "response", source.endpoint, scored, image_tokens(source.endpoint), CAPTION_TOKENS
                )
        models = len(config.models)
        work = Workload(responses=models * scored, compared=(models - 1) * scored, models=models)
        for scorer in config.scorers:
            for calls in scorer.plan(work):
                yield CallEstimate(
                    "score", calls.purpose, calls.endpoint, calls.count, calls.tokens_in, calls.tokens_out
                )


RECIPE = EvaluateRecipe
