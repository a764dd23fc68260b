"""`rubricworks push`: a run's model with its card, on a server that answers as the Hub does, and back again."""

import os
from pathlib import Path

import pytest
import yaml
from evaluated_run import write_evaluated_run, write_model
from hub_stand_in import COMMIT
from huggingface_hub import ModelCard, parse_eval_result_entries, snapshot_download

from rubricworks.runtime.store.workspace import upload_run_files, workspace_path
from rubricworks.storage import open_bucket


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def _new(hub):
    hub.is_new = True


def test_the_evaluated_model_goes_to_the_hub_and_comes_back_byte_by_byte(hub, tell, runs):
    run = write_evaluated_run(runs / "one")
    done = tell("push", "one", "org/mine")
    assert (done.code, done.out) == (0, f"org/mine@{COMMIT}: the model of one, stage train_policy, 6 files\n"), done
    assert done.err.startswith("note: training_args.bin stays here: no safetensors, configuration or tokenizer\n")
    assert (hub.made["name"], hub.made["organization"], hub.made["visibility"]) == ("mine", "org", "private")
    assert hub.made["summary"] == "Add the model of one, stage train_policy"
    files = {
        "README.md",
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "chat_template.jinja",
    }
    assert set(hub.files) == files
    back = Path(snapshot_download("org/mine", revision=COMMIT, endpoint=os.environ["HF_ENDPOINT"]))
    folder = run / "train_policy" / "model"
    for name in files - {"README.md"}:
        assert (back / name).read_bytes() == (folder / name).read_bytes()


def test_the_card_is_one_that_the_hub_reads_with_gate_and_scores(hub, tell, runs):
    write_evaluated_run(runs / "one")
    assert tell("push", runs / "one", "org/mine", "--public").code == 0
    assert hub.made["visibility"] == "public"
    card = ModelCard(hub.files["README.md"].decode())
    assert card.data.to_dict() == {
        "library_name": "transformers",
        "tags": ["rubricworks", "train_policy"],
        "instance_prompt": "describe",
    }
    assert "- win_rate 0.75 is above 0.5" in card.text
    assert "| win_rate | value | 0.75 |" in card.text
    assert "measured on the run's own held-out samples" in card.text
    assert "Simulated" not in card.text


def test_scores_of_the_scene_world_are_called_simulated(hub, tell, runs):
    write_evaluated_run(runs / "one", world=True)
    assert tell("push", "one", "org/mine").code == 0
    assert "**Simulated.** Images, teachers and judges were those of Rubricworks' scene world" in (
        hub.files["README.md"].decode()
    )


def test_the_best_milestone_is_the_model_of_a_run_that_scored_milestones(hub, tell, runs):
    run = write_evaluated_run(runs / "one", milestones=(10, 20))
    assert tell("push", "one", "org/mine").out.endswith("the model of one, stage score, 6 files\n")
    weights = (run / "train_policy" / "milestones" / "step-20" / "model.safetensors").read_bytes()
    assert hub.files["model.safetensors"] == weights
    assert "| win_rate | value | 0.75 |" in hub.files["README.md"].decode()


def test_another_stage_s_model_has_its_own_card_and_its_own_scores(hub, tell, runs):
    write_evaluated_run(runs / "one", promote=False)
    assert tell("push", "one", "org/mine", "--stage", "warm_up").code == 0
    base = hub.files["README.md"].decode()
    assert "stage `warm_up`" in base
    assert "| Benchmark rubicap-10 | value | 0 |" in base
    assert tell("push", "one", "org/mine").code == 0
    assert "| Benchmark rubicap-10 | value | 0.875 |" in hub.files["README.md"].decode()


def test_the_last_model_of_scored_milestones_has_no_scores(hub, tell, runs):
    write_evaluated_run(runs / "one", milestones=(10, 20))
    assert tell("push", "one", "org/mine", "--stage", "train_policy").code == 0
    assert "## Scores" not in hub.files["README.md"].decode()


