"""General benchmarks: what a model can do beside its training, and what the training made it forget.

`set` is one of `suites.TASK_SETS`, run by lmms-eval and ms-vlmeval, or any name with question files of one's own in
`source`, which are asked here and checked by rules. A model directory is served for the time; a file of responses
cannot be measured. The figure is the mean over the benchmarks of the set (macro average), with one value per sample
where the harness gives one; the paired difference from the base, with its sign changed, is the forgetting. A task that
lacks a sample's score has no mean, and neither has a set that contains it. Tasks that ask a judge ask the recipe's, and
are refused without one.
"""

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from rubricworks.data.question_text import Templates, question_with_options
from rubricworks.data.questions import question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.data.tables import Sample
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.evaluation.own_prompts import OwnPromptName
from rubricworks.evaluation.scorers.answers import check_by_rules, check_with_judge, is_open
from rubricworks.evaluation.scorers.scorer import (
    BenchmarkSpeed,
    Item,
    Score,
    ScoreItem,
    Scorer,
    ScoringContext,
    Workload,
)
from rubricworks.evaluation.suites import lmms_eval, vlmeval
from rubricworks.evaluation.suites.boxed_benchmarks import BOXED_BENCHMARKS, BoxedQuestion, boxed_questions
from rubricworks.evaluation.suites.task_sets import TASK_SETS, Benchmark
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatClient, ChatError, Endpoint, image_part, text_part
from rubricworks.llm.messages import user_message
from rubricworks.llm.usage import PlannedCalls
from rubricworks.rubrics import ErrorClass, Response
from rubricworks.storage import local_path
from rubricworks.verifiers import CannotVerify
from rubricworks.verifiers.boxed import last_boxed

if TYPE_CHECKING:
    from rubricworks.evaluation.models import EvaluatedModel

_FIELD = "evaluation.scorers.benchmarks"
BOXED_SET = "rlr3-15"
_WHOLE = json.dumps({"whole_task": True})
"""Evidence of a row for all samples of a benchmark, if the harness reports no scores per sample."""

_FIRST = ", first "
_ANSWER_TOKENS = 1024
_BOXED_TOKENS = 6144
"""RLR³'s longest response in training; the paper names no limit of its evaluation."""
_JUDGED_SHARE = {"score": 1.0, "extraction": 1.0, "letter": 0.1, "verdict": 0.5}
"""Kind of question to a task's judge → share of its answers."""
_OPEN_SHARE = 0.3
"""Share of answers in words that rules do not find right."""
_SERVED: dict[str, Any] = {"timeout_s": 3600.0, "concurrency": 256}
"""Patience with a model that is served here, which may think for long, and its requests at once: more than answers that
run into their limit are likely to hold.
"""


def sample_limit(version: str) -> int | None:
    """Samples of each benchmark that a version of the scorer measures; None for all of them."""
    _, _, limit = version.rpartition(_FIRST)
    return int(limit) if limit.isdigit() and _FIRST in version else None


