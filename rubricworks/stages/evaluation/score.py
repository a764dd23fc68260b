"""Score models on the held-out samples: the tables `responses` and `scores`, and the scoreboard in `scores.json`.

The base comes first, and every other model is compared with it or with another opponent. A response that a scorer could
not judge has a row without a value, and a dead letter with the failed call. With `questions` the models also answer
visual questions, which measures what training on captions made them forget (BalCapRL, Table 2). `model` links to the
candidate's best milestone where milestones were scored.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from itertools import count, islice
from pathlib import Path
from statistics import mean
from typing import ClassVar, cast

from pydantic import Field, model_validator

from rubricworks.data.response_images import IMAGES, ResponseImages, response_of
from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_rubrics, read_samples, read_shard
from rubricworks.errors import UserError
from rubricworks.evaluation.models import Decoding, EvaluatedModel, ModelSource
from rubricworks.evaluation.prompt_rewriting import REWRITING_VERSION
from rubricworks.evaluation.scoreboard import BASE, POLICY, SCORES_FILE, Scoreboard, figure_name, summarise_scores
from rubricworks.evaluation.scorers.answers import check_by_rules
from rubricworks.evaluation.scorers.caption_qa import read_exams
from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreBatch, Scorer, ScoringContext
from rubricworks.evaluation.scorers.scorer_table import Scorers
from rubricworks.grading import FailedCall
from rubricworks.grading.assertion_texts import first_reference
from rubricworks.llm import Endpoint
from rubricworks.rubrics import Response
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.data.visual_questions import VisualQuestions, questions_about, samples_by_digest
from rubricworks.stages.evaluation.responses import RESPONSES, Batch, Generation, write_responses
from rubricworks.storage import link, write_atomic
from rubricworks.tracking import stage_run
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.training.config import EngineOptions, engine_field
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.model_card import CARD, card_with_scores
from rubricworks.verifiers import CannotVerify

CARDS = "cards"
"""Folder of the models' cards with their scores."""
_TRACKED_ROWS = 48
_NEEDS: dict[Need, str] = {
    "rubric": "a rubric: run the stage that writes rubrics for held-out samples",
    "exam": "an exam: run the stage write_exams for held-out samples",
    "reference": ("a reference caption: give captions with the images, or have a model write them (stage recap)"),
    "answer": "a reference answer: give answers with the questions",
    "opponent": "an opponent: score a second model",
}


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
    _link_best(job, scoring.models, board)
    _write_cards(job, scoring.models, board)
    job.figures.update(scores=count_rows(job.out), dead_letters=count_rows(job.out / "dead_letters"))
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(board.metrics())
        for scores in board.models:
            if scores.step is not None:
                means = {f"{scores.model}/{figure}": mean.value for figure, mean in scores.means.items()}
                log.log_metrics(means, step=scores.step)
        log.log_table("held_out_responses", list(islice(read_rows(job.out / RESPONSES), _TRACKED_ROWS)))


