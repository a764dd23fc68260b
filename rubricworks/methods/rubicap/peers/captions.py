"""Captions that the supervised peers learn: those of the images, of a model, or of the student after rewriting."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from rubricworks.data.tables import Sample, build_table, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.grading.assertions.texts import has_words
from rubricworks.llm import ChatClient, fence
from rubricworks.methods.rubicap.peers.config import RewritingPeer, SupervisedPeer
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.stage_below import main_runs_below, main_writes_table
from rubricworks.stages.synthesis import caption_committee
from rubricworks.stages.training.policy_training import DeadLetters
from rubricworks.stages.training.references import training_references

REWRITING_VERSION = "rewriting-1"
"""Version of the prompt below and of the choice among captions."""


def supervised_captions(peer: SupervisedPeer, job: Job, *, seed: int) -> dict[str, tuple[str, ...]]:
    """sample_id → the captions of a training sample that the peer learns.

    Raises:
        UserError: there is none.
    """
    if peer.captioner is None:
        references = training_references(job, "to learn; give the images captions, or name a policy.peer.captioner")
        return {name: (text,) for name, text in references.items()}
    model = peer.captioner.model
    if not (captions := _captions_by(model, job.inputs["captions"])):
        config = caption_committee.Config(teachers=(peer.captioner,), seed=seed)
        table = main_runs_below(caption_committee, config, job, {"samples": job.inputs["samples"]}, ("train",))
        captions = _captions_by(model, table)
    if not captions:
        raise UserError(f"policy.peer.captioner: {model} captioned none of the samples; see its dead letters")
    return captions


def rewritten_captions(
    peer: RewritingPeer, job: Job, judge: Grader, clients: Sequence[ChatClient], letters: DeadLetters, *, seed: int
) -> dict[str, tuple[str, ...]]:
    """sample_id → the student's caption of a training sample after its rewritings, from the table `rewritten`.

    Args:
        judge: grader of the captions, whose failures are `letters`.
        clients: the judge's clients, which are closed.
    Raises:
        UserError: no training sample has a rubric that a caption could be judged by.
    """
    table = job.out / "rewritten"
    main_writes_table(table, lambda: asyncio.run(_Rewriting(peer, job, judge, letters, seed).write(clients)))
    captions = _captions_by("student", table)
    if not captions:
        raise UserError(f"none of the samples has a rubric and a caption that could be judged by it; see {table}")
    return captions


def _captions_by(captioner: str, table: object) -> dict[str, tuple[str, ...]]:
    captions: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for row in read_rows(table, columns=["sample_id", "captioner", "caption"]):  # type: ignore[arg-type]
        if row["captioner"] == captioner and has_words(row["caption"]):
            captions[row["sample_id"]] += (row["caption"],)
    return dict(captions)


class _Draft(NamedTuple):
    """A caption with its grading."""

    caption: str
    tokens: int
    attempt: int
    card: Scorecard
    reward: float | None
    """None if the judge failed."""


class _Rewriting:
    def __init__(self, peer: RewritingPeer, job: Job, judge: Grader, letters: DeadLetters, seed: int) -> None:
        from rubricworks.training.engine import load_engine

        self.peer, self.job, self.judge, self.letters, self.seed = peer, job, judge, letters, seed
        self._engine = load_engine(model_dir(job.inputs["model"]), peer.engine, batch_size=peer.batch_size)
        rows = read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
        self._rubrics = {row["sample_id"]: Rubric.model_validate_json(row["rubric"]) for row in rows}
        self._met = 0

    async def write(self, clients: Sequence[ChatClient]) -> None:
        samples = [one for one in read_samples(self.job.inputs["samples"], "train") if one.sample_id in self._rubrics]
        progress = self.job.progress(len(samples), "samples")
        table = self.job.out / "rewritten"
        async with AsyncExitStack() as stack:
            for client in clients:
                await stack.enter_async_context(client)
            manifest = await build_table(
                table,
                "captions",
                samples,
                self._rewrite,
                made_by=self.job.made_by,
                shard_size=self.peer.batch_size,
                side_tables={"dead_letters": table / "dead_letters"},
                progress=progress.at,
            )
        self._engine.close()
        self.job.figures.update(rewritten=manifest.rows, all_met=self._met)

    async def _rewrite(self, samples: list[Sample]) -> Mapping[str, list[Row]]:
        best: dict[str, _Draft] = {}
        last: dict[str, _Draft] = {}
        pending = samples
        for attempt in range(self.peer.attempts + 1):
            drafts = await self._draft(pending, last, attempt)
            for sample, draft in zip(pending, drafts, strict=True):
                last[sample.sample_id] = draft
                if draft.reward is not None and (
                    sample.sample_id not in best or draft.reward > (best[sample.sample_id].reward or 0.0)
                ):
                    best[sample.sample_id] = draft
            pending = [one for one in pending if one.sample_id not in best or best[one.sample_id].reward != 1]
            if not pending:
                break
        self._met += len(samples) - len(pending)
        rows = [self._row(one, best[one.sample_id]) for one in samples if one.sample_id in best]
        return {"captions": rows, "dead_letters": self.letters.drain()}

    async def _draft(self, samples: list[Sample], last: Mapping[str, _Draft], attempt: int) -> list[_Draft]:
        captions = self._engine(
            [sample.require_image("the student captions it") for sample in samples],
            [self._prompt(sample, last.get(sample.sample_id)) for sample in samples],
            max_new_tokens=self.peer.max_new_tokens,
            temperature=self.peer.temperature,
            seed=self.seed + attempt,
        )

        async def grade(sample: Sample, caption: str, tokens: int) -> _Draft:
            rubric = self._rubrics[sample.sample_id]
            card = await self.judge.grade(sample, caption, rubric)
            return _Draft(caption, tokens, attempt, card, signed_reward(card.credits, rubric.weights))

        pairs = zip(samples, captions, strict=True)
        return await asyncio.gather(*(grade(sample, text, tokens) for sample, (text, tokens) in pairs))

    def _prompt(self, sample: Sample, last: _Draft | None) -> str:
        if last is None or not self.peer.follows_instructions:
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
    criteria = "\n".join(f"- {one.criterion}: {one.evaluation_rule}" for one in rubric.criteria)
    return (
        f"{prompt}\n\nThis is a first caption of the image, and what a good caption of it must meet:\n"
        f"{fence('caption', caption)}\n{fence('criteria', criteria)}\n\n"
        "Rewrite the caption so that it meets every criterion. Keep what is right, add nothing that the image does not "
        "show, and do not speak of the criteria. Answer with the caption alone."
    )
