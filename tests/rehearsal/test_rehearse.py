"""Recipes of full size, rehearsed: whole DAGs in miniature, and mistakes that a rehearsal finds, each in a line."""

import json
import os

import pytest
from cli_fixtures import tell as tell
from scripted_server import say as answer

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rehearsal import rows
from rubricworks.rehearsal.miniatures import build_miniature
from rubricworks.rehearsal.rehearse import MARK, rehearse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
STUDENT = "Qwen/Qwen2.5-VL-3B-Instruct@66285546d2b821cf421d4f5eb2576359d3770cd3"
VARIABLES = ("RUBRICWORKS_IMAGES", "RUBRICWORKS_QUESTIONS", "RUBRICWORKS_PROMPTS", "RUBRICWORKS_GENERATOR")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    monkeypatch.setattr("rubricworks.rehearsal.miniatures.is_offline_mode", lambda: True)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """Folder of a model whose files are its own."""
    return build_miniature(STUDENT, tmp_path_factory.mktemp("student"), ["Describe the image in detail."]).folder


def changed(folder, tmp_path, file, change):
    """Copy of a model's folder with a change in a JSON file."""
    copy = tmp_path / "changed"
    copy.mkdir()
    for entry in folder.iterdir():
        (copy / entry.name).write_bytes(entry.read_bytes())
    content = json.loads((copy / file).read_text())
    change(content)
    (copy / file).write_text(json.dumps(content))
    return copy


def failure(tmp_path, recipe, *overrides, stage, **options):
    """Reason for which a stage fails."""
    rehearsal = rehearse(load_recipe(recipe_path(recipe), overrides), tmp_path / "out", stages=[stage], **options)
    (failed,) = [verdict for verdict in rehearsal.stages if verdict.outcome == "failed"]
    assert "\n" not in failed.reason
    assert not rehearsal.passed
    return failed.reason


def test_the_recipe_of_rubicap_runs_whole_and_its_training_resumes(tmp_path, tell):
    told = tell("rehearse", "rubicap", "--out", tmp_path / "out", "--json")
    assert told.code == 0, told
    verdict = json.loads((tmp_path / "out" / MARK).read_text())
    assert [stage["outcome"] for stage in verdict["stages"]] == ["passed"] * len(verdict["stages"])
    resumed = {stage["stage"]: stage["killed_at"] for stage in verdict["stages"]}
    assert [name for name, steps in resumed.items() if steps] == ["train_policy"]
    assert min(resumed["train_policy"]) >= 2
    rollouts = list(read_rows(tmp_path / "out" / "run" / "train_policy" / "rollouts"))
    steps = [row["step"] for row in rollouts]
    assert steps == sorted(steps)
    assert len(rollouts) == 8 * len(set(steps)), "no step is there twice, and none is missing"
    assert verdict["calls"]["failed"] > 0
    assert "Qwen2_5_VLForConditionalGeneration" in str(verdict["models"])
    assert any(need.startswith("train_policy (algorithm) of 8.3B parameters") for need in verdict["needs"])


def test_stages_are_rehearsed_with_those_that_they_need(tmp_path):
    before = dict(os.environ)
    rehearsal = rehearse(load_recipe(recipe_path("rubicap")), tmp_path / "out", stages=["caption_committee"])
    assert [(verdict.stage, verdict.outcome) for verdict in rehearsal.stages] == [
        ("prepare", "passed"),
        ("caption_committee", "passed"),
    ]
    assert dict(os.environ) == before


@pytest.mark.long
def test_a_model_without_a_chat_template_is_named(tmp_path, student):
    def drop_template(fields):
        fields.pop("chat_template", None)

    silent = changed(student, tmp_path, "tokenizer_config.json", drop_template)
    for name in ("chat_template.json", "chat_template.jinja"):
        (silent / name).unlink(missing_ok=True)
    reason = failure(tmp_path, "rubicap", f"warm_up.student={silent}", stage="caption_student")
    assert "has no chat template, so it cannot be asked" in reason


@pytest.mark.long
def test_a_model_with_heads_of_odd_size_is_named(tmp_path, student):
    def odd(config):
        config["text_config"] |= {"head_dim": 15, "hidden_size": 15 * config["text_config"]["num_attention_heads"]}

    folder = changed(student, tmp_path, "config.json", odd)
    with pytest.raises(UserError, match=r"RoPE requires an even rotary dimension, but got `head_dim`=15"):
        rehearse(load_recipe(recipe_path("rubicap"), [f"warm_up.student={folder}"]), tmp_path / "out")


