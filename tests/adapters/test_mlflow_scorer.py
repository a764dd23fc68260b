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
from rubricworks.rubrics import Criterion, Rubric

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow_scorer.py"
pytestmark = pytest.mark.slow  # mlflow.genai alone takes seconds to import
CAPTIONS = ["a red circle", "one circle", "outage"]


@pytest.fixture
def scorer(serve):
    from rubricworks.adapters.mlflow import RubricScorer

    return RubricScorer(Grader(ChatClient(Endpoint(url=serve(word_judge).url, model="j"), attempts=1)))


def test_a_row_has_its_reward_and_a_feedback_for_each_criterion(scorer):
    feedbacks = scorer(inputs={"question": "?"}, outputs="one circle", expectations={"rubric": RUBRIC.model_dump()})
    assert [(feedback.name, feedback.value) for feedback in feedbacks] == [
        ("rubric", 0.25),
        ("rubric/red", 0),
        ("rubric/circle", 1),
    ]
    assert [feedback.rationale for feedback in feedbacks] == [None, "looked", "looked"]
    assert feedbacks[1].metadata == {"criterion": "red", "weight": "3"}
    assert {(feedback.source.source_type, feedback.source.source_id) for feedback in feedbacks} == {("LLM_JUDGE", "j")}


def test_what_was_not_judged_is_an_error_without_a_value(scorer):
    feedbacks = scorer(outputs="outage", expectations={"rubric": RUBRIC.model_dump_json()})
    assert [feedback.value for feedback in feedbacks] == [None] * 3
    assert {feedback.error.error_code for feedback in feedbacks} == {"TRANSPORT"}
    with pytest.raises(UserError, match="no rubric"):
        scorer(outputs="a red circle")


@pytest.fixture
def evaluation(tmp_path, monkeypatch):
    """Returns MLflow's evaluation of captions by a rubric, in a store of its own."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    before, store = mlflow.get_tracking_uri(), f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)

    def evaluate(scorer, captions, rubric):
        expected = {"rubric": rubric.model_dump_json()}
        rows = [{"inputs": {"question": "?"}, "outputs": text, "expectations": expected} for text in captions]
        return mlflow.genai.evaluate(data=rows, scorers=[scorer])

    yield evaluate
    mlflow.set_tracking_uri(before)


def test_mlflows_evaluation_takes_it_and_its_means_leave_out_what_was_not_judged(scorer, evaluation):
    result = evaluation(scorer, CAPTIONS, RUBRIC)
    assert result.metrics["rubric/mean"] == pytest.approx((1 + 0.25) / 2)
    assert result.metrics["rubric/red/mean"] == pytest.approx(0.5)
    assert result.metrics["rubric/circle/mean"] == 1


LONG = "Explains that a fever above 39 °C in an infant under 3 months (even without other signs) needs a doctor's " * 3
TITLES = (
    "States the dose (81 mg), and that it is taken daily",
    "Doesn't recommend > 2 drinks a day; 100% abstinence is named",
    "./a//b",
    "trailing/",
    "..",
    "Nennt Größe und Farbe: rot/grün",
    LONG + "today",
    LONG + "tomorrow",
)


def test_titles_that_are_no_names_of_mlflows_metrics_do_not_end_an_evaluation(scorer, evaluation):
    rubric = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in TITLES))
    result = evaluation(scorer, [TITLES[0], LONG + "today"], rubric)
    assert result.metrics["rubric/mean"] == 1 / len(TITLES)
    means = {name: mean for name, mean in result.metrics.items() if name != "rubric/mean"}
    assert sorted(means.values()) == [0] * 6 + [0.5] * 2
    assert means["rubric/Nennt Größe und Farbe: rot/grün/mean"] == 0
    (dose,) = (name for name in means if name.startswith("rubric/States the dose 81 mg and that it is taken daily "))
    assert means[dose] == 0.5


def test_a_title_that_is_cut_is_whole_in_the_metadata_of_its_feedback(scorer):
    rubric = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in TITLES))
    feedbacks = scorer(outputs="?", expectations={"rubric": rubric.model_dump()})[1:]
    assert [feedback.metadata["criterion"] for feedback in feedbacks] == list(TITLES)
    assert len({feedback.name for feedback in feedbacks}) == len(TITLES)
    assert max(len(feedback.name) for feedback in feedbacks) == 200


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
