"""From a submitted recipe to a model that is served, and back, between processes as an installation has them.

MLflow, the service, the run that it starts and the consumer of `examples` are processes of their own; vLLM alone is a
stand-in.
"""

import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow_server import start_mlflow, stop_mlflow
from object_store import free_port
from promotion_storm import MODEL, Installation
from served_api import TOKEN, exchange, wait_for
from test_consumers import example, stand_in
from tiny_run import QUIET

from rubricworks.data.tables import read_rows
from rubricworks.recipe.files import recipe_path
from rubricworks.tracking import TrackingConfig, connect, registry

pytestmark = pytest.mark.slow

SHORT = {
    "world.scenes": 32,
    "data.held_out": 8,
    "data.warm_up": 8,
    "warm_up.sft.steps": 2,
    "warm_up.sft.batch_size": 8,
    "student.max_new_tokens": 8,
    "policy.algorithm.steps": 1,
    "policy.algorithm.rollouts.prompts_per_step": 2,
    "policy.algorithm.rollouts.group_size": 2,
    "policy.algorithm.rollouts.max_new_tokens": 8,
    "policy.algorithm.watch.probe": "null",
    "evaluation.max_new_tokens": 8,
    "evaluation.decodings": "[greedy]",
    "promotion.model_name": MODEL,
    "promotion.gate": "{win_rate_low_above: null, rubric_reward_gain_at_least: -1, samples_at_least: 1}",
}
RESTART = """
    import pathlib, sys
    link, log = map(pathlib.Path, sys.argv[1:])
    assert (link / "config.json").is_file()
    with log.open("a") as lines:
        print(link.resolve().relative_to(link.parent.resolve()).parts[0], file=lines)
"""


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """A server that this process and all that it starts find by the environment."""
    port = free_port()
    (tmp_path / "mlflow").mkdir()
    server = start_mlflow(tmp_path / "mlflow", port)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    yield
    stop_mlflow(server)


@contextmanager
def service(runs: Path, **more: str):
    """URL of `rubricworks server`."""
    environment = {**os.environ, **QUIET, "RUBRICWORKS_API_TOKEN": TOKEN, "RUBRICWORKS_WEBHOOK_SECRET": "k3y", **more}
    command = [sys.executable, "-m", "rubricworks.cli", "server", "--runs", str(runs), "--port", "0"]
    with (runs.parent / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.wait()


def test_submitted_run_is_promoted_by_a_second_person_and_rolled_back(mlflow, tmp_path):
    runs, models, started = tmp_path / "runs", tmp_path / "models", tmp_path / "started"
    script, port = tmp_path / "restart.py", free_port()
    for folder in (runs, models):
        folder.mkdir()
    script.write_text(textwrap.dedent(RESTART))
    link = models / MODEL / "serving"
    vllm = stand_in(lambda *_: (200, {"object": "list", "data": [{"id": MODEL, "root": str(link)}]}))
    with vllm as vllm_url, service(runs, RUBRICWORKS_WEBHOOK_URL=f"http://127.0.0.1:{port}") as url:
        team = Installation(url, runs)
        arguments = (vllm_url, str(models), str(port), sys.executable, str(script), str(link), str(started))
        named = {"RUBRICWORKS_API": url, "RUBRICWORKS_API_TOKEN": team.tokens["runner"]}
        with example("vllm_consumer.py", *arguments, folder=tmp_path, **named) as consumer:

            def is_served(number: int, version: int) -> bool:
                is_confirmed = team.get(f"promotions/{number}")["state"] == "confirmed"
                return is_confirmed and exchange(consumer)[2] == f'{{"serving": {{"{MODEL}": {version}}}}}'.encode()

            overrides = [f"{field}={value}" for field, value in SHORT.items()]
            body = {"recipe": recipe_path("quickstart").read_text(), "run": "live", "overrides": overrides}
            assert team.post("admin", "submissions", body)[0] == 201
            wait_for(lambda: team.get("submissions/live")["state"] == "ended", 600)
            wait_for(lambda: team.get("runs/live")["state"] == "done")
            output = (runs / ".submitted" / "live" / "output").read_text()
            assert ("report: " in output, " server --runs" in output) == (True, False), "a server shows it already"

            (request,) = team.pages("promotions")
            assert request["requested_by"].startswith("run:live:")
            assert (request["state"], request["version"], request["reason"]) == ("requested", 1, "run live")
            require_gate(request, runs / "live" / "score")
            assert (team.champion(), started.exists()) == (None, False)
            number = request["id"]
            status, problem = team.post("admin", f"promotions/{number}/approve")
            assert (status, "or submitted or resumed its run" in problem["detail"]) == (403, True)
            assert team.champion() is None
            assert team.post("approver-b", f"promotions/{number}/approve")[0] == 200
            assert team.champion() == 1
            wait_for(lambda: is_served(number, 1), 300)

            second = team.post("runner", "promotions", {"model": MODEL, "version": other_version(team, runs)})[1]["id"]
            assert team.post("approver-a", f"promotions/{second}/approve")[0] == 200
            wait_for(lambda: is_served(second, 2), 300)
            rollback = {"model": MODEL, "champion": 2, "reason": "it stutters"}
            status, back = team.post("approver-b", "rollbacks", rollback)
            assert (status, back["version"]) == (201, 1)
            wait_for(lambda: is_served(back["id"], 1), 300)

            assert team.champion() == 1
            assert started.read_text().split() == ["1", "2", "1"]
            trained = runs / "live" / "train_policy" / "model" / "model.safetensors"
            assert (link / "model.safetensors").read_bytes() == trained.read_bytes()
            team.require_agreement()
            log = [(change["action"], change["who"].split(":")[0]) for change in reversed(team.pages("changes"))]
            assert [entry for entry in log if not entry[0].startswith("token")] == [
                ("run.submit", "admin"),
                ("promotion.request", "run"),
                ("promotion.apply", "approver-b"),
                ("promotion.confirm", "runner"),
                ("promotion.request", "runner"),
                ("promotion.apply", "approver-a"),
                ("promotion.confirm", "runner"),
                ("rollback.request", "approver-b"),
                ("rollback.apply", "approver-b"),
                ("rollback.confirm", "runner"),
            ]


def require_gate(request, scores: Path) -> None:
    """The gate read the stored scores: the low end of the gain lies between the worst gain and their mean."""
    rewards: dict[str, dict[str, float]] = {"base": {}, "policy": {}}
    for row in read_rows(scores, columns=["sample_id", "model", "scorer", "value"]):
        if row["scorer"] == "rubric":
            rewards[row["model"]][row["sample_id"]] = row["value"]
    gains = [rewards["policy"][sample] - reward for sample, reward in rewards["base"].items()]
    assert len(gains) == SHORT["data.held_out"]
    (finding,) = [finding for finding in request["findings"] if finding["rule"].startswith("rubric reward")]
    assert (finding["samples"], finding["bound"], finding["met"]) == (len(gains), -1, True)
    assert min(gains) <= finding["value"] <= sum(gains) / len(gains)


def other_version(team: Installation, runs: Path) -> int:
    """A second version of the model, as another run's stage would leave it, which waits against the first."""
    connection = connect(TrackingConfig(), runs)
    assert connection is not None
    run = connection.client.create_run(connection.client.create_experiment("other")).info.run_id
    tags = {registry.APPROVAL_TAG: registry.WAITING, registry.OPPONENT_TAG: 1, "gate": "better"}
    folder = runs / "live" / "warm_up" / "model"
    version = registry.register(connection, folder, MODEL, run=run, tags=tags).version
    registry.nominate(connection, MODEL, version)
    return version