def test_a_model_that_no_library_knows_is_named_before_anything_runs(tmp_path, student):
    folder = changed(student, tmp_path, "config.json", lambda config: config.update(model_type="nonesuch"))
    with pytest.raises(UserError, match=rf"{folder}: Transformers takes no such config of the kind nonesuch"):
        rehearse(load_recipe(recipe_path("rubicap"), [f"warm_up.student={folder}"]), tmp_path / "out")


def test_a_model_whose_shape_nothing_tells_is_named(tmp_path):
    name = f"someone/something@{'1' * 40}"
    with pytest.raises(UserError, match=rf"{name}: neither a folder, nor the Hub, nor the table"):
        rehearse(load_recipe(recipe_path("rubicap"), [f"warm_up.student={name}"]), tmp_path / "out")


@pytest.mark.long
def test_a_row_without_its_answer_is_reported_with_its_place(tmp_path, monkeypatch):
    table = rows.questions(tmp_path / "rows")
    import pyarrow.parquet as pq

    content = pq.read_table(table).to_pylist()
    content[2]["answer"] = None
    pq.write_table(pq.read_table(table).from_pylist(content), table)
    monkeypatch.setenv("RUBRICWORKS_QUESTIONS", str(table))
    rehearsal = rehearse(load_recipe(recipe_path("rlr3")), tmp_path / "out", stages=["prepare_questions"])
    (verdict,) = rehearsal.stages
    assert verdict.outcome == "passed"
    (differs,) = verdict.differs
    assert differs.startswith("1 rows of the source were rejected: ")
    assert "answer" in differs


@pytest.mark.long
def test_an_empty_source_is_named(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    monkeypatch.setenv("RUBRICWORKS_IMAGES", str(tmp_path / "images"))
    assert "images" in failure(tmp_path, "rubicap", stage="prepare")


@pytest.mark.long
def test_an_endpoint_that_ignores_the_schema_fails_its_stage(tmp_path, serve, monkeypatch):
    server = serve(lambda number, body: answer("I would rather talk about it."))
    for variable in ("GEMINI_URL", "OPENAI_URL", "TEACHERS_URL", "JUDGE_URL"):
        monkeypatch.setenv(variable, server.url)
    for variable in ("GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "secret-of-this-test")
    reason = failure(tmp_path, "rubicap", stage="synthesize_rubrics", ask_endpoints=True)
    assert "malformed" in reason
    assert "secret-of-this-test" not in (tmp_path / "out" / MARK).read_text()


@pytest.mark.long
def test_adapters_for_layers_that_the_model_lacks_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "false")
    lora = "policy.algorithm.optimizer.lora={rank: 4, alpha: 4, targets: [no_such_layer]}"
    assert "no_such_layer" in failure(tmp_path, "rubicap", lora, stage="train_policy")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("quickstart", "quickstart runs in the scene world, on models as small as a rehearsal's"),
        ("retrain", "retrain finds its model when it runs; rehearse the recipe that the champion is from"),
    ],
)
def test_a_recipe_without_a_model_to_shrink_is_refused_in_one_line(tmp_path, tell, name, reason):
    told = tell("rehearse", name, "--out", tmp_path / "out")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {reason}")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("everything")
    with pytest.raises(UserError, match="holds something else than a rehearsal; give another folder with --out"):
        rehearse(load_recipe(recipe_path("rubicap")), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "everything"


def test_an_unknown_stage_is_named_with_those_that_there_are(tmp_path):
    with pytest.raises(UserError, match="--stages train: rubicap has no such stage; there are prepare, "):
        rehearse(load_recipe(recipe_path("rubicap")), tmp_path / "out", stages=["train"])


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["balcaprl", "rlr3", "rubricrl-ar", "rubricrl-diffusion", "recaption-pretrain"])
def test_every_recipe_of_full_size_passes(tmp_path, recipe):
    rehearsal = rehearse(load_recipe(recipe_path(recipe)), tmp_path / "out")
    assert rehearsal.passed, rehearsal.as_table()


@pytest.mark.long
@pytest.mark.parametrize(
    ("recipe", "arm"),
    [
        ("balcaprl", "sft"),
        ("balcaprl", "rubicap"),
        ("balcaprl", "caprl"),
        ("rubricrl-ar", "dapo"),
        ("rubricrl-diffusion", "qwen_image"),
        ("rubicap", "sft_strong"),
        ("rubicap", "rouge_l"),
        ("rubicap", "reference_likert"),
        ("rubicap", "rubric_sft"),
    ],
)
def test_arms_that_change_classes_pass(tmp_path, recipe, arm):
    rehearsal = rehearse(load_recipe(recipe_path(recipe), arm=arm), tmp_path / "out")
    assert rehearsal.passed, rehearsal.as_table()
