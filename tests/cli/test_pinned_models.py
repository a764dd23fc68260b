"""Models of recipes and commands: a folder, a built-in one, or the Hub's at a commit; any other is refused."""

from types import SimpleNamespace

import pytest
from hub_stand_in import COMMIT

from rubricworks.errors import UserError
from rubricworks.kubeflow.recipe_runs import push_recipe
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.recipe.models import loaded_models, unpinned_models
from rubricworks.world.scene.export import export_scenes

PINNED = f"org/mine@{COMMIT}"
CAPTIONERS = "[{{name: policy, model: {}}}, {{name: baseline, endpoint: {{url: 'http://b/v1', model: b}}}}]"
LAPTOP = "one-endpoint-laptop"


@pytest.fixture
def images(tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=10)
    return tmp_path / "scenes" / "images"


@pytest.mark.parametrize("path", built_in_recipes(), ids=lambda path: path.stem)
def test_the_models_of_the_recipes_that_come_with_the_package_are_pinned(path):
    assert unpinned_models(load_recipe(path), ask=False) == {}


@pytest.mark.parametrize(
    ("recipe", "field", "change"),
    [
        ("rubicap", "warm_up.student", "warm_up.student={}"),
        ("rlr3", "genrm.student", "genrm.student={}"),
        ("recaption-pretrain", "alignment.vision_tower", "alignment.vision_tower={}"),
        ("recaption-pretrain", "alignment.language_model", "alignment.language_model={}"),
        ("evaluate-laptop", "evaluation.models.teacher-1.folder", "evaluation.models.teacher-1={{folder: {}}}"),
        ("evaluate-laptop", "evaluation.scorers.capture.parser", "evaluation.scorers.capture.parser={}"),
        ("evaluate-laptop", "evaluation.scorers.capture.encoder", "evaluation.scorers.capture.encoder={}"),
        (
            "recaption-pretrain",
            "recaption.captioners.0.model",
            "recaption.captioners=" + CAPTIONERS,
        ),
        ("retrain", "new_samples.changes.warm_up.student", "new_samples.changes={{warm_up.student: {}}}"),
    ],
)
def test_a_model_without_a_commit_is_refused_with_its_field_and_todays(hub, recipe, field, change):
    unpinned = load_recipe(recipe_path(recipe), [change.format("org/mine")])
    assert loaded_models(unpinned)[field] == "org/mine"
    (problem,) = unpinned_models(unpinned).items()
    assert problem[0] == field
    assert problem[1].endswith(f"needs a revision, which pins its weights: org/mine@COMMIT, today {PINNED}")
    assert unpinned_models(load_recipe(recipe_path(recipe), [change.format(PINNED)])) == {}


def test_models_that_servers_answer_for_and_folders_need_no_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for folder in ("mine", str(tmp_path / "nowhere"), "./nowhere", "${STUDENT}"):
        recipe = load_recipe(
            recipe_path("rubicap"), [f"warm_up.student={folder}", "policy.reward.judge.model=org/judge"]
        )
        assert unpinned_models(recipe, ask=False) == {}
    assert (
        unpinned_models(load_recipe(recipe_path("rubricrl-ar"), ["warm_up.generator=mine/generator"]), ask=False) == {}
    )


@pytest.mark.parametrize("command", [("doctor",), ("run", "--dry-run"), ("run",)], ids=" ".join)
def test_a_run_is_refused_before_it_begins(tell, tmp_path, images, hub, monkeypatch, command):
    monkeypatch.setenv("RUBRICWORKS_IMAGES", str(images))
    monkeypatch.setenv("RUBRICWORKS_ENDPOINT", "http://127.0.0.1:9/v1")
    first, *options = command
    done = tell(first, LAPTOP, *options, "--set", "warm_up={student: org/mine, sft: null}")
    assert done.code == (0 if options else 2)
    (line,) = [line for line in (done.out + done.err).splitlines() if "pins its weights" in line]
    assert "models" in line
    assert "warm_up.student: org/mine: there is no such folder, and" in line
    assert line.endswith(f"today {PINNED}")
    assert not list(tmp_path.rglob("recipe.yaml"))


def test_a_run_that_was_begun_without_a_commit_is_continued(tell, tmp_path, images, hub, monkeypatch):
    """Its finished stages have loaded their models; one that has not refuses by itself."""
    folder = tmp_path / "runs" / "old"
    folder.mkdir(parents=True)
    text = recipe_path("one-endpoint").read_text().replace("${RUBRICWORKS_IMAGES}", str(images))
    (folder / "recipe.yaml").write_text(
        text.replace(load_recipe(recipe_path("one-endpoint")).warm_up.student, "org/mine")
    )
    done = tell(
        "run", "--resume", "old", "--set", "policy.algorithm.optimizer.precision=float32", "--set", "allow_cpu=true"
    )
    assert done.code == 2
    assert "RUBRICWORKS_ENDPOINT" in done.err
    assert "COMMIT" not in done.err


def test_a_run_on_kubeflow_is_refused_before_its_pipeline_is_pushed(hub):
    recipe = load_recipe(recipe_path("rubicap"), ["warm_up.student=org/mine"])
    with pytest.raises(UserError, match=r"^warm_up\.student: org/mine: .*today"):
        push_recipe(SimpleNamespace(), recipe, "rubicap", str)


@pytest.mark.parametrize(
    "command",
    [
        ("caption", "photos", "--model", "org/mine", "--out", "out"),
        ("evaluate", "org/mine", "--on", "photos", "--with", "length", "--out", "out"),
        ("recaption", "photos", "--model", "org/mine", "--out", "out"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_refuses_a_name_without_a_commit(tell, tmp_path, images, hub, command):
    images.rename(tmp_path / "photos")
    done = tell(*command)
    assert done.code == 2, done
    assert f"org/mine@COMMIT, today {PINNED}" in done.err


def test_a_recipe_is_begun_with_a_pinned_student_alone(tell, tmp_path, images, hub, serve):
    url = serve([]).url
    arguments = ("init", "--images", images, "--endpoint", url, "--model", "m", "--student")
    refused = tell(*arguments, "org/mine")
    assert (refused.code, f"today {PINNED}" in refused.err) == (2, True)
    assert not (tmp_path / "my-recipe.yaml").exists()
    assert tell(*arguments, PINNED).code == 0
