"""Caption scorer: turns captions of base and policy into rows of `caption_scores`.

All judges are called concurrently, and the failure of one leaves the scores of the others.
"""

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
    """Clients of the judges; None skips the scores of that judge."""

    assertions: ChatClient
    verification: ChatClient | None
    facts: ChatClient | None
    exam: ChatClient | None
    arena: ChatClient | None
    oracle: Oracle | None


class CaptionPair(NamedTuple):
    """Captions of one sample by base and policy."""

    sample: Sample
    reference: str
    """Empty if the sample has no reference."""
    captions: dict[str, tuple[str, int]]
    """`base` and `policy` → text and its length in tokens."""


class _Scores(NamedTuple):
    """Columns of one row that one judge fills; none if it failed."""

    row: tuple[str, str]
    """Sample and model."""
    columns: Row
    dead_letters: list[Row]


class CaptionScorer:
    """Scorer of caption pairs with the judges of one stage."""

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
            judges.assertions, verifier=judges.verification, pointability=pointability, on_error=self._add_letters
        )
        self._facts = FactJudge(judges.facts) if judges.facts else None
        self._exams = ExamTaker(judges.exam, seed=seed) if judges.exam else None

    async def score(self, pairs: list[CaptionPair]) -> dict[str, list[Row]]:
        """Score a batch; return the rows of both tables."""
        self._failed = []
        rows = {
            (pair.sample.sample_id, model): _row(pair.sample.sample_id, model, *caption)
            for pair in pairs
            for model, caption in pair.captions.items()
        }
        all_scores = await self.job.calls.gather_all(call for pair in pairs for call in self._calls(pair))
        letters = sorted(self._failed, key=lambda row: (row["sample_id"], row["response"] or "", row["raw"]))
        for scores in all_scores:
            rows[scores.row].update(scores.columns)
            letters += scores.dead_letters
        return {"caption_scores": list(rows.values()), "dead_letters": letters}

    def _calls(self, pair: CaptionPair) -> Iterable[Coroutine[Any, Any, _Scores]]:
        sample, judges = pair.sample, self.judges
        exam = self.exams.get(sample.sample_id)
        for model, (caption, _) in pair.captions.items():
            row = (sample.sample_id, model)
            if pair.reference:
                yield self._score_assertions(row, pair, caption)
                if self._facts:
                    yield self._guard(row, "facts", judges.facts, self._score_facts(self._facts, pair, caption))
            if self._exams and exam:
                yield self._guard(row, "exam", judges.exam, self._score_exam(self._exams, sample, caption, exam))
            if judges.oracle:
                yield self._score_by_oracle(row, judges.oracle, sample, caption)
        if judges.arena:
            yield self._guard((sample.sample_id, POLICY), "comparison", judges.arena, self._compare(judges.arena, pair))

    async def _guard(
        self, row: tuple[str, str], purpose: str, client: ChatClient | None, call: Coroutine[Any, Any, Row]
    ) -> _Scores:
        """Await a judge's call; a failure becomes a dead letter."""
        try:
            return _Scores(row, await call, [])
        except ChatError as error:
            by = f" by {client.endpoint.model}" if client else ""
            return _Scores(row, {}, [dead_letter(row[0], self.job, f"{purpose}{by}, {row[1]}", error)])

    async def _score_assertions(self, row: tuple[str, str], pair: CaptionPair, caption: str) -> _Scores:
        from rubricworks.metrics import b_capscore

        image = pair.sample.require_image("the judge checks assertions in it")
        graded = await self._grader.grade(pair.sample.sample_id, image, caption, pair.reference)
        columns: Row = {"graded": graded.model_dump_json()}
        if (scores := graded.scores) is not None and scores.precision is not None and scores.recall is not None:
            columns |= scores._asdict()
            columns["b_capscore"] = b_capscore(scores.precision, scores.recall, scores.linguistic)
        return _Scores(row, columns, [])

    async def _score_facts(self, judge: FactJudge, pair: CaptionPair, caption: str) -> Row:
        image = pair.sample.require_image("the judge checks facts in it")
        judgment = await judge.judge(image, caption, pair.reference)
        every = judgment.score.every
        return {
            "dc_precision": every.precision,
            "dc_recall": every.recall,
            "dc_f1": every.f1,
            "dc_score": judgment.score.score,
            "facts": canonical_json(
                {
                    "caption": [fact.model_dump() for fact in judgment.stated],
                    "reference": [fact.model_dump() for fact in judgment.reference],
                }
            ),
        }

    async def _score_exam(self, taker: ExamTaker, sample: Sample, caption: str, exam: Exam) -> Row:
        result = await taker.take(sample.sample_id, caption, exam)
        return {"caption_qa": result.score, "answers": result.model_dump_json()}

    async def _score_by_oracle(self, row: tuple[str, str], oracle: Oracle, sample: Sample, caption: str) -> _Scores:
        score = (await oracle.score(sample.require_image("the oracle scores captions of it"), [caption]))[0]
        return _Scores(row, {f"oracle_{name}": value for name, value in score.model_dump().items()}, [])

    async def _compare(self, client: ChatClient, pair: CaptionPair) -> Row:
        policy, base = (pair.captions[model][0] for model in (POLICY, BASE))
        image = pair.sample.require_image("the judge compares captions of it")
        comparison = await compare(client, image, policy, base, order=self.order, seed=self.seed)
        return {"win": comparison.win, "judgment": "; ".join(judgment.reason for judgment in comparison.judgments)}

    def _add_letters(self, call: FailedCall) -> None:
        self._failed += grading_dead_letters(self.job, call)


def _row(sample_id: str, model: str, caption: str, tokens: int) -> Row:
    return {"sample_id": sample_id, "model": model, "caption": caption, "tokens": tokens}