class Scoring:
    """Samples, models and scorers of one evaluation."""

    def __init__(self, config: Config, job: Job) -> None:
        self.config, self.job = config, job
        self._images = ResponseImages(job.out / RESPONSES / IMAGES)
        self.rubrics = read_rubrics(job.inputs["rubrics"]) if "rubrics" in job.inputs else {}
        self.exams = read_exams(job.inputs["exams"]) if "exams" in job.inputs else {}
        self.models = list(_models(config, job))
        if repeated := [key for key, times in Counter(map(_key, self.models)).items() if times > 1]:
            raise UserError(f"two models are called {repeated[0][0]!r}; give each its own name")
        self.scorers = list(config.scorers)
        self.versions = config.versions()
        self.sample_ids, self.tasks = self._scorable_samples()
        self.questions = self._visual_questions()
        self.skipped = {scorer.name: reason for scorer in self.scorers if (reason := scorer.unavailable())}
        if len(self.skipped) == len(self.scorers):
            raise UserError("; ".join(f"{name} cannot score: {reason}" for name, reason in self.skipped.items()))
        self._corpora: dict[tuple[str, tuple[str, int | None, str]], dict[str | None, list[Score]]] = {}

    @property
    def batch_count(self) -> int:
        return len(self.models) * -(-len(self.sample_ids) // self.config.batch_size)

    def batches(self) -> Iterator[Batch]:
        """Batches of all models, in the same order on every run; one is in memory at a time."""
        for model in self.models:
            samples = (one for one in self._samples() if one.sample_id in self.sample_ids)
            for part in count():
                if not (chunk := list(islice(samples, self.config.batch_size))):
                    break
                questions = [one for sample in chunk for one in self.questions.get(sample.sample_id, ())]
                questions += [one for sample in chunk for one in self._variants(sample).values()]
                yield Batch(model, part, chunk, questions)

    async def write_scores(self) -> None:
        """Write the table `scores` and its dead letters."""
        async with AsyncExitStack() as stack:
            context = ScoringContext(
                stack=stack,
                make_client=self.job.client,
                gather=self.job.calls.gather_all,
                on_failure=self._add_failure,
                rubrics=self.rubrics,
                exams=self.exams,
                seed=self.config.seed,
                scratch=self.job.scratch,
                serve=self._serve,
            )
            self._context = context
            functions = [
                (scorer, await scorer.open_batch(context)) for scorer in self.scorers if scorer.name not in self.skipped
            ]

            async def make_rows(chunk: list[tuple[int, Batch]]) -> dict[str, list[Row]]:
                self._failures: list[FailedCall] = []
                rows = [row for shard, batch in chunk for row in await self._score(functions, shard, batch)]
                letters = [row for call in self._failures for row in grading_dead_letters(self.job, call)]
                letters.sort(key=lambda row: tuple(str(row[name] or "") for name in _LETTER_ORDER))
                return {"scores": rows, "dead_letters": letters}

            await build_table(
                self.job.out,
                "scores",
                enumerate(self.batches()),
                make_rows,
                made_by=self.job.made_by,
                shard_size=1,
                side_tables={"dead_letters": self.job.out / "dead_letters"},
                progress=self.job.progress(self.batch_count, "batches of scores").at,
            )
        for name, tally in context.tallies.items():
            if fault := tally.fault:
                self.job.mark_unusable()
                raise UserError(f"{name}: {fault}")

    def summarise(self) -> Scoreboard:
        """Summarise the scores.

        Raises:
            UserError: a scorer judged no response.
        """
        by_task = [figure_name(one.name, part) for one in self.scorers if one.by_task for part in one.figure_parts()]
        board = summarise_scores(
            read_rows(self.job.out),
            base=self.config.opponent,
            tasks=self.tasks,
            titles={figure: title for scorer in self.scorers for figure, title in scorer.titles().items()},
            scorers=[scorer.name for scorer in self.scorers],
            by_task=by_task,
            unbounded=[figure_name(one.name, part) for one in self.scorers for part in one.unbounded],
            skipped=self.skipped,
            select_by=self.config.select_by if self.config.milestones else None,
            seed=self.config.seed,
        )
        columns = ["scorer", "reason"]
        reasons = Counter((row["scorer"], row["reason"]) for row in read_rows(self.job.out, columns=columns))
        for scorer in self.scorers:
            mine = Counter({reason: times for (name, reason), times in reasons.items() if name == scorer.name})
            if mine and None not in mine and scorer.name not in self.skipped:
                self.job.mark_unusable()
                reason = ", ".join(f"{times} x {reason}" for reason, times in mine.most_common(2))
                raise UserError(
                    f"{scorer.name} could judge no response ({reason}); see {self.job.out / 'dead_letters'}"
                )
        return board

    async def _score(self, functions: list[tuple[Scorer, ScoreBatch]], shard: int, batch: Batch) -> list[Row]:
        """Rows of one batch: by scorer in their order, then the length of the responses and the visual questions."""
        rows = {row["sample_id"]: row for row in read_shard(self.job.out / RESPONSES, shard)}
        opponents, field = self._opponents(batch), self._field(batch)
        items = [
            Item(
                sample,
                self._response(rows[sample.sample_id]),
                opponents.get(sample.sample_id),
                _label(batch.model),
                {
                    label: responses[sample.sample_id]
                    for label, responses in field.items()
                    if sample.sample_id in responses
                },
                {
                    name: self._response(rows[variant.sample_id])
                    for name, variant in self._variants(sample).items()
                    if variant.sample_id in rows
                },
            )
            for sample in batch.samples
            if sample.sample_id in rows
        ]
        compared = batch.model.name != self.config.opponent
        used = [(scorer, function) for scorer, function in functions if compared or "opponent" not in scorer.needs]
        results = await self.job.calls.gather_all(
            self._corpus_scores(scorer, function, batch) if scorer.needs_corpus else function(items)
            for scorer, function in used
            if not scorer.measures_models
        )
        used = [(scorer, function) for scorer, function in used if not scorer.measures_models]
        measured = [scorer for scorer, _ in functions if scorer.measures_models and batch.part == 0]
        scored: list[Row] = []
        given = [(scorer, scores) for (scorer, _), scores in zip(used, results, strict=True)]
        given += [(scorer, await scorer.measure(batch.model, self._context)) for scorer in measured]
        for scorer in self.scorers:
            if scorer.name in self.skipped:
                given.append((scorer, self._not_available(scorer, items)))
        for scorer, scores in given:
            absent = [
                Score(sample_id=sample.sample_id, part=part, value=None, reason="no response")
                for sample in batch.samples
                if sample.sample_id not in rows and not scorer.measures_models
                for part in scorer.figure_parts()
            ]
            against = self.config.opponent if "opponent" in scorer.needs else None
            version, judge = self.versions[scorer.name], scorer.judges()
            scored += [
                _score_row(batch.model, score, scorer.name, version=version, judge=judge, against=against)
                for score in [*scores, *absent]
            ]
        for item in items:
            if (tokens := rows[item.sample.sample_id]["tokens"]) is not None:
                length = Score(sample_id=item.sample.sample_id, part="tokens", value=tokens)
                scored.append(_score_row(batch.model, length, "length"))
        for sample_id, share in self._answered(batch, rows).items():
            answered = Score(sample_id=sample_id, part="right", value=share)
            scored.append(_score_row(batch.model, answered, "visual_questions"))
        return scored

    def _opponents(self, batch: Batch) -> Mapping[str, Response]:
        """The opponent's responses to a batch's samples, with the same decoding if it has it."""
        if batch.model.name == self.config.opponent or not any("opponent" in one.needs for one in self.scorers):
            return {}
        candidates = [number for number, model in enumerate(self.models) if model.name == self.config.opponent]
        if not candidates:
            return {}
        same = [number for number in candidates if self.models[number].decoding == batch.model.decoding]
        parts = self.batch_count // len(self.models)
        shard = (same or candidates)[0] * parts + batch.part
        return {row["sample_id"]: self._response(row) for row in read_shard(self.job.out / RESPONSES, shard)}

    def _field(self, batch: Batch) -> dict[str, dict[str, Response]]:
        """Label → sample → response of all models with the batch's decoding, for scorers that compare them."""
        if not any(scorer.needs_field for scorer in self.scorers):
            return {}
        parts = self.batch_count // len(self.models)
        field: dict[str, dict[str, Response]] = {}
        for number, model in enumerate(self.models):
            if model.decoding == batch.model.decoding:
                shard = read_shard(self.job.out / RESPONSES, number * parts + batch.part)
                field[_label(model)] = {row["sample_id"]: self._response(row) for row in shard}
        return field

    def _variants(self, sample: Sample) -> dict[str, Sample]:
        """Variant → the sample with another prompt, for scorers that ask models again."""
        prompts = {name: text for scorer in self.scorers for name, text in scorer.variants(sample.prompt).items()}
        return {
            name: sample.model_copy(
                update={
                    "sample_id": f"{sample.sample_id}#{name}",
                    "source": f"{sample.source}#{name}",
                    "prompt": prompt,
                }
            )
            for name, prompt in prompts.items()
        }

    def _serve(self, folder: str) -> AbstractContextManager[str]:
        from rubricworks.training.model_server import served_model

        return served_model(folder, self.config.engine, batch_size=self.config.batch_size)

    def _not_available(self, scorer: Scorer, items: list[Item]) -> list[Score]:
        """Scores without a value of a scorer that cannot score on this machine."""
        reason = f"not available: {self.skipped[scorer.name]}"
        return [
            Score(sample_id=item.sample.sample_id, part=part, value=None, reason=reason)
            for item in items
            for part in scorer.figure_parts()
        ]

    async def _corpus_scores(self, scorer: Scorer, function: ScoreBatch, batch: Batch) -> list[Score]:
        """Scores of a batch's responses from those of all of the model's; scores of the whole in its first batch."""
        key = (scorer.name, _key(batch.model))
        if key not in self._corpora:
            first = self.models.index(batch.model) * (parts := self.batch_count // len(self.models))
            rows = {
                row["sample_id"]: row
                for number in range(first, first + parts)
                for row in read_shard(self.job.out / RESPONSES, number)
            }
            columns = [name for name in Sample.model_fields if name != "image"]
            samples = (
                Sample.model_validate(row)
                for row in read_rows(self.job.inputs["samples"], columns=columns)
                if row["sample_id"] in self.sample_ids and row["sample_id"] in rows
            )
            items = [Item(sample, self._response(rows[sample.sample_id]), model=batch.model.name) for sample in samples]
            scores: dict[str | None, list[Score]] = defaultdict(list)
            for score in await function(items) if items else []:
                scores[score.sample_id].append(score)
            self._corpora[key] = scores
        scores = self._corpora[key]
        chosen = [None] if batch.part == 0 else []
        return [
            score
            for sample_id in [*(sample.sample_id for sample in batch.samples), *chosen]
            for score in scores.get(sample_id, ())
        ]

    def _response(self, row: Row) -> Response:
        return self._images.read(response_of(row))

    def _answered(self, batch: Batch, rows: Mapping[str, Row]) -> dict[str, float]:
        """Sample → share of right answers to the questions about its picture; those no rule can check are left out."""
        shares: dict[str, float] = {}
        for sample in batch.samples:
            right = []
            for question in self.questions.get(sample.sample_id, ()):
                try:
                    right.append(check_by_rules(question, rows[question.sample_id]["response"]))
                except (CannotVerify, KeyError):  # the reference is at fault, or an endpoint did not answer
                    continue
            if right:
                shares[sample.sample_id] = mean(right)
        return shares

    def _add_failure(self, call: FailedCall) -> None:
        self._failures.append(call)

    def _samples(self) -> Iterator[Sample]:
        return read_samples(self.job.inputs["samples"], *(self.config.splits or ()))

    def _scorable_samples(self) -> tuple[set[str], dict[str, str]]:
        """Samples that at least one scorer can judge, and the task of each.

        Raises:
            UserError: a scorer can judge none of them.
        """
        columns = ["sample_id", "split", "references", "answer", "task"]
        splits = self.config.splits
        rows = [
            row
            for row in read_rows(self.job.inputs["samples"], columns=columns)
            if splits is None or row["split"] in splits
        ]
        if not rows:
            raise UserError(
                f"{self.job.inputs['samples']}: no samples of {', '.join(splits or ('any split',))} to score"
            )
        available: dict[Need, set[str]] = {
            "rubric": set(self.rubrics),
            "exam": set(self.exams),
            "reference": {row["sample_id"] for row in rows if first_reference(row["references"])},
            "answer": {row["sample_id"] for row in rows if row["answer"]},
        }
        everything = {row["sample_id"] for row in rows}
        scorable: set[str] = set()
        for scorer in self.scorers:
            usable = everything.intersection(*(available[need] for need in scorer.needs if need in available))
            if not usable:
                needs = " and ".join(_NEEDS[need] for need in sorted(scorer.needs & available.keys()))
                raise UserError(f"{scorer.name} scores none of the samples: none has {needs}")
            scorable |= usable
        return scorable, {row["sample_id"]: row["task"] for row in rows if row["task"]}

    def _visual_questions(self) -> dict[str, list[Sample]]:
        """Held-out sample → questions about its picture."""
        if self.config.questions is None:
            return {}
        questions: dict[str, list[Sample]] = defaultdict(list)
        held_out = samples_by_digest(self.job.inputs["samples"], *(self.config.splits or ("held_out",)))
        for digest, question in questions_about(held_out, self.config.questions, "evaluation.questions"):
            questions[held_out[digest]].append(question)
        return questions


_LETTER_ORDER = ("sample_id", "purpose", "response", "criterion", "raw")


def _models(config: Config, job: Job) -> Iterator[EvaluatedModel]:
    """Models in the order of the board: base, peer, policy, then the further ones."""
    for name, key in ((BASE, "model"), (config.peer, "peer"), (config.policy, "policy")):
        if key not in job.inputs:
            continue
        revision, folder = job.made_by["inputs"][key], job.inputs[key]
        steps: Mapping[int | None, Path] = {None: model_dir(folder)}
        if config.milestones and name != BASE:
            steps = cast(Mapping[int | None, Path], milestone_dirs(folder))
            if not steps:
                raise UserError(f"{folder} kept no milestones; set policy.milestone_every")
        for step, path in steps.items():
            for decoding in config.decodings:
                source = ModelSource(folder=str(path))
                yield EvaluatedModel(name=name, source=source, revision=revision, step=step, decoding=decoding)
    for name, source in config.models.items():
        endpoint = source.endpoint
        decodings = (
            config.decodings if source.folder else ("sampled" if endpoint and endpoint.temperature else "greedy",)
        )
        for decoding in decodings:
            revision = source.revision or (endpoint.revision if endpoint else "")
            yield EvaluatedModel(name=name, source=source, revision=revision, decoding=decoding)


def _label(model: EvaluatedModel) -> str:
    """Name of a model among all of an evaluation, with its milestone."""
    return model.name if model.step is None else f"{model.name} at {model.step}"


def _key(model: EvaluatedModel) -> tuple[str, int | None, str]:
    return model.name, model.step, model.decoding


def _score_row(
    model: EvaluatedModel, score: Score, scorer: str, *, version: str = "1", judge: str = "", against: str | None = None
) -> Row:
    return {
        **model.columns(),
        "scorer": scorer,
        "version": version,
        "judge": judge,
        **score.model_dump(),
        "against": score.against or against,
    }


def _write_cards(job: Job, models: list[EvaluatedModel], board: Scoreboard) -> None:
    """Write the card of every model directory that has one, with its scores: `cards/NAME.md`."""
    for model in models:
        scores = board.scores(model.name)
        if scores is None or model.folder is None or model.step != scores.step:
            continue
        if not (model.folder / CARD).is_file():
            continue
        parts = {
            figure: {part: getattr(mean, part) for part in ("value", "low", "high", "samples")}
            for figure, mean in scores.means.items()
        }
        figures = {board.title(figure): values for figure, values in parts.items()}
        file = job.out / CARDS / f"{model.name.replace('/', '_')}.md"
        write_atomic(file, card_with_scores(model.folder, figures).encode())


def _link_best(job: Job, models: list[EvaluatedModel], board: Scoreboard) -> None:
    """Link `model` to the best milestone of the candidate."""
    candidate = board.candidate
    if candidate not in board.best:
        return
    folder = next(one.folder for one in models if (one.name, one.step) == (candidate, board.best[candidate]))
    assert folder is not None
    link(model_dir(job.out), folder.resolve())
