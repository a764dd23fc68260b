"""Rubric-augmented SFT: training on the student's captions, rewritten until they meet the rubric (RubiCap, 4.4)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rubricworks.data.tables import Sample, build_table, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import Cascade, Grader
from rubricworks.llm import Endpoint, fence
from rubricworks.llm.usage import PlannedCalls, grading_calls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.algorithms.sft import captions_by, train_on_captions
from rubricworks.policy.judges import OpenJudge, grading_plan
from rubricworks.policy.rewards.reward import Reward, TrainingSize
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.policy.step_tables import DeadLetters
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.stage_below import main_writes_table
from rubricworks.training.config import EngineOptions, SftConfig

REWRITING_VERSION = "rewriting-1"
"""Version of the prompt below and of the choice among captions."""


class RewriteSft(SftConfig, Algorithm):
    """Supervised training on the student's own captions after rewriting, judged by the rubric reward's judge."""

    rewards: ClassVar[Sequence[str]] = ("rubric",)

    type: Literal["rewrite_sft"]
    attempts: int = Field(default=4, ge=1)
    """Rewritings of one caption at most; of several captions that miss a criterion, the best is learnt."""
    follows_instructions: bool = True
    """The student reads its caption and the criteria and rewrites; otherwise it draws another caption, which suits a
    tiny student that knows one prompt.
    """
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=1024, ge=1)
    drafts_per_batch: int = Field(default=64, ge=1)
    """Captions that the student writes at once."""
    engine: EngineOptions = EngineOptions()

    def versions(self) -> dict[str, str]:
        return {"rewriting": REWRITING_VERSION}

    def train(self, stage: PolicyStage) -> None:
        assert isinstance(stage.reward, RubricReward)
        train_on_captions(stage, rewritten_captions(self, stage.reward, stage.job, seed=stage.config.seed), self)

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        assert isinstance(reward, RubricReward)
        drafts = size.samples * (self.attempts + 1)  # at most: captions that meet all criteria are not rewritten
        yield from grading_plan(reward.judge, *grading_calls(drafts, reward.call_per))

    def describe(self) -> str:
        return f"The policy was trained on its own captions (SFT), each rewritten up to {self.attempts} times."


def rewritten_captions(options: RewriteSft, reward: RubricReward, job: Job, *, seed: int) -> dict[str, tuple[str, ...]]:
    """sample_id → the student's caption of a training sample after its rewritings, from the table `rewritten`.

    Raises:
        UserError: no training sample has a rubric that a caption could be judged by.
    """
    table = job.out / "rewritten"
    judge = OpenJudge(reward.judge, job, call_per=reward.call_per)
    main_writes_table(table, lambda: asyncio.run(_Rewriting(options, job, judge, seed).write()))
    captions = captions_by("student", table)
    if not captions:
        raise UserError(f"none of the samples has a rubric and a caption that could be judged by it; see {table}")
    return captions


class _Draft(NamedTuple):
    """A caption with its grading."""

    caption: str
    tokens: int
    attempt: int
    card: Scorecard
    reward: float | None
    """None if the judge failed."""


class _Rewriting:
    def __init__(self, options: RewriteSft, job: Job, judge: OpenJudge, seed: int) -> None:
        from rubricworks.training.engine import load_engine

        self.options, self.job, self.seed = options, job, seed
        self._letters = DeadLetters(job)
        self._clients = judge.clients
        self._grader: Grader | Cascade = judge.grader(self._letters.add)
        model = model_dir(job.inputs["model"])
        self._engine = load_engine(model, options.engine, batch_size=options.drafts_per_batch)
        rows = read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
        self._rubrics = {row["sample_id"]: Rubric.model_validate_json(row["rubric"]) for row in rows}
        self._met = 0

    async def write(self) -> None:
        trained = read_samples(self.job.inputs["samples"], "train")
        samples = [sample for sample in trained if sample.sample_id in self._rubrics]
        progress = self.job.progress(len(samples), "samples")
        table = self.job.out / "rewritten"
        async with AsyncExitStack() as stack:
            for client in self._clients:
                await stack.enter_async_context(client)
            manifest = await build_table(
                table,
                "captions",
                samples,
                self._rewrite,
                made_by=self.job.made_by,
                shard_size=self.options.drafts_per_batch,
                side_tables={"dead_letters": table / "dead_letters"},
                progress=progress.at,
            )
        self._engine.close()
        self.job.figures.update(rewritten=manifest.rows, all_met=self._met)

    async def _rewrite(self, samples: list[Sample]) -> Mapping[str, list[Row]]:
        best: dict[str, _Draft] = {}
        last: dict[str, _Draft] = {}
        pending = samples
        for attempt in range(self.options.attempts + 1):
            drafts = await self._draft(pending, last, attempt)
            for sample, draft in zip(pending, drafts, strict=True):
                last[sample.sample_id] = draft
                if draft.reward is not None and (
                    sample.sample_id not in best or draft.reward > (best[sample.sample_id].reward or 0.0)
                ):
                    best[sample.sample_id] = draft
            pending = [
                sample for sample in pending if sample.sample_id not in best or best[sample.sample_id].reward != 1
            ]
            if not pending:
                break
        self._met += len(samples) - len(pending)
        rows = [self._row(sample, best[sample.sample_id]) for sample in samples if sample.sample_id in best]
        return {"captions": rows, "dead_letters": self._letters.drain()}

    async def _draft(self, samples: list[Sample], last: Mapping[str, _Draft], attempt: int) -> list[_Draft]:
        captions = self._engine(
            [sample.require_image("the student captions it") for sample in samples],
            [self._prompt(sample, last.get(sample.sample_id)) for sample in samples],
            max_new_tokens=self.options.max_new_tokens,
            temperature=self.options.temperature,
            seed=self.seed + attempt,
        )

        async def grade(sample: Sample, caption: str, tokens: int) -> _Draft:
            rubric = self._rubrics[sample.sample_id]
            card = await self._grader.grade(sample, caption, rubric)
            return _Draft(caption, tokens, attempt, card, signed_reward(card.credits, rubric.weights))

        pairs = zip(samples, captions, strict=True)
        return await asyncio.gather(*(grade(sample, text, tokens) for sample, (text, tokens) in pairs))

    def _prompt(self, sample: Sample, last: _Draft | None) -> str:
        if last is None or not self.options.follows_instructions:
            return sample.prompt
        return rewriting_prompt(sample.prompt, last.caption, self._rubrics[sample.sample_id])

    def _row(self, sample: Sample, draft: _Draft) -> Row:
        return {
            "sample_id": sample.sample_id,
            "captioner": "student",
            "model": model_dir(self.job.inputs["model"]).parent.name,
            "revision": self.job.made_by["inputs"]["model"],
            "prompt_version": REWRITING_VERSION,
            "endpoint": "",
            "seed": self.seed + draft.attempt,
            "caption": draft.caption,
            "prompt_tokens": 0,
            "completion_tokens": draft.tokens,
            "cost": 0.0,
        }


def rewriting_prompt(prompt: str, caption: str, rubric: Rubric) -> str:
    """Request to rewrite a caption so that it meets the whole rubric."""
    criteria = "\n".join(f"- {criterion.criterion}: {criterion.evaluation_rule}" for criterion in rubric.criteria)
    return (
        f"{prompt}\n\nThis is a first caption of the image, and what a good caption of it must meet:\n"
        f"{fence('caption', caption)}\n{fence('criteria', criteria)}\n\n"
        "Rewrite the caption so that it meets every criterion. Keep what is right, add nothing that the image does not "
        "show, and do not speak of the criteria. Answer with the caption alone."
    )
