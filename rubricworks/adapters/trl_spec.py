"""A rubric set as TRL trains on it, in one line, like the specs of TRL's own integrations:

    spec = RubricSpec("org/name@COMMIT/data", Grader(judge, subject="answer"))
    trainer = GRPOTrainer(model=model, train_dataset=spec.train_dataset, reward_funcs=spec.reward_funcs, args=args)

The source is any file, folder or data set of the Hub that `rubricworks rubrics import` reads, with prompts. A
conversation of several turns stays one.
"""

from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.adapters.rows import completion_text
from rubricworks.adapters.trl import RubricReward
from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set
from rubricworks.errors import UserError
from rubricworks.grading import Grader

if TYPE_CHECKING:
    from datasets import Dataset


class RubricSpec:
    """Dataset and reward functions of one rubric set."""

    def __init__(
        self,
        source: str | Path,
        grader: Grader,
        *,
        format: str | None = None,
        limit: int | None = None,
        conversational: bool = True,
        **options: Any,
    ) -> None:
        """
        Args:
            source: rubric set; see `data.rubric_sets.read_rubric_set`.
            format: its format; found by default.
            limit: rows at most, from the beginning.
            conversational: prompts as messages, for chat models; else as text.
            options: further arguments of `RubricReward`.

        Raises:
            UserError: the grader judges captions, and so would see neither prompts nor reference answers.
        """
        if getattr(grader, "subject", "answer") == "caption":
            raise UserError(
                f"{source}: the grader judges captions, without prompt and reference answer; make it "
                'Grader(judge, subject="answer")'
            )
        self.source, self.format, self.limit, self.conversational = source, format, limit, conversational
        self.reward_funcs = [RubricReward(grader, **options)]

    @cached_property
    def train_dataset(self) -> "Dataset":
        """Columns `prompt`, `rubric` (JSON), `sample_id` and `answer` (the reference answer, or None).

        Raises:
            UserError: the set cannot be read, or a rubric of it has no prompt.
        """
        from datasets import Dataset

        entries = read_rubric_set(self.source, self.format, note=lambda _: None)
        return Dataset.from_list([self._row(entry) for entry in islice(entries, self.limit)])

    def _row(self, entry: RubricEntry) -> dict[str, object]:
        if not entry.prompt:
            raise UserError(
                f"{self.source}: sample {entry.sample_id!r} has no prompt, and a policy needs one to answer"
            )
        rubric, answer = entry.rubric.model_dump_json(), entry.reference or None
        return {"prompt": self._prompt(entry), "rubric": rubric, "sample_id": entry.sample_id, "answer": answer}

    def _prompt(self, entry: RubricEntry) -> str | list[dict[str, str]]:
        if not self.conversational:
            return entry.prompt
        turns = (entry.extras.get("row") or {}).get("prompt")
        if isinstance(turns, list) and len(turns) > 1 and all(_is_message(turn) for turn in turns):
            return [{"role": str(turn["role"]), "content": completion_text([turn])} for turn in turns]
        return [{"role": "user", "content": entry.prompt}]


def _is_message(turn: Any) -> bool:
    return isinstance(turn, dict) and {"role", "content"} <= turn.keys()
