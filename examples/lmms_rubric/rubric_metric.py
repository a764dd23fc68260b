"""The metric of `rubric_captions.yaml`: a document's rubric, judged by the endpoint of JUDGE_URL and JUDGE_MODEL."""

import os

from rubricworks.adapters.lmms_eval import RubricMetric
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

metric = RubricMetric(Grader(ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])))
process_results, aggregate = metric.process_results, metric.aggregate


def no_image(doc):
    return []