def test_out_shows_the_files_and_asks_nobody(hub, tell, runs, tmp_path):
    write_evaluated_run(runs / "one")
    done = tell("push", "one", "org/mine", "--out", "look")
    assert (done.code, done.out) == (0, "look: the model of one, stage train_policy, 6 files, not uploaded\n")
    assert (hub.files, hub.asked, hub.made) == ({}, [], {})
    weights = tmp_path / "look" / "model.safetensors"
    assert weights.read_bytes() == (runs / "one" / "train_policy" / "model" / "model.safetensors").read_bytes()
    assert not weights.is_symlink()
    again = tell("push", "one", "org/mine", "--out", "look")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_a_run_in_a_store_is_fetched_first(hub, tell, runs, run, tmp_path):
    local = write_evaluated_run(runs / "one")
    (workspace_path(run) / "recipe.yaml").parent.mkdir(parents=True)
    (workspace_path(run) / "recipe.yaml").write_bytes((local / "recipe.yaml").read_bytes())
    upload_run_files(run)
    bucket = open_bucket(run)
    for path in local.rglob("*"):
        if path.is_file():
            bucket.write(path.relative_to(local).as_posix(), path.read_bytes())
    for stage in ("warm_up", "train_policy", "score", "promote"):
        bucket.write(f"state/{stage}/attempt.json", b'{"attempt": "a"}')
    done = tell("push", "one", "org/mine", "--runs", run.removesuffix("/one"))
    assert done.code == 0, done
    assert hub.files["model.safetensors"] == (local / "train_policy" / "model" / "model.safetensors").read_bytes()
    assert "| win_rate | value | 0.75 |" in hub.files["README.md"].decode()
    assert not (workspace_path(run) / "warm_up" / "model" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("token", "refusal", "name", "message"),
    [
        ("", None, "org/mine", "needs a token that may write; set HF_TOKEN"),
        ("other", None, "org/mine", "HF_TOKEN may not write there (HTTP 403)"),
        ("key", 401, "org/mine", "HF_TOKEN may not write there (HTTP 401)"),
        ("key", 404, "org/mine", "the Hub knows no account of that name"),
        ("key", None, "org/mine/more", "is no name of a repository"),
    ],
)
def test_what_keeps_it_from_the_hub_is_told(hub, tell, runs, monkeypatch, token, refusal, name, message):
    write_evaluated_run(runs / "one")
    monkeypatch.setenv("HF_TOKEN", token)
    hub.refusal = refusal
    done = tell("push", "one", name)
    assert done.code == 2
    assert message in done.err
    assert not hub.files
    assert "key" not in done.err.replace("stays here", "").split("error:")[1]


def test_a_repository_that_is_there_and_not_the_token_s_is_told(hub, tell, runs, monkeypatch):
    write_evaluated_run(runs / "one")
    hub.made["name"] = "mine"
    monkeypatch.setenv("HF_TOKEN", "other")
    assert "HF_TOKEN may not write there (HTTP 403)" in tell("push", "one", "org/mine").err
    assert not hub.files


def write_secret(run: Path) -> None:
    (run / "train_policy" / "model" / "config.json").write_text('{"judge": "https://me:hunter2@judge/v1"}')


def without_weights(run: Path) -> None:
    (run / "train_policy" / "model" / "model.safetensors").unlink()


def unfinished(run: Path) -> None:
    for done in run.glob("*/done.json"):
        done.unlink()


