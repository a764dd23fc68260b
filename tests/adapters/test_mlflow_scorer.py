"""RubricScorer in MLflow's own evaluation: one feedback per criterion, and what was not judged has no value."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_server import say
from test_trl_reward import RUBRIC, word_judge

from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow_scorer.py"
pytestmark = pytest.mark.e2e  # mlflow.genai alone takes seconds to import
CAPTIONS = ["a red circle", "one circle", "outage"]


@pytest.fixture
def scorer(serve):
    from rubricworks.adapters.mlflow import RubricScorer

    return RubricScorer(Grader(ChatClient(Endpoint(url=serve(word_judge).url, model="j", attempts=1))))


def test_a_row_has_its_reward_and_a_feedback_for_each_criterion(scorer):
    feedbacks = scorer(inputs={"question": "?"}, outputs="one circle", expectations={"rubric": RUBRIC.model_dump()})
    assert [(one.name, one.value) for one in feedbacks] == [("rubric", 0.25), ("rubric/red", 0), ("rubric/circle", 1)]
    assert [one.rationale for one in feedbacks] == [None, "looked", "looked"]
    assert feedbacks[1].metadata == {"weight": "3"}
    assert {(one.source.source_type, one.source.source_id) for one in feedbacks} == {("LLM_JUDGE", "j")}


def test_what_was_not_judged_is_an_error_without_a_value(scorer):
    feedbacks = scorer(outputs="outage", expectations={"rubric": RUBRIC.model_dump_json()})
    assert [one.value for one in feedbacks] == [None] * 3
    assert {one.error.error_code for one in feedbacks} == {"TRANSPORT"}
    with pytest.raises(UserError, match="no rubric"):
        scorer(outputs="a red circle")


def test_mlflows_evaluation_takes_it_and_its_means_leave_out_what_was_not_judged(scorer, tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    before, store = mlflow.get_tracking_uri(), f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    rows = [
        {"inputs": {"question": "?"}, "outputs": text, "expectations": {"rubric": RUBRIC.model_dump_json()}}
        for text in CAPTIONS
    ]
    try:
        result = mlflow.genai.evaluate(data=rows, scorers=[scorer])
    finally:
        mlflow.set_tracking_uri(before)
    assert result.metrics["rubric/mean"] == pytest.approx((1 + 0.25) / 2)
    assert result.metrics["rubric/red/mean"] == pytest.approx(0.5)
    assert result.metrics["rubric/circle/mean"] == 1


def last_word_judge(_, body):
    """Meets a criterion when the caption holds the last word of its title."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = [{"id": c["id"], "reasoning": "", "score": int(c["criterion"].split()[-1] in caption)} for c in criteria]
    return say(json.dumps({"verdicts": scores}))


def test_the_example_prints_the_means_of_an_evaluation(serve, tmp_path):
    judge = {"JUDGE_URL": serve(last_word_judge).url, "JUDGE_MODEL": "j"}
    variables = {**os.environ, **judge, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    command = [sys.executable, EXAMPLE]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    # Both captions name the cat; the second invents the dog, which takes 2 of 3 away.
    assert "rubric/names the cat/mean: 1.000" in done.stdout
    assert "rubric/invents a dog/mean: 0.500" in done.stdout
    assert f"rubric/mean: {(1 + 1 / 3) / 2:.3f}" in done.stdout
