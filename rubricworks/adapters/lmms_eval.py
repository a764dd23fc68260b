"""Rubrics as a metric of lmms-eval: a task whose documents hold rubrics, run with `--include_path`.

    process_results: !function rubric_metric.process_results
    metric_list:
      - {metric: rubric, aggregation: !function rubric_metric.aggregate, higher_is_better: true}

where `rubric_metric.py`, beside the YAML file, holds `metric = RubricMetric(Grader(judge))` and these two methods of
it. The responses are graded at the end, side by side. One that could not be judged is left out of the mean, and
counted on standard error; without any that could be, the mean is NaN. Written against lmms-eval 0.7.
"""

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rubricworks.adapters.loop_thread import run_in_loop
from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader


class RubricMetric:
    """Mean reward of a task's responses by the rubrics of its documents."""

    def __init__(
        self, grader: Grader, *, rubric_column: str = "rubric", prompt_column: str = "question", name: str = "rubric"
    ) -> None:
        """
        Args:
            rubric_column: field of a document with its rubric (JSON, an object or a list of criteria).
            prompt_column: field with the prompt, shown to the judge of a checklist, or of a grader with
                `subject="answer"`.
            name: name of the metric in the task's YAML.
        """
        self.reward, self.rubric_column, self.prompt_column, self.name = (
            RubricReward(grader),
            rubric_column,
            prompt_column,
            name,
        )

    def process_results(self, doc: Mapping[str, Any], results: Sequence[str], **options: Any) -> dict[str, Any]:
        """Return the response with its document's rubric, for `aggregate`.

        Raises:
            UserError: the document has no rubric.
        """
        if doc.get(self.rubric_column) is None:
            raise UserError(f"the document has no field {self.rubric_column!r}, only {', '.join(sorted(doc))}")
        prompt = str(doc.get(self.prompt_column) or "")
        return {self.name: {"prompt": prompt, "response": results[0], "rubric": doc[self.rubric_column]}}

    def aggregate(self, items: Sequence[Mapping[str, Any]]) -> float:
        """Grade the responses and return the mean reward of those that could be judged."""
        prompts, responses, rubrics = ([item[key] for item in items] for key in ("prompt", "response", "rubric"))
        rewards = run_in_loop(self.reward.score(prompts, responses, rubric=rubrics)).rewards
        judged = [reward for reward in rewards if reward is not None]
        if len(judged) < len(rewards):
            print(f"{self.name}: {len(rewards) - len(judged)} of {len(rewards)} not judged", file=sys.stderr)
        return statistics.fmean(judged) if judged else math.nan
