"""A rubric's criteria as MLflow's own judges: registered in a real store, versioned, and run against an endpoint."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_server import fail, say
from test_trl_reward import RUBRIC

from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion, Rubric

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow_judges.py"
pytestmark = pytest.mark.slow  # mlflow.genai alone takes seconds to import


def judge(_, body):
    """Meets the criterion if the response names its title; breaks down over "outage"."""
    text = "\n".join(message["content"] for message in body["messages"])
    response = text.split("outputs: ")[-1]
    if "outage" in response:
        return fail(400)
    title = text.split("Criterion: ")[1].split("\n")[0]
    said = say(json.dumps({"result": title in response, "rationale": f"looked for {title}"}))
    return replace(said, body=json.dumps({**json.loads(said.body), "created": 0}).encode())


@pytest.fixture
def store(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    before, store = mlflow.get_tracking_uri(), f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("MLFLOW_MODEL_CATALOG_URI", "")  # prices of models, from the network
    mlflow.set_tracking_uri(store)
    yield mlflow.create_experiment("captions")
    mlflow.set_tracking_uri(before)


def criterion(title, rule="", **fields):
    return Criterion(criterion=title, evaluation_rule=rule, weight=1, **fields)


def test_each_criterion_gives_a_feedback_with_its_rationale(store, serve):
    from rubricworks.adapters.mlflow_judges import criterion_judges

    server = serve(judge)
    judges = criterion_judges(RUBRIC, model="openai:/judge", base_url=f"{server.url}/chat/completions")
    feedback = [judge(inputs={"prompt": "Describe it."}, outputs="one circle") for judge in judges]
    assert [(answer.name, answer.value, answer.rationale) for answer in feedback] == [
        ("rubric/red", False, "looked for red"),
        ("rubric/circle", True, "looked for circle"),
    ]
    assert "passes if red is named" in json.dumps(server.chats[0].body)


def test_what_the_judge_did_not_judge_has_no_value(store, serve):
    from mlflow.exceptions import MlflowException

    from rubricworks.adapters.mlflow_judges import criterion_judges

    server = serve(judge)
    (answered, _) = criterion_judges(RUBRIC, model="openai:/judge", base_url=f"{server.url}/chat/completions")
    with pytest.raises(MlflowException, match="Failed to invoke"):
        answered(inputs={"prompt": "?"}, outputs="outage")


def test_a_changed_rule_is_a_new_version_of_the_same_judge(store):
    from mlflow.genai.scorers import get_scorer, list_scorers

    from rubricworks.adapters.mlflow_judges import criterion_judges

    for rule in ("passes if red is named", "passes if any shade of red is named"):
        for judge in criterion_judges(Rubric(criteria=(criterion("red", rule),)), model="openai:/judge"):
            judge.register(experiment_id=store)
    assert [scorer.name for scorer in list_scorers(experiment_id=store)] == ["rubric/red"]
    first, second = (get_scorer(name="rubric/red", experiment_id=store, version=number) for number in (1, 2))
    assert "any shade" not in first.instructions
    assert "any shade" in second.instructions


def test_a_judge_of_a_long_title_has_a_name_that_mlflow_makes_a_metric_of(store, serve):
    import mlflow

    from rubricworks.adapters.mlflow_judges import criterion_judges

    server, title = serve(judge), "States the dose (81 mg), and that it is taken daily, " * 6
    (scorer,) = criterion_judges(
        Rubric(criteria=(criterion(title.strip()),)), model="openai:/judge", base_url=f"{server.url}/chat/completions"
    )
    scorer.register(experiment_id=store)
    result = mlflow.genai.evaluate(data=[{"inputs": {"prompt": "?"}, "outputs": "none"}], scorers=[scorer])
    assert result.metrics == {f"{scorer.name}/mean": 0}
    assert title.strip() in scorer.instructions


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (criterion("names {{ outputs }}"), "takes '{{' for a variable"),
        (criterion("is 4", reference="expr_verify(target='4')"), "expr_verify checks it"),
    ],
)
def test_what_mlflow_cannot_judge_is_refused(store, bad, message):
    from rubricworks.adapters.mlflow_judges import criterion_judges

    with pytest.raises(UserError, match=message):
        criterion_judges(Rubric(criteria=(bad,)), model="openai:/judge")


def test_the_example_registers_its_criteria(store, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, env=dict(os.environ), cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['rubric/invents a dog', 'rubric/names the cat']"
