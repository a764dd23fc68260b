"""Score models on the held-out samples: the tables `responses` and `scores`, and the scoreboard in `scores.json`.

The base comes first, and every other model is compared with it or with another opponent. A response that a scorer could
not judge has a row without a value, and a dead letter with the failed call. With `questions` the models also answer
visual questions, which measures what training on captions made them forget (BalCapRL, Table 2). `model` links to the
candidate's best milestone where milestones were scored.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

from pydantic import Field, model_validator

from rubricworks.data.tables import count_rows, read_rows
from rubricworks.evaluation.models import Decoding, ModelSource
from rubricworks.evaluation.prompt_rewriting import REWRITING_VERSION
from rubricworks.evaluation.scoreboard import BASE, POLICY, SCORES_FILE
from rubricworks.evaluation.scorers.scorer_table import Scorers
from rubricworks.llm import Endpoint
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import VisualQuestions
from rubricworks.stages.evaluation.responses import RESPONSES, Generation, write_responses
from rubricworks.stages.evaluation.scored_models import link_best, write_cards
from rubricworks.stages.evaluation.scoring import Scoring
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run
from rubricworks.training.config import EngineOptions, engine_field
from rubricworks.training.generators.config import ImageSampling

_TRACKED_ROWS = 48


class Config(StageConfig):
    moved: ClassVar[Mapping[str, str]] = {
        "judge": "scorers.rubric.judge or scorers.b_capscore.judge or scorers.answers.judge",
        "pairwise_judge": "scorers.arena.judge",
        "arena_judge": "scorers.arena.judge",
        "order": "scorers.arena.order",
        "verifier": "scorers.b_capscore.verifier",
        "pointability": "scorers.b_capscore.pointability",
        "fact_judge": "scorers.dc_score.judge",
        "exam_taker": "scorers.caption_qa.judge",
        "oracle": "scorers.oracle.url",
    }

    scorers: Scorers
    decodings: tuple[Decoding, ...] = Field(default=("greedy",), min_length=1)
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampled decoding."""
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)
    guidance: float = Field(default=1.0, ge=0, exclude_if=lambda guidance: guidance == 1)
    """Classifier-free guidance of image generators; 1 is none."""
    rewriter: Endpoint | None = Field(default=None, exclude_if=lambda rewriter: rewriter is None)
    """Model that writes prompts out before images are generated for them; scorers judge by the original prompts."""
    sampling: ImageSampling = Field(default=ImageSampling(), exclude_if=lambda sampling: sampling == ImageSampling())
    """Sampling of flow-matching image generators; their own by default."""
    engine: EngineOptions = engine_field()
    """Engine that writes the responses of model directories: `{kind: vllm}` on GPUs."""
    splits: tuple[str, ...] | None = ("held_out",)
    """Splits to score; None scores all samples."""
    opponent: str = BASE
    """Model that comparisons and gains are against."""
    policy: str = POLICY
    """Name of the trained model, the candidate for promotion."""
    peer: str = "peer"
    """Name of the model that was trained for comparison."""
    milestones: bool = False
    """Score every milestone that the trainings kept, instead of their ends."""
    select_by: str = "answers_right"
    """Figure that chooses the best milestone."""
    models: dict[str, ModelSource] = Field(default={})
    """Further models: directories, endpoints, or files of responses."""
    questions: VisualQuestions | None = None
    """Visual questions about the held-out pictures for all models; none by default."""

    @model_validator(mode="after")
    def _some_scorer(self) -> "Config":
        if not list(self.scorers):
            raise ValueError(f"scorers: none is given; name at least one of {', '.join(Scorers.model_fields)}")
        sets = [one.name for one in self.scorers.benchmarks]
        if repeated := [name for name, times in Counter(sets).items() if times > 1]:
            raise ValueError(f"scorers.benchmarks: {repeated[0]} is given twice")
        if self.select_by in sets[:1]:
            raise ValueError(
                f"select_by: {self.select_by} is the set that is reported, and a checkpoint chosen by it looks better "
                "than it is; give a second set of benchmarks, and choose by that one"
            )
        return self

    def versions(self) -> dict[str, str]:
        """A scorer that cannot score on this machine has a version of its own: it scores once it can."""
        rewriting = {"prompt_rewriting": REWRITING_VERSION} if self.rewriter else {}
        return {
            scorer.name: f"{scorer.version}, not available" if scorer.unavailable() else scorer.version
            for scorer in self.scorers
        } | rewriting


def run(config: Config, job: Job) -> None:
    scoring = Scoring(config, job)
    made_by = {"models": [model.model_dump(mode="json", exclude={"source"}) for model in scoring.models]}
    generation = Generation(
        config.max_new_tokens,
        config.temperature,
        config.batch_size,
        config.seed,
        config.guidance,
        config.engine,
        config.sampling,
        config.rewriter,
    )
    write_responses(job, scoring.batches, scoring.batch_count, generation, **made_by)
    asyncio.run(scoring.write_scores())
    board = scoring.summarise()
    write_atomic(job.out / SCORES_FILE, canonical_json(board).encode())
    link_best(job, scoring.models, board)
    write_cards(job, scoring.models, board)
    job.figures.update(scores=count_rows(job.out), dead_letters=count_rows(job.out / "dead_letters"))
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(board.metrics())
        for scores in board.models:
            if scores.step is not None:
                means = {f"{scores.model}/{figure}": mean.value for figure, mean in scores.means.items()}
                log.log_metrics(means, step=scores.step)
        log.log_table("held_out_responses", list(islice(read_rows(job.out / RESPONSES), _TRACKED_ROWS)))
