"""Help, recipes, init, doctor and plans: what is met in the first hour."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image
from policy_sections import rubric_policy
from scripted_server import Said, say

from rubricworks.evaluation.scorers.scorer_table import AnswerScorers, CaptionScorers, ImageScorers
from rubricworks.recipe import METHODS
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.world.scene.export import export_scenes


@pytest.fixture
def images(tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=10)
    return tmp_path / "scenes" / "images"


def listing(*names: str) -> Said:
    return Said(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def server_of(serve, *names: str) -> str:
    return serve(lambda _, body: say("a circle") if body else listing(*names)).url


@pytest.mark.parametrize(("typed", "meant"), [("gade", "grade"), ("evalute", "evaluate"), ("recipe", "recipes")])
def test_a_mistyped_command_is_answered_by_the_nearest_one(tell, typed, meant):
    result = tell(typed)
    assert result.code == 2
    assert f"Did you mean '{meant}'?" in result.err or f"'{meant}'" in result.err.splitlines()[-1]


def test_the_help_of_evaluate_lists_every_scorer(tell):
    text = " ".join(tell("evaluate", "--help").out.split())
    for kind in (CaptionScorers, AnswerScorers, ImageScorers):
        for name in kind.model_fields:
            assert name in text or name in ("functions", "benchmarks"), name


def test_help_names_every_command_and_every_command_has_help(tell):
    result = tell("--help")
    assert result.code == 0
    commands = ["run", "recipes", "init", "doctor", "caption", "synthesize", "grade", "pipelines", "world"]
    for command in commands:
        assert f"\n  {command} " in result.out
        assert tell(command, "--help").code == 0


def test_without_arguments_and_with_an_unknown_command_it_says_how_to_go_on(tell):
    bare, unknown = tell(), tell("rnu")
    assert (bare.code, unknown.code) == (2, 2)
    assert "Commands:" in bare.err
    assert "No such command 'rnu'" in unknown.err
    assert "rubricworks --help" in unknown.err


def test_run_wants_a_recipe_or_a_run(tell):
    for arguments in ([], ["quickstart", "--resume", "x"]):
        result = tell("run", *arguments)
        assert result.code == 2
        assert result.err.count("\n") == 1
        assert "give a recipe" in result.err
        assert "--resume" in result.err


def test_a_recipe_that_is_not_there_is_answered_with_the_one_that_was_meant(tell):
    result = tell("run", "quickstrat")
    assert result.code == 2
    assert "did you mean quickstart?" in result.err
    assert tell("doctor", "gone.yaml").err == (
        "error: gone.yaml: no such file; `rubricworks recipes list` shows the built-in ones\n"
    )


def test_recipes_are_listed_copied_with_their_comments_and_never_over_a_file(tell, tmp_path):
    listed = tell("recipes", "list").out
    for path in built_in_recipes():
        assert path.stem in listed
    assert tell("recipes", "copy", "quickstart", "mine.yaml").code == 0
    (original,) = [path for path in built_in_recipes() if path.stem == "quickstart"]
    assert (tmp_path / "mine.yaml").read_bytes() == original.read_bytes()
    again = tell("recipes", "copy", "one-endpoint", "mine.yaml")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert (tmp_path / "mine.yaml").read_bytes() == original.read_bytes()
    assert tell("recipes", "copy", "nope", "x.yaml").code == 2
    assert tell("recipes", "show", "quickstart").out == original.read_text(encoding="utf-8")


def test_init_writes_a_recipe_for_a_folder_and_the_only_model_of_an_endpoint(tell, tmp_path, images, serve):
    url = server_of(serve, "our-model")
    result = tell("init", "--images", images, "--endpoint", url, "--student", f"org/vl@{'0' * 40}")
    assert result.code == 0, result
    recipe = load_recipe(tmp_path / "my-recipe.yaml")
    assert recipe.data.source == str(images)
    assert recipe.data.held_out == 5
    assert recipe.warm_up.student == f"org/vl@{'0' * 40}"
    models = [
        *recipe.committee.teachers,
        recipe.rubric.writer,
        recipe.policy.reward.judge,
        recipe.evaluation.scorers.arena.judge,
    ]
    assert {(model.url, model.model) for model in models} == {(url, "our-model")}
    assert "rubricworks doctor my-recipe.yaml" in result.out

    again = tell("init", "--images", images, "--endpoint", url)
    assert again.code == 2
    assert "my-recipe.yaml is there already" in again.err


@pytest.mark.parametrize(
    ("count", "held_out", "needed"), [(39, 19, 30), (40, 20, 20), (59, 29, 29), (60, 30, 30), (200, 40, 30)]
)
def test_init_writes_a_gate_that_the_images_can_pass_or_says_that_they_cannot(
    tell, tmp_path, serve, count, held_out, needed
):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(count):
        Image.new("RGB", (16, 16), (number, 0, 0)).save(folder / f"{number}.png")
    result = tell("init", "--images", folder, "--endpoint", server_of(serve, "m"), "--out", "mine.yaml")
    assert f"{held_out} held out; m as committee" in result.out
    recipe = load_recipe(tmp_path / "mine.yaml")
    assert (recipe.data.held_out, recipe.promotion.gate.samples_at_least) == (held_out, needed)
    promise = "no model of this run is promoted: its gate needs 30 judged images (promotion.gate.samples_at_least), "
    promise += f"and {held_out} are held out"
    is_told = held_out < needed
    assert (f"note: {promise}" in result.out) is is_told
    assert (promise in tell("doctor", "mine.yaml").out) is is_told
    assert (f"warning: {promise}" in tell("run", "mine.yaml", "--dry-run").out) is is_told


def test_a_dry_run_tells_of_images_that_the_source_does_not_have(tell, recipe):
    result = tell("run", recipe, "--dry-run", "--set", "data.held_out=30")
    assert "warning: data.held_out is 30, and 10 images leave 9" in result.out


def test_doctor_lists_first_whom_a_recipe_reaches_and_what_it_sends_there(tell, tmp_path, monkeypatch):
    monkeypatch.setenv("THEIR_KEY", "value-of-the-key")
    text = recipe_path("one-endpoint").read_text().replace("${RUBRICWORKS_ENDPOINT}", "http://models.invalid/v1")
    (tmp_path / "theirs.yaml").write_text(text.replace("api_key_env: null", "api_key_env: THEIR_KEY"))
    result = tell("doctor", "theirs.yaml")
    hosts = '{"${RUBRICWORKS_IMAGES}": [], "http://models.invalid": [THEIR_KEY]}'
    reached = f'{{hosts: {hosts}, places: ["hf://Qwen/Qwen2.5-VL-3B-Instruct"]}}'
    assert result.out.splitlines()[0].split() == ["ok", "reaches", *reached.split()]
    assert "value-of-the-key" not in result.out + result.err


def test_init_asks_for_the_model_and_for_images_where_needed(tell, tmp_path, images, serve):
    url = server_of(serve, "one", "two")
    result = tell("init", "--images", images, "--endpoint", url)
    assert result.code == 2
    assert "serves one, two; choose one with --model" in result.err
    (tmp_path / "empty").mkdir()
    assert "no images here" in tell("init", "--images", "empty", "--endpoint", url).err
    assert "no such file or folder" in tell("init", "--images", "gone", "--endpoint", url).err
    assert not (tmp_path / "my-recipe.yaml").exists()


def test_init_refuses_a_model_that_the_endpoint_does_not_list(tell, tmp_path, images, serve):
    url = server_of(serve, "our-model", "another")
    result = tell("init", "--images", images, "--endpoint", url, "--model", "our-modle")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "does not serve our-modle, but another, our-model; did you mean our-model?" in result.err
    assert not (tmp_path / "my-recipe.yaml").exists()


def test_init_where_nobody_serves_says_so(tell, images):
    result = tell("init", "--images", images, "--endpoint", "http://127.0.0.1:9/v1")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "http://127.0.0.1:9/v1" in result.err
    assert "cannot connect" in result.err


def test_init_for_the_tiny_student_leads_to_a_recipe_that_doctor_finds_ready(tell, tmp_path, images, serve):
    url = server_of(serve, "our-model")
    result = tell("init", "--images", images, "--endpoint", url, "--student", "tiny")
    assert result.code == 0, result
    recipe = load_recipe(tmp_path / "my-recipe.yaml")
    assert recipe.warm_up.sft is not None
    assert not recipe.lora
    assert recipe.policy.algorithm.optimizer.precision == "float32"
    assert recipe.committee.prompt != recipe.data.prompt
    assert "10 images, 10 with captions" in result.out
    result = tell("doctor", "my-recipe.yaml")
    assert result.code == 0, result
    assert "images to warm up on" in result.out


def test_init_for_the_tiny_student_wants_captions_and_says_how_to_give_them(tell, tmp_path, images, serve):
    for file in images.rglob("*.jsonl"):
        file.unlink()
    result = tell("init", "--images", images, "--endpoint", server_of(serve, "m"), "--student", "tiny")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "none of the 10 images has a caption" in result.err
    assert "metadata.jsonl" in result.err
    assert not (tmp_path / "my-recipe.yaml").exists()


def test_doctor_finds_the_captions_missing_before_anything_is_paid_for(tell, recipe, images):
    for file in images.rglob("*.jsonl"):
        file.unlink()
    result = tell("doctor", recipe)
    assert result.code == 2
    (line,) = [line for line in result.out.splitlines() if line.startswith("fix")]
    assert "no image to train on has a caption" in line


def model_directory(folder: Path, parameters: int) -> Path:
    """A directory that is of a model by its name and its size."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * parameters)
    return folder


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_small_directory_of_ones_own_needs_no_gpu_and_a_larger_one_the_users_word(tell, tmp_path, images, serve):
    url = server_of(serve, "m")
    small, large = model_directory(tmp_path / "small", 1_000_000), model_directory(tmp_path / "large", 900_000_000)
    for student, out in ((small, "small.yaml"), (large, "large.yaml")):
        result = tell("init", "--images", images, "--endpoint", url, "--student", student.name, "--out", out)
        assert result.code == 0, result
        assert load_recipe(tmp_path / out).warm_up.student == str(student)
    assert tell("doctor", "small.yaml").code == 0

    on_cpu = ["--set", "policy.algorithm.optimizer.precision=float32", "--set", "policy.algorithm.optimizer.lora=null"]
    refused = tell("doctor", "large.yaml", *on_cpu)
    assert refused.code == 2
    assert "no GPU is visible" in refused.out
    assert "allow_cpu" in refused.out
    assert tell("doctor", "large.yaml", *on_cpu, "--set", "allow_cpu=true").code == 0
    unfit = tell("doctor", "large.yaml", "--set", "allow_cpu=true")
    assert unfit.code == 2
    assert "policy.algorithm.optimizer.precision is bfloat16: there is no GPU here" in unfit.out