class BenchmarkScorer(Scorer):
    by_task: ClassVar[bool] = True
    measures_models: ClassVar[bool] = True
    only_whole: ClassVar[bool] = True

    set: str = Field(pattern=r"^[\w.-]+$")
    """Set of benchmarks: rubicap-10, rubicap-9, pretrain-9, balcaprl-10, rlr3-15, scene-5, or your own name."""
    harness: Literal["lmms-eval", "answers", "questions"] = "lmms-eval"
    """`answers` is RLR³'s own protocol for rlr3-15: step by step, the last box, rules, and `judge` for open answers.
    `questions` asks the question files of `source`. Both need no other program.
    """
    source: str | None = None
    """Question files; with `answers`, a folder with data sets as `ORG/NAME`; with lmms-eval, one of further tasks."""
    tasks: tuple[str, ...] = ()
    """Only these benchmarks of the set, by task."""
    limit: int | None = Field(default=None, ge=1)
    """First samples of each benchmark, to try a recipe out."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens; by default lmms-eval's tasks have limits of their own, and others take 1,024."""
    judge: Endpoint | None = None
    """Judge of open answers, and of the harness's tasks that ask one, such as MM-Vet; these have no figure without."""

    @model_validator(mode="after")
    def _known(self) -> "BenchmarkScorer":
        if self.harness == "questions" and self.source is None:
            raise ValueError("harness: questions needs source, a folder of question files")
        if self.harness == "answers" and (self.set != BOXED_SET or self.source is None):
            raise ValueError(f"harness: answers is the protocol of {BOXED_SET}, and needs source, a folder of its data")
        if self.harness == "lmms-eval" and self.set not in TASK_SETS:
            raise ValueError(f"{self.set} is no set of benchmarks; they are {', '.join(TASK_SETS)}")
        known = {benchmark.task for benchmark in TASK_SETS.get(self.set, ())}
        if self.harness != "questions" and (strange := [task for task in self.tasks if task not in known]):
            raise ValueError(f"{strange[0]} is no task of {self.set}; they are {', '.join(sorted(known))}")
        return self

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"benchmark_{self.set}"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"Benchmarks {self.set}"

    @property
    def version(self) -> str:  # type: ignore[override]
        """Harness and limit: figures of a part of the samples are another measurement."""
        programs = dict.fromkeys(
            f"{benchmark.harness.package} {benchmark.harness.version}" for benchmark in self._benchmarks()
        )
        own = {"questions": "rules 2", "answers": "answers 2"}
        harness = own.get(self.harness) or ", ".join(programs)
        only = f", tasks {'+'.join(self.tasks)}" if self.tasks else ""
        only += f", answers of {self.max_new_tokens} tokens" if self.max_new_tokens else ""
        return harness + only + (f"{_FIRST}{self.limit}" if self.limit else "")

    @property
    def longest_answer(self) -> int:
        """Tokens of the longest answer that a task asks for."""
        if self.harness == "answers":
            return self.max_new_tokens or _BOXED_TOKENS
        if self.harness == "questions":
            return self.max_new_tokens or _ANSWER_TOKENS
        limits = [_ANSWER_TOKENS, *(benchmark.answer_tokens for benchmark in self._benchmarks())]
        return self.max_new_tokens or max(limits)

    def planned_answers(self) -> list[tuple[int, int]]:
        """Number of questions and longest answer, in tokens, of each benchmark.

        Raises:
            UserError: they are not known before a run.
        """
        if self.harness == "questions":
            counts = Counter(
                entry.task or self.set
                for entry in question_entries(fill(str(self.source), f"{_FIELD}.source"))
                if not isinstance(entry, RejectedEntry)
            )
            questions = [count for task, count in sorted(counts.items()) if not self.tasks or task in self.tasks]
        else:
            questions = [benchmark.questions for benchmark in self._benchmarks()]
        if not all(questions):
            raise UserError(f"the number of questions of {self.set} is not known here")
        if self.harness == "lmms-eval":
            limits = [self.max_new_tokens or benchmark.answer_tokens for benchmark in self._benchmarks()]
        else:
            limits = [self.longest_answer] * len(questions)
        return [(min(count, self.limit or count), limit) for count, limit in zip(questions, limits, strict=True)]

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        """Yield the judge's calls, by the usual share of answers that need one."""
        if self.judge is None or self.harness == "questions":
            return
        calls = 0
        for benchmark in self._benchmarks():
            questions = min(benchmark.questions, self.limit or benchmark.questions)
            share = _OPEN_SHARE if self.harness == "answers" else _JUDGED_SHARE.get(benchmark.judge or "", 0)
            calls += work.models * round(questions * share)
        purpose = "benchmark_answers" if self.harness == "answers" else "benchmark_judge"
        yield PlannedCalls(purpose, self.judge, calls, 500, 40)

    async def open(self, context: ScoringContext) -> ScoreItem:
        async def nothing(item: Item) -> list[Score]:
            return []

        return nothing

    async def measure(self, model: "EvaluatedModel", context: ScoringContext) -> list[Score]:
        """Scores of a model on every benchmark; sample ids are `TASK/SAMPLE`.

        Raises:
            UserError: the harness failed, or the model cannot be served.
        """
        endpoint = model.source.endpoint
        if endpoint is None and (folder := model.source.folder) is not None:
            from rubricworks.training.checkpoints import model_digest
            from rubricworks.training.engine import SERVED_NAME

            url = await asyncio.to_thread(context.serve, folder)
            revision = f"{model.revision or model_digest(folder)}, step {model.step}"  # all models have one name
            endpoint = Endpoint(url=url, model=SERVED_NAME, revision=revision, **_SERVED)
        if endpoint is None:
            return [self._unmeasured(task, "only responses of this model are given") for task in self._tasks()]
        if self.harness == "lmms-eval":
            return await self._run(model, endpoint, context)
        client = await context.client(endpoint.model_copy(update={"max_tokens": self.longest_answer}), "benchmark")
        begun = time.monotonic()
        ask = self._ask_boxed if self.harness == "answers" else self._ask
        scores = await ask(client, context)
        if model.source.folder is not None:
            used, seconds = client.totals, time.monotonic() - begun
            context.speeds.append(BenchmarkSpeed(self.set, used.calls - used.cached, used.completion_tokens, seconds))
        return scores

    def _tasks(self) -> list[str]:
        return [benchmark.task for benchmark in self._benchmarks()] or [self.set]

    def _benchmarks(self) -> list[Benchmark]:
        return [
            benchmark for benchmark in TASK_SETS.get(self.set, ()) if not self.tasks or benchmark.task in self.tasks
        ]

    async def _run(self, model: "EvaluatedModel", endpoint: Endpoint, context: ScoringContext) -> list[Score]:
        """Scores by the programs of the set's benchmarks."""
        chosen = self._benchmarks()
        source = local_path(fill(self.source, f"{_FIELD}.source")) if self.source else None
        key = f"{model.name} {model.revision} {model.step} {model.decoding} {endpoint.model} {self.version}"
        key += f" {self.judge.model} {self.judge.revision}" if self.judge else ""
        refused = {benchmark.task for benchmark in chosen if benchmark.judge and self.judge is None}
        by_lmms, by_vlmeval = (
            {
                benchmark.task: benchmark.metric
                for benchmark in chosen
                if benchmark.harness is program and benchmark.task not in refused
            }
            for program in (lmms_eval.LMMS_EVAL, vlmeval.VLMEVAL)
        )
        options: dict[str, Any] = {
            "url": _base_url(endpoint),
            "model": endpoint.model,
            "api_key": os.environ.get(endpoint.api_key_env or "", "") or "none",
            "folder": context.scratch(f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"),
            "limit": self.limit,
            "concurrency": endpoint.concurrency if model.source.folder else min(32, endpoint.concurrency),
        }
        results = await lmms_eval.run_tasks(
            by_lmms,
            **options,
            include=source,
            max_new_tokens=self.max_new_tokens,
            timeout_s=endpoint.timeout_s,
            percent={benchmark.task for benchmark in chosen if benchmark.percent},
            judge=await context.client(self.judge, "benchmark_judge") if self.judge else None,
            forms={benchmark.task: benchmark.judge for benchmark in chosen if benchmark.judge},
        )
        longest = self.max_new_tokens or _ANSWER_TOKENS
        runs = [result for result in results.values() if result.seconds and result.samples]
        if model.source.folder is not None and runs:
            answers, tokens = sum(len(result.samples) for result in runs), sum(result.tokens for result in runs)
            seconds = sum(result.seconds for result in runs)
            context.speeds.append(BenchmarkSpeed(self.set, answers, tokens, seconds))
        results |= await vlmeval.run_tasks(by_vlmeval, **options, max_tokens=longest)
        scores: list[Score] = []
        for benchmark in chosen:
            if benchmark.task in refused:
                scores.append(self._unmeasured(benchmark.task, f"its answers need a judge: give {_FIELD}.judge"))
                continue
            result = results[benchmark.task]
            if not result.samples and result.value is None:
                scores.append(self._unmeasured(benchmark.task, result.reason or "it has no figure"))
            elif not result.samples:
                scores.append(Score(sample_id=f"{benchmark.task}/all", value=result.value, evidence=_WHOLE))
            for sample, value in result.samples.items():
                reason = None if value is not None else "the endpoint did not answer"
                scores.append(Score(sample_id=f"{benchmark.task}/{sample}", value=value, reason=reason))
        return scores

    @property
    def prompt_names(self) -> tuple[OwnPromptName, ...]:
        return ("answers",) if self.harness == "answers" and self.judge else ()

    async def _ask_boxed(self, client: ChatClient, context: ScoringContext) -> list[Score]:
        """Scores by RLR³'s protocol. An answer that runs into its limit has no final answer, and is wrong."""
        judge = await context.client(self.judge, "benchmark_answers") if self.judge else None
        source = local_path(fill(str(self.source), f"{_FIELD}.source"))

        async def score(asked: BoxedQuestion) -> list[Score]:
            try:
                reply = await client.chat([user_message(asked.content)], seed=context.seed)
            except ChatError as error:
                if error.error_class is ErrorClass.TRUNCATED:
                    return [Score(sample_id=asked.sample_id, value=0.0)]
                return [Score(sample_id=asked.sample_id, value=None, reason=error.error_class.value)]
            try:
                right = await self._is_right(asked, reply.value, judge)
            except ChatError as error:
                reason = f"open answers need a judge: give {_FIELD}.judge" if judge is None else "the judge failed"
                context.on_failure(
                    FailedCall(asked.sample_id, Response(reply.value), self.judges() or "none", (self.name,), error)
                )
                return [Score(sample_id=asked.sample_id, value=None, reason=reason)]
            except CannotVerify:
                return [Score(sample_id=asked.sample_id, value=None, reason="the reference answer cannot be read")]
            return [Score(sample_id=asked.sample_id, value=float(right))]

        chosen = [benchmark for benchmark in BOXED_BENCHMARKS if not self.tasks or benchmark.task in self.tasks]
        for benchmark in chosen:  # what is missing, or has another shape, is told before hours of answers
            next(boxed_questions(benchmark, source, 1), None)

        def calls() -> Iterator[Coroutine[Any, Any, list[Score]]]:
            for benchmark in chosen:
                yield from map(score, boxed_questions(benchmark, source, self.limit))

        results = await context.stream(calls(), client.endpoint.concurrency)
        return [scored for scores in results for scored in scores]

    async def _is_right(self, asked: BoxedQuestion, response: str, judge: ChatClient | None) -> bool:
        """True if the response gives one of the reference answers, by rules or by the judge.

        Raises:
            ChatError: the judge failed, or the answer is open and there is none.
        """
        if any(check_by_rules(reference, response) for reference in asked.references):
            return True
        open_ones = [
            reference
            for reference in asked.references
            if is_open(reference.answer or "", options=bool(reference.options)) and last_boxed(response)
        ]
        if open_ones and judge is None:
            raise ChatError(ErrorClass.UNVERIFIABLE, f"the answer is open: give {_FIELD}.judge")
        for reference in open_ones:
            assert judge is not None
            if await check_with_judge(judge, reference, response):
                return True
        return False

    async def _ask(self, client: ChatClient, context: ScoringContext) -> list[Score]:
        """Scores of answers to question files, by rules."""

        async def answer(sample: Sample) -> list[Score]:
            image = [image_part(sample.image)] if sample.image else []
            messages = [user_message([*image, text_part(sample.prompt)])]
            try:
                reply = await client.chat(messages, seed=context.seed)
                right = float(check_by_rules(sample, reply.value))
            except ChatError as error:
                return [Score(sample_id=sample.sample_id, value=None, reason=error.error_class.value)]
            except CannotVerify:
                return [Score(sample_id=sample.sample_id, value=None, reason="the reference answer cannot be read")]
            return [Score(sample_id=sample.sample_id, value=right)]

        questions = list(self._questions())  # all are read before the first is asked
        results = await context.gather(map(answer, questions))
        if not results:
            raise UserError(f"{_FIELD}.source: {self.source} holds no question of {', '.join(self.tasks) or self.set}")
        return [score for scores in results for score in scores]

    def _questions(self) -> Iterator[Sample]:
        """Questions of the chosen tasks.

        Raises:
            UserError: a row cannot be read; the rest of a benchmark is another one.
        """
        counts: dict[str, int] = {}
        for entry in question_entries(fill(str(self.source), f"{_FIELD}.source")):
            item = entry if isinstance(entry, RejectedEntry) else open_image(entry.image)
            if isinstance(entry, RejectedEntry):
                raise UserError(f"{_FIELD}.source: {entry.source}: {entry.reason}; mend or remove the row")
            if isinstance(item, RejectedEntry):
                raise UserError(f"{_FIELD}.source: {item.source}: {item.reason}; mend or remove the row")
            task = entry.task or self.set
            number = counts.get(task, 0)
            if (self.tasks and task not in self.tasks) or (self.limit and number >= self.limit):
                continue
            counts[task] = number + 1
            yield Sample(
                sample_id=f"{task}/{number}",
                image=item.image,
                prompt=Templates().prompt(entry.question, entry.options),
                question=question_with_options(entry.question, entry.options),
                answer=entry.answer,
                task=task,
                options=entry.options or None,
            )

    def _unmeasured(self, task: str, reason: str) -> Score:
        return Score(sample_id=f"{task}/all", value=None, reason=reason)


def _base_url(endpoint: Endpoint) -> str:
    """URL of an endpoint as the OpenAI SDK takes it.

    Raises:
        UserError: it has a query, which the programs would lose.
    """
    url = endpoint.connect_urls()[0]
    if url.query_string:
        raise UserError(
            f"{_FIELD}: the benchmark's own program would ask {endpoint.label} without the query of its URL; give an "
            "address without one, such as Azure's /openai/v1"
        )
    return str(url).rstrip("/")
