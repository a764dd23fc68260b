"""Captions of base and policy to rows of `caption_scores`: every judge is asked at once, and each may fail alone."""

from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple

from rubricworks.data.tables import Sample
from rubricworks.evaluation.caption_summary import BASE, POLICY
from rubricworks.evaluation.scorers.caption_prompts import Exam
from rubricworks.evaluation.scorers.caption_qa import ExamTaker
from rubricworks.evaluation.scorers.dc_score import FactJudge
from rubricworks.evaluation.scorers.oracle import Oracle
from rubricworks.evaluation.scorers.pairwise import Order, compare
from rubricworks.grading import AssertionGrader, FailedCall, Pointability
from rubricworks.llm import ChatClient, ChatError
from rubricworks.runtime.call_table import Row, dead_letter, grading_dead_letters
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.job import Job


class Judges(NamedTuple):
    """Whom to ask; what is None is not scored."""

    assertions: ChatClient
    verification: ChatClient | None
    facts: ChatClient | None
    exam: ChatClient | None
    arena: ChatClient | None
    oracle: Oracle | None


class Described(NamedTuple):
    """One sample and what each model wrote of it."""

    sample: Sample
    reference: str
    """Empty where the sample has none."""
    captions: dict[str, tuple[str, int]]
    """`base` and `policy` → text and its length in tokens."""


class _Heard(NamedTuple):
    """Columns that one judge fills, for one row; nothing where it failed."""

    row: tuple[str, str]
    """Sample and model."""
    columns: Row
    dead_letters: list[Row]


class CaptionScoring:
    """Asks the judges of one stage."""

    def __init__(
        self,
        job: Job,
        judges: Judges,
        exams: dict[str, Exam],
        *,
        pointability: Pointability,
        order: Order,
        seed: int,
    ) -> None:
        self.job, self.judges, self.exams, self.order, self.seed = job, judges, exams, order, seed
        self._failed: list[Row] = []
        self._grader = AssertionGrader(
            judges.assertions, verifier=judges.verification, pointability=pointability, on_error=self._keep
        )
        self._facts = FactJudge(judges.facts) if judges.facts else None
        self._exams = ExamTaker(judges.exam, seed=seed) if judges.exam else None

    async def rows(self, described: list[Described]) -> dict[str, list[Row]]:
        """Rows of both tables for a batch."""
        self._failed = []
        made = {
            (one.sample.sample_id, model): _row(one.sample.sample_id, model, *caption)
            for one in described
            for model, caption in one.captions.items()
        }
        heard = await self.job.calls.gather_all(ask for one in described for ask in self._asks(one))
        letters = sorted(self._failed, key=lambda row: (row["sample_id"], row["response"] or "", row["raw"]))
        for answer in heard:
            made[answer.row].update(answer.columns)
            letters += answer.dead_letters
        return {"caption_scores": list(made.values()), "dead_letters": letters}

    def _asks(self, one: Described) -> Iterable[Coroutine[Any, Any, _Heard]]:
        exam = self.exams.get(one.sample.sample_id)
        for model, (caption, _) in one.captions.items():
            at = (one.sample.sample_id, model)
            if one.reference:
                yield self._assert(at, one, caption)
                if self._facts:
                    yield self._heard(at, "facts", self.judges.facts, self._take_apart(self._facts, one, caption))
            if self._exams and exam:
                yield self._heard(at, "exam", self.judges.exam, self._examine(self._exams, one.sample, caption, exam))
            if self.judges.oracle:
                yield self._know(at, self.judges.oracle, one.sample, caption)
        if self.judges.arena:
            against = self._compare(self.judges.arena, one)
            yield self._heard((one.sample.sample_id, POLICY), "comparison", self.judges.arena, against)

    async def _heard(
        self, at: tuple[str, str], what: str, client: ChatClient | None, ask: Coroutine[Any, Any, Row]
    ) -> _Heard:
        try:
            return _Heard(at, await ask, [])
        except ChatError as error:
            by = f" by {client.endpoint.model}" if client else ""
            return _Heard(at, {}, [dead_letter(at[0], self.job, f"{what}{by}, {at[1]}", error)])

    async def _assert(self, at: tuple[str, str], one: Described, caption: str) -> _Heard:
        from rubricworks.metrics import b_capscore

        graded = await self._grader.grade(one.sample.sample_id, one.sample.image, caption, one.reference)
        columns: Row = {"graded": graded.model_dump_json()}
        if (scores := graded.scores) is not None and scores.precision is not None and scores.recall is not None:
            columns |= scores._asdict()
            columns["b_capscore"] = b_capscore(scores.precision, scores.recall, scores.linguistic)
        return _Heard(at, columns, [])

    async def _take_apart(self, judge: FactJudge, one: Described, caption: str) -> Row:
        judged = await judge.judge(one.sample.image, caption, one.reference)
        every = judged.score.every
        return {
            "dc_precision": every.precision,
            "dc_recall": every.recall,
            "dc_f1": every.f1,
            "dc_score": judged.score.score,
            "facts": canonical_json(
                {
                    "caption": [fact.model_dump() for fact in judged.stated],
                    "reference": [fact.model_dump() for fact in judged.reference],
                }
            ),
        }

    async def _examine(self, taker: ExamTaker, sample: Sample, caption: str, exam: Exam) -> Row:
        taken = await taker.take(sample.sample_id, caption, exam)
        return {"caption_qa": taken.score, "answers": taken.model_dump_json()}

    async def _know(self, at: tuple[str, str], oracle: Oracle, sample: Sample, caption: str) -> _Heard:
        score = (await oracle.score(sample.image, [caption]))[0]
        return _Heard(at, {f"oracle_{name}": value for name, value in score.model_dump().items()}, [])

    async def _compare(self, client: ChatClient, one: Described) -> Row:
        policy, base = (one.captions[model][0] for model in (POLICY, BASE))
        comparison = await compare(client, one.sample.image, policy, base, order=self.order, seed=self.seed)
        return {"win": comparison.win, "judgment": "; ".join(judgment.reason for judgment in comparison.judgments)}

    def _keep(self, call: FailedCall) -> None:
        self._failed += grading_dead_letters(self.job, call)


def _row(sample_id: str, model: str, caption: str, tokens: int) -> Row:
    return {"sample_id": sample_id, "model": model, "caption": caption, "tokens": tokens}