def test_init_puts_names_with_signs_of_yaml_into_quotes(tell, tmp_path, images, serve):
    odd = tmp_path / "photos: 2024 #1"
    images.rename(odd)
    result = tell("init", "--images", odd, "--endpoint", server_of(serve, "team: a, b"), "--student", "tiny")
    assert result.code == 0, result
    recipe = load_recipe(tmp_path / "my-recipe.yaml")
    assert (recipe.data.source, recipe.policy.reward.judge.model) == (str(odd), "team: a, b")


def test_init_repeats_no_password_and_leaves_no_file(tell, tmp_path, images):
    result = tell("init", "--images", images, "--endpoint", "http://me:hunter2@127.0.0.1:9/v1", "--model", "m")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "api_key_env" in result.err
    assert "hunter2" not in result.out + result.err
    assert not (tmp_path / "my-recipe.yaml").exists()


@pytest.fixture
def recipe(tmp_path, images, serve):
    url = server_of(serve, "vlm")
    endpoint = {"url": url, "model": "vlm"}
    content = {
        "name": "mine",
        "data": {"source": str(images), "held_out": 4},
        "warm_up": {"student": "tiny", "sft": {"steps": 2}},
        "committee": {"teachers": [{**endpoint, "prices": [1.0, 10.0]}], "captions_each": 3},
        "rubric": {"writer": endpoint},
        "policy": rubric_policy(endpoint, steps=5, prompts_per_step=2, group_size=4),
        "evaluation": {
            "decodings": ["greedy", "sampled"],
            "scorers": {"rubric": {"judge": endpoint}, "arena": {"judge": endpoint, "order": "both"}},
        },
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_doctor_checks_everything_and_its_exit_code_says_whether_anything_is_to_fix(tell, recipe):
    result = tell("doctor", recipe)
    assert result.code == 0, result
    assert "10 images" in result.out
    assert "vlm at http://127.0.0.1" in result.out
    assert result.out.splitlines()[-1] == f"ready: rubricworks run {recipe}"

    result = tell(
        "doctor",
        recipe,
        "--set",
        "policy.reward.judge.url=http://127.0.0.1:9/v1",
        "--set",
        "rubric.writer.url=${NOT_SET_ANYWHERE}",
        "--set",
        "data.source=gone",
    )
    assert result.code == 2
    wrong = [line for line in result.out.splitlines() if line.startswith("fix")]
    assert len(wrong) == 3
    for line, part in zip(wrong, ("gone: no such file", "NOT_SET_ANYWHERE is not set", "curl -sS"), strict=True):
        assert part in line
    assert result.out.splitlines()[-1] == "3 to fix"


def test_a_dry_run_counts_the_calls_and_dollars_and_runs_nothing(tell, tmp_path, recipe):
    result = tell("run", recipe, "--dry-run")
    assert result.code == 0, result
    calls = {
        (f[0], f[2]): int(f[1]) for line in result.out.splitlines() if len(f := line.split()) > 4 and f[1].isdigit()
    }
    assert calls == {
        ("caption_committee", "caption"): 10 * 3,
        ("synthesize_rubrics", "rubric"): 10,
        ("train_policy", "judge"): 5 * 2 * 4,
        ("score", "judge"): 4 * 2 * 2,
        ("score", "arena"): 4 * 2 * 2,
    }
    # 30 captions of 1,000 tokens in and 300 out, at 1 and 10 dollars a million.
    assert "\ndollars in all: at least 0.12; the recipe has no price of vlm (prices)\n" in result.out
    assert "nothing is missing" in result.out
    assert not (tmp_path / "runs").exists()


def test_dry_run_without_prices_says_that_dollars_are_not_known(tell, tmp_path, recipe):
    content = yaml.safe_load(recipe.read_text())
    del content["committee"]["teachers"][0]["prices"]
    recipe.write_text(yaml.safe_dump(content))
    result = tell("run", recipe, "--dry-run")
    assert result.code == 0, result
    (line,) = (line for line in result.out.splitlines() if line.startswith("dollars in all"))
    assert line == "dollars in all: not known; the recipe has no price of vlm (prices)"
    assert "0.00" not in result.out


def test_every_pipeline_is_compiled_the_same_every_time(tell, tmp_path):
    result = tell("pipelines", "compile", "--out", "a")
    assert (result.code, result.out.split()) == (0, [f"a/{name}.yaml" for name in METHODS])
    assert tell("pipelines", "compile", "--out", "b").code == 0
    for name, stage in (("rubicap", b"train-policy"), ("rlr3", b"train-rlr3")):
        first = (tmp_path / "a" / f"{name}.yaml").read_bytes()
        assert first == (tmp_path / "b" / f"{name}.yaml").read_bytes()
        assert stage in first


def test_a_place_that_cannot_be_written_is_named_in_one_line(tell, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (["recipes", "copy", "quickstart", "file/x.yaml"], ["world", "export", "file/scenes"]):
        result = tell(*arguments)
        assert (result.code, result.err.count("\n")) == (2, 1), result
        assert "file" in result.err
