"""Section `serve` of a recipe: `{serve: NAME}` for an endpoint, and its mistakes with file and line."""

from pathlib import Path

import pytest

from rubricworks.errors import UserError
from rubricworks.llm.served import StageModel
from rubricworks.recipe.cluster_configs import distinct_endpoints, recipe_yaml
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.served_models import callers

SERVE = "serve:\n  genrm: {model: {stage: train_genrm}}\n"
JUDGE = "reward: {type: checklist, judge: {serve: genrm, max_tokens: 400}}"


@pytest.fixture
def write(tmp_path):
    """Write the laptop's recipe with a served GenRM, with a text replaced."""

    def write(before: str = "", after: str = "") -> Path:
        text = recipe_path("rlr3-laptop").read_text()
        text = text.replace("reward: {type: checklist, judge: *scorer}", JUDGE)
        text = text.replace("seed: 1\n", f"seed: 1\n{SERVE}", 1)
        assert before in text
        path = tmp_path / "mine.yaml"
        path.write_text(text.replace(before, after, 1) if before else text)
        return path

    return write


def line_with(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_endpoint_that_serves_a_name_holds_the_definition_and_its_own_settings(write):
    judge = load_recipe(write()).policy.reward.judge
    assert (judge.model, judge.url, judge.max_tokens) == ("genrm", "${RUBRICWORKS_SERVED_GENRM}", 400)
    assert judge.serve.model == StageModel(stage="train_genrm")


def test_replicas_are_several_addresses_of_one_endpoint(write):
    recipe = load_recipe(write(), ["serve.genrm.replicas=3"])
    assert recipe.policy.reward.judge.urls == tuple(
        f"${{RUBRICWORKS_SERVED_GENRM{number}}}" for number in ("", "_2", "_3")
    )


def test_run_is_asked_for_no_endpoint_that_it_serves_itself(write):
    recipe = load_recipe(write())
    assert "train_rlr3" in callers(recipe.stage_configs())["genrm"]
    assert "genrm" not in {named.endpoint.model for named in distinct_endpoints(recipe)}


def test_recipe_of_a_run_names_the_model_as_its_author_did_and_is_read_again(write, tmp_path):
    recipe = load_recipe(write(), ["serve.genrm.replicas=2"])
    text = recipe_yaml(recipe)
    assert "RUBRICWORKS_SERVED" not in text
    (tmp_path / "recipe.yaml").write_text(text)
    assert load_recipe(tmp_path / "recipe.yaml") == recipe.model_copy(update={"arms": {}})
    again = load_recipe(tmp_path / "recipe.yaml", ["serve.genrm.replicas=1"])
    assert len(again.policy.reward.judge.urls) == 1


def test_other_definition_changes_the_digest_of_the_stages_that_call_it(write):
    before, after = (load_recipe(write(), [f"serve.genrm.arguments={{batch-size: {n}}}"]).stage_json() for n in (8, 16))
    changed = {stage for stage in before if before[stage] != after[stage]}
    assert changed - {"promote"} == set(callers(load_recipe(write()).stage_configs())["genrm"])


def test_own_server_needs_no_price_for_a_budget_in_dollars(write):
    path = write("name: rlr3-laptop", "name: mine\nbudget: {dollars: 5}")
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    unpriced = str(caught.value).partition("no price is known of ")[2].partition(";")[0].split(", ")
    assert "scorer-1" in unpriced
    assert "genrm" not in unpriced


@pytest.mark.parametrize(
    ("before", "after", "at", "words"),
    [
        (
            "judge: {serve: genrm, max_tokens: 400}",
            "judge: {serve: genrn}",
            "reward:",
            "policy.reward.judge.serve: no served model 'genrn'; did you mean genrm?",
        ),
        (
            "judge: {serve: genrm, max_tokens: 400}",
            "judge: {serve: genrm, model: other}",
            "reward:",
            "policy.reward.judge.model: the endpoint has `serve`, from which it follows; leave one of them out",
        ),
        (
            "judge: {serve: genrm, max_tokens: 400}",
            "judge: {serve: genrm, batch: true}",
            "reward:",
            "policy.reward.judge.batch: a model that the run serves has none; leave it out",
        ),
        (
            "serve:\n",
            "serve:\n  spare: {model: ./folder}\n",
            "spare:",
            "serve.spare: nothing calls it; write {serve: spare} for an endpoint, or leave it out",
        ),
        (
            "{stage: train_genrm}",
            "{stage: train_gnrm}",
            "model: {stage",
            "serve.genrm.model.stage: train_gnrm is no stage of this pipeline; did you mean train_genrm?",
        ),
        (
            "{stage: train_genrm}",
            "{stage: genrm_data}",
            "model: {stage",
            "serve.genrm.model.stage: genrm_data trains no model; those that train one are warm_up, train_genrm, "
            "train_rlvr, train_rlr3",
        ),
        (
            "judge: *scorer\n  rollouts: 8",
            "judge: {serve: genrm}\n  rollouts: 8",
            "model: {stage",
            "serve.genrm.model.stage: offline_filter runs before train_genrm; audit and train_rlr3 can call it",
        ),
        (
            "{stage: train_genrm}",
            "{stage: train_genrm}, arguments: {port: 8000}",
            "model: {stage",
            "serve.genrm.arguments: port cannot be set here: the run takes a free one",
        ),
        (
            "{stage: train_genrm}",
            "{stage: train_genrm}, arguments: {trust-remote-code: true}",
            "model: {stage",
            "serve.genrm.arguments: trust-remote-code cannot be set here: code that a recipe names is not run",
        ),
        (
            "{stage: train_genrm}",
            "{stage: train_genrm}, arguments: {middlew: evil.module}",
            "model: {stage",
            "serve.genrm.arguments: middlew cannot be set here: code that a recipe names is not run",
        ),
        (
            "{stage: train_genrm}",
            "{stage: train_genrm}, acelerators: 2",
            "model: {stage",
            "serve.genrm.acelerators: no such field; did you mean accelerators?",
        ),
    ],
)
def test_mistake_is_one_line_at_its_place(write, before, after, at, words):
    path = write(before, after)
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"{path}:{line_with(path, at)}: {words}")
