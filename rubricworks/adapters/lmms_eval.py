"""Rubrics as a metric of lmms-eval: a task whose documents hold rubrics, run with `--include_path`.

    process_results: !function rubric_metric.process_results
    metric_list:
      - {metric: rubric, aggregation: !function rubric_metric.aggregate, higher_is_better: true}

where `rubric_metric.py`, beside the YAML file, holds `metric = RubricMetric(Grader(judge))` and these two methods of
it. lmms-eval gives a metric the document and no target, so the reference answer is a field, too. The responses are
graded at the end, side by side. One that could not be judged is left out of the mean, and
counted on standard error; without any that could be, the mean is NaN. Written against lmms-eval 0.7.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rubricworks.adapters.loop_thread import run_in_loop
from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.terminal import say


class RubricMetric:
    """Mean reward of a task's responses by the rubrics of its documents."""

    def __init__(
        self,
        grader: Grader,
        *,
        rubric_column: str = "rubric",
        prompt_column: str = "question",
        answer_column: str = "answer",
        name: str = "rubric",
    ) -> None:
        """
        Args:
            rubric_column: field of a document with its rubric (JSON, an object or a list of criteria).
            prompt_column: field with the prompt, shown to the judge of a checklist, or of a grader with
                `subject="answer"`.
            answer_column: field with the reference answer, as `doc_to_target` names it, or a list of right ones; shown
                to the judge of a grader with `subject="answer"`. Documents may lack it.
            name: name of the metric in the task's YAML.
        """
        self.reward, self.name = RubricReward(grader), name
        self.rubric_column, self.prompt_column, self.answer_column = rubric_column, prompt_column, answer_column

    def process_results(self, doc: Mapping[str, object], results: Sequence[str], **options: Any) -> dict[str, object]:
        """Return the response with its document's rubric and reference answer, for `aggregate`.

        Raises:
            UserError: the document has no rubric.
        """
        if doc.get(self.rubric_column) is None:
            raise UserError(f"the document has no field {self.rubric_column!r}, only {', '.join(sorted(doc))}")
        prompt = str(doc.get(self.prompt_column) or "")
        rubric, answer = doc[self.rubric_column], _reference_answer(doc.get(self.answer_column))
        return {self.name: {"prompt": prompt, "response": results[0], "rubric": rubric, "answer": answer}}

    def aggregate(self, items: Sequence[Mapping[str, object]]) -> float:
        """Grade the responses and return the mean reward of those that could be judged."""
        fields = ("prompt", "response", "rubric", "answer")
        prompts, responses, rubrics, answers = ([item[key] for item in items] for key in fields)
        rewards = run_in_loop(self.reward.score(prompts, responses, rubric=rubrics, answer=answers)).rewards
        judged = [reward for reward in rewards if reward is not None]
        if len(judged) < len(rewards):
            say(f"{self.name}: {len(rewards) - len(judged)} of {len(rewards)} not judged")
        return statistics.fmean(judged) if judged else math.nan


def _reference_answer(value: Any) -> str | None:
    """The answer as words; several right ones, as of data sets that asked many people, each once."""
    value = value.tolist() if hasattr(value, "tolist") else value  # numpy's
    answers = value if isinstance(value, list | tuple) else [value]
    return "; ".join(dict.fromkeys(str(answer) for answer in answers if answer not in (None, ""))) or None