def two_policies(run: Path) -> None:
    for stage in ("score", "promote"):
        (run / stage / "done.json").unlink()
        (run / stage / "made_from.json").unlink()
    write_model(run / "train_rlr3" / "model", 2.0)
    (run / "train_rlr3" / "done.json").write_text('{"digest": "x"}')


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda run: None, ["--stage", "score"], "score has no finished model; those that have: warm_up, train_policy"),
        (write_secret, [], "config.json: it shows the user or password of a URL; take that out"),
        (without_weights, [], "it holds no weights in safetensors"),
        (unfinished, [], "no stage of it has finished a model"),
        (two_policies, [], "it trained warm_up and train_policy and train_rlr3; name one with --stage"),
    ],
)
def test_a_run_that_has_nothing_to_give_away_is_told(hub, tell, runs, change, arguments, message):
    change(write_evaluated_run(runs / "one"))
    done = tell("push", "one", "org/mine", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "hunter2" not in done.err
    assert not hub.made


def test_no_such_run_is_told(hub, tell, runs):
    write_evaluated_run(runs / "one")
    done = tell("push", "two", "org/mine")
    assert (done.code, "there is no such run" in done.err) == (2, True)


def result(hub, task: str):
    (entry,) = parse_eval_result_entries(yaml.safe_load(hub.files[f".eval_results/{task}.yaml"]))
    return entry


def test_a_benchmarks_result_goes_along_as_the_hub_reads_it(hub, tell, runs):
    run = write_evaluated_run(runs / "one")
    with (run / "ledger.jsonl").open("a") as ledger:
        ledger.write('{"stage": "score", "seconds": 1.0, "ended": "2001-02-03T04:05:06.000+00:00"}\n')
    arguments = ["--benchmark", f"chartqa=org/bench:human@{COMMIT}", "--benchmark", "docvqa_val=org/bench:all"]
    done = tell("push", "one", "org/mine", *arguments)
    assert done.code == 0, done
    charts, documents = result(hub, "chartqa"), result(hub, "docvqa_val")
    assert (charts.dataset_id, charts.task_id, charts.dataset_revision) == ("org/bench", "human", COMMIT)
    assert (charts.value, charts.date) == (75.0, "2001-02-03T04:05:06Z")
    assert charts.notes == "chartqa by lmms-eval 0.7.3, greedy decoding"
    assert (documents.task_id, documents.value, documents.dataset_revision) == ("all", 100.0, None)
    assert "`.eval_results` holds those of chartqa, docvqa_val. The others" in hub.files["README.md"].decode()


def test_a_leaderboard_of_shares_gets_a_share_and_a_milestone_says_its_step(hub, tell, runs):
    write_evaluated_run(runs / "one", milestones=(10, 20))
    assert tell("push", "one", "org/mine", "--benchmark", "chartqa=org/bench:all", "--scale", "share").code == 0
    assert result(hub, "chartqa").value == 0.75
    assert result(hub, "chartqa").notes.endswith("greedy decoding, step 20 of the training")


@pytest.mark.parametrize(
    ("made", "benchmark", "message"),
    [
        ({"world": True}, "chartqa=org/bench:all", "its scores are simulated by the scene world"),
        ({"version": "lmms-eval 0.7.3, first 4"}, "chartqa=org/bench:all", "its first 4 samples were measured"),
        ({}, "oracle_f1=org/bench:all", "no benchmark of that name was measured; those that were: chartqa, docvqa_val"),
        ({}, "chartqa=org/bench:machine", "no task 'machine' in its eval.yaml; its tasks: human, all"),
        ({}, "chartqa=org/data:all", "the data set has no eval.yaml, so it is no benchmark"),
        ({}, "chartqa=org/secret:all", "the Hub shows no such data set"),
        ({}, "chartqa=bench:all", "write TASK=ORG/DATASET:TASK_ID"),
    ],
)
def test_what_is_no_result_of_a_benchmark_is_refused_before_anything_is_sent(hub, tell, runs, made, benchmark, message):
    write_evaluated_run(runs / "one", **made)
    done = tell("push", "one", "org/mine", "--benchmark", benchmark)
    assert done.code == 2
    assert message in done.err
    assert not hub.made


def test_a_benchmark_with_missing_samples_and_a_model_without_scores_have_no_result(hub, tell, runs):
    write_evaluated_run(runs / "one", unanswered=True)
    done = tell("push", "one", "org/mine", "--benchmark", "docvqa_val=org/bench:all")
    assert "docvqa_val: 1 of 2 samples have no score" in done.err
    write_evaluated_run(runs / "two", milestones=(10,))
    done = tell("push", "two", "org/mine", "--stage", "train_policy", "--benchmark", "chartqa=org/bench:all")
    assert "the model of train_policy was not scored" in done.err
    assert not hub.made
