"""RubricMetric as lmms-eval calls it: document by document, then all at once."""

import json
import math

import numpy as np
import pytest
from scripted_server import say
from test_trl_reward import RUBRIC, word_judge

from rubricworks.adapters.lmms_eval import RubricMetric
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint


@pytest.fixture
def judged(serve):
    return RubricMetric(Grader(ChatClient(Endpoint(url=serve(word_judge).url, model="j"), attempts=1)))


def items(metric, *responses):
    doc = {"question": "Describe it.", "rubric": RUBRIC.model_dump()}
    return [metric.process_results(doc, [response])["rubric"] for response in responses]


def test_the_mean_leaves_out_what_was_not_judged(judged, capsys):
    metric = judged
    assert metric.aggregate(items(metric, "a red circle", "one circle", "outage")) == pytest.approx((1 + 0.25) / 2)
    assert capsys.readouterr().err == "rubric: 1 of 3 not judged\n"


def test_without_a_verdict_the_mean_is_no_number(judged):
    metric = judged
    assert math.isnan(metric.aggregate(items(metric, "outage")))


def test_what_a_document_gives_can_be_written_as_a_sample(judged):
    metric = judged
    (item,) = items(metric, "one circle")
    assert json.loads(json.dumps(item))["response"] == "one circle"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"answer": "Paris"}, "Paris"),
        ({"answer": 4}, "4"),
        ({"answer": ["grey", "gray", "grey"]}, "grey; gray"),
        ({}, None),
        ({"answer": np.array(["grey", "gray"])}, "grey; gray"),
        ({"answer": np.int64(4)}, "4"),
        ({"answer": None}, None),
        ({"answer": ""}, None),
    ],
)
def test_a_judge_of_answers_is_shown_the_documents_reference_answer(serve, fields, shown):
    server = serve([say(json.dumps({"verdicts": [{"id": 1, "reasoning": "", "score": 1}]}))])
    grader = Grader(ChatClient(Endpoint(url=server.url, model="j"), attempts=1), subject="answer")
    metric = RubricMetric(grader)
    doc = {"question": "Which?", "rubric": [{"criterion": "is right", "weight": 1}], **fields}
    assert metric.aggregate([metric.process_results(doc, ["That one."])["rubric"]]) == 1
    asked = json.dumps(server.chats[0].body)
    assert "Which?" in asked
    assert ("reference" in asked.lower().split("which?")[1]) is (shown is not None)
    assert shown is None or shown in asked


def test_a_document_without_a_rubric_is_refused(judged):
    metric = judged
    with pytest.raises(UserError, match="no field 'rubric', only question"):
        metric.process_results({"question": "?"}, ["a cat"])
