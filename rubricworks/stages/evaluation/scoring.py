"""Rows of an evaluation: responses of all models to the held-out samples, scored by every scorer, and their summary.

A model's responses come in batches, which are shards of the tables `responses` and `scores`: batch N of one model has
the same samples as batch N of another, so that opponents are found by their number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from itertools import count, islice
from statistics import mean
from typing import TYPE_CHECKING

from rubricworks.data.response_images import IMAGES, ResponseImages, response_of
from rubricworks.data.tables import Sample, build_table, read_rows, read_rubrics, read_samples, read_shard
from rubricworks.errors import UserError
from rubricworks.evaluation.models import EvaluatedModel
from rubricworks.evaluation.scoreboard import Scoreboard, figure_name, summarise_scores
from rubricworks.evaluation.scorers.answers import check_by_rules
from rubricworks.evaluation.scorers.caption_qa import read_exams
from rubricworks.evaluation.scorers.scorer import SPEEDS, Item, Need, Score, ScoreBatch, Scorer, ScoringContext
from rubricworks.grading import FailedCall
from rubricworks.grading.assertions.texts import first_reference
from rubricworks.rubrics import Response
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import questions_about, samples_by_digest
from rubricworks.stages.evaluation.responses import RESPONSES, Batch
from rubricworks.stages.evaluation.score_config import CaptionEvaluation, Evaluation, TextEvaluation
from rubricworks.stages.evaluation.scored_models import model_key, model_label, scored_models, selecting_figure
from rubricworks.verifiers import CannotVerify

if TYPE_CHECKING:
    from rubricworks.training.engine import ServedEngine

_NEEDS: dict[Need, str] = {
    "rubric": "a rubric: run the stage that writes rubrics for held-out samples",
    "exam": "an exam: run the stage write_exams for held-out samples",
    "reference": ("a reference caption: give captions with the images, or have a model write them (stage recap)"),
    "answer": "a reference answer: give answers with the questions",
    "opponent": "an opponent: score a second model",
}
_LETTER_ORDER = ("sample_id", "purpose", "response", "criterion", "raw")


class Scoring:
    """Samples, models and scorers of one evaluation."""

    def __init__(self, config: Evaluation, job: Job) -> None:
        self.config, self.job = config, job
        self._images = ResponseImages(job.out / RESPONSES / IMAGES)
        self.rubrics = read_rubrics(job.inputs["rubrics"]) if "rubrics" in job.inputs else {}
        self.exams = read_exams(job.inputs["exams"]) if "exams" in job.inputs else {}
        self.models = list(scored_models(config, job))
        if repeated := [key for key, times in Counter(map(model_key, self.models)).items() if times > 1]:
            raise UserError(f"two models are called {repeated[0][0]!r}; give each its own name")
        self.scorers = list(config.scorers)
        self.versions = config.versions()
        self.sample_ids, self.tasks = self._scorable_samples()
        self.questions = self._visual_questions()
        self.skipped = {scorer.name: reason for scorer in self.scorers if (reason := scorer.unavailable())}
        if len(self.skipped) == len(self.scorers):
            raise UserError("; ".join(f"{name} cannot score: {reason}" for name, reason in self.skipped.items()))
        self._served: ServedEngine | None = None
        self._served_folder = ""
        self._corpora: dict[tuple[str, tuple[str, int | None, str]], dict[str | None, list[Score]]] = {}

    @property
    def batch_count(self) -> int:
        return len(self.models) * -(-len(self.sample_ids) // self.config.batch_size)

    def batches(self) -> Iterator[Batch]:
        """Batches of all models, in the same order on every run; one is in memory at a time."""
        for model in self.models:
            samples = (sample for sample in self._samples() if sample.sample_id in self.sample_ids)
            for part in count():
                if not (chunk := list(islice(samples, self.config.batch_size))):
                    break
                questions = [question for sample in chunk for question in self.questions.get(sample.sample_id, ())]
                questions += [variant for sample in chunk for variant in self._variants(sample).values()]
                yield Batch(model, part, chunk, questions)

    async def write_scores(self) -> None:
        """Write the table `scores` and its dead letters."""
        async with AsyncExitStack() as stack:
            context = ScoringContext(
                stack=stack,
                make_client=self.job.client,
                gather=self.job.calls.gather_all,
                stream=self.job.calls.gather_stream,
                on_failure=self._add_failure,
                rubrics=self.rubrics,
                exams=self.exams,
                seed=self.config.seed,
                scratch=self.job.scratch,
                serve=self._serve,
                prompts=self.config.own_prompts(),
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
        if context.speeds:
            self.job.figures[SPEEDS] = context.speeds
        for name, tally in context.tallies.items():
            if fault := tally.fault:
                self.job.mark_unusable()
                raise UserError(f"{name}: {fault}")

    def summarise(self) -> Scoreboard:
        """Summarise the scores.

        Raises:
            UserError: a scorer judged no response.
        """
        by_task = [
            figure_name(scorer.name, part)
            for scorer in self.scorers
            if scorer.by_task
            for part in scorer.figure_parts()
        ]
        board = summarise_scores(
            read_rows(self.job.out),
            base=self.config.opponent,
            policy=self.config.trained_names()[1] if "policy" in self.job.inputs else None,
            tasks=self.tasks,
            titles={figure: title for scorer in self.scorers for figure, title in scorer.titles().items()},
            scorers=[scorer.name for scorer in self.scorers],
            by_task=by_task,
            only_whole=[
                figure_name(scorer.name, part)
                for scorer in self.scorers
                if scorer.only_whole
                for part in scorer.figure_parts()
            ],
            unbounded=[figure_name(scorer.name, part) for scorer in self.scorers for part in scorer.unbounded],
            lower_is_better=[
                figure_name(scorer.name, part) for scorer in self.scorers for part in scorer.lower_is_better
            ],
            skipped=self.skipped,
            select_by=selecting_figure(self.config),
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
                model_label(batch.model),
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
        if batch.model.name == self.config.opponent or not any("opponent" in scorer.needs for scorer in self.scorers):
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
                field[model_label(model)] = {row["sample_id"]: self._response(row) for row in shard}
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

    def _serve(self, folder: str) -> str:
        """Base URL of a model; the engine that serves the first one takes the others in turn."""
        from rubricworks.training.engine import SERVED_NAME
        from rubricworks.training.model_server import served_model
        from rubricworks.training.vllm_server import served_by_vllm, serves_by_vllm

        assert isinstance(self.config, TextEvaluation), "benchmarks measure models that write"
        engine, batch_size = self.config.engine, self.config.batch_size
        if self._served is None:
            server: AbstractContextManager[ServedEngine] = (
                served_by_vllm(folder, engine)
                if serves_by_vllm(engine)
                else served_model(folder, name=SERVED_NAME, batch_size=batch_size)
            )
            self._served = self._context.stack.enter_context(server)
        elif folder != self._served_folder:
            self._served.load(folder)
        self._served_folder = folder
        return self._served.url

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
        key = (scorer.name, model_key(batch.model))
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
        if not isinstance(self.config, CaptionEvaluation) or self.config.questions is None:
            return {}
        questions: dict[str, list[Sample]] = defaultdict(list)
        held_out = samples_by_digest(self.job.inputs["samples"], *(self.config.splits or ("held_out",)))
        for digest, question in questions_about(held_out, self.config.questions, "evaluation.questions"):
            questions[held_out[digest]].append(question)
        return questions


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
