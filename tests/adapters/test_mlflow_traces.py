"""Gradings in MLflow's own store: spans, and an assessment for each verdict."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_trl_reward import RUBRIC, word_judge

from rubricworks.adapters.trl import RubricReward
from rubricworks.data import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint

pytestmark = pytest.mark.slow  # MLflow's store takes seconds to make
EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow_traces.py"


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Returns the traces of a store of its own."""
    import mlflow

    before, store = mlflow.get_tracking_uri(), f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)

    def found():
        mlflow.flush_trace_async_logging()
        return mlflow.search_traces(return_type="list")

    yield found
    mlflow.set_tracking_uri(before)


@pytest.fixture
def grader(serve):
    from rubricworks.adapters.mlflow_traces import TracedGrader

    return TracedGrader(Grader(ChatClient(Endpoint(url=serve(word_judge).url, model="j"), attempts=1)))


def assessments(trace):
    return {assessment.name: assessment for assessment in trace.info.assessments}


def test_grading_is_a_trace_with_its_call_and_an_assessment_per_verdict(traces, grader):
    card = asyncio.run(grader.grade(Sample(sample_id="s1", prompt="?"), "one circle", RUBRIC))
    (trace,) = traces()
    root, call = trace.data.spans
    assert (root.name, root.span_type, call.name, call.span_type) == ("rubric", "EVALUATOR", "judge", "LLM")
    assert call.parent_id == root.span_id
    assert (root.inputs["sample_id"], root.inputs["prompt"], root.inputs["response"]) == ("s1", "?", "one circle")
    assert root.inputs["rubric"] == RUBRIC.model_dump(mode="json")
    assert call.inputs == {"criteria": ["red", "circle"]}
    assert call.attributes["judge"] == "j"
    assert (root.outputs, call.outputs) == ({"reward": 0.25, "credits": [0.0, 1.0]}, list(card.raw))
    by_name = assessments(trace)
    assert {name: assessment.feedback.value for name, assessment in by_name.items()} == {
        "rubric": 0.25,
        "rubric/red": 0,
        "rubric/circle": 1,
    }
    assert (by_name["rubric/red"].rationale, by_name["rubric/red"].metadata["weight"]) == ("looked", "3")
    assert {
        (assessment.source.source_type, assessment.source.source_id, assessment.span_id)
        for assessment in by_name.values()
    } == {("LLM_JUDGE", "j", root.span_id)}


def test_what_was_not_judged_is_an_error_without_a_value(traces, grader):
    asyncio.run(grader.grade(Sample(sample_id="s1"), "outage", RUBRIC))
    by_name = assessments(traces()[0])
    assert {assessment.feedback.value for assessment in by_name.values()} == {None}
    assert {assessment.feedback.error.error_code for assessment in by_name.values()} == {"TRANSPORT"}
    assert len(by_name) == 3


def test_a_trainers_reward_takes_it_and_each_completion_is_a_trace(traces, grader):
    rewards = asyncio.run(RubricReward(grader)(["?"] * 2, ["a red circle", "red"], rubric=[RUBRIC] * 2))
    assert rewards == [1.0, 0.75]
    assert sorted(assessments(trace)["rubric"].feedback.value for trace in traces()) == [0.75, 1.0]


def test_a_traced_grader_shows_its_judges_what_the_grader_would(grader):
    assert (grader.exposure, grader.judges) == (grader.grader.exposure, grader.grader.judges)
    assert len(grader.judges) == 1


def test_a_grading_within_a_trace_is_a_part_of_it(traces, grader):
    import mlflow

    with mlflow.start_span("generation") as generation:
        asyncio.run(grader.grade(Sample(sample_id="s1"), "a red circle", RUBRIC))
    (trace,) = traces()
    assert [span.name for span in trace.data.spans] == ["generation", "rubric", "judge"]
    assert trace.data.spans[1].parent_id == generation.span_id
    assert assessments(trace)["rubric"].span_id == trace.data.spans[1].span_id


def test_the_example_prints_its_assessments(serve, traces):
    variables = {"JUDGE_URL": serve(word_judge).url, "JUDGE_MODEL": "j", **os.environ}
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, env=variables, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "name='rubric/names the cat'" in done.stdout
