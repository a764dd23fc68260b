"""The recipes with RubiCap's rubric in the paper's form, and the arms that show how it is hacked."""

import pytest

from rubricworks.errors import UserError
from rubricworks.methods.rubicap.estimate import estimate_calls
from rubricworks.recipe.files import load_recipe, recipe_path


@pytest.mark.parametrize("name", ["rubicap", "rubicap-laptop"])
def test_the_papers_form_asks_where_a_drawn_caption_fails_without_guards(name):
    recipe = load_recipe(recipe_path(name))
    assert (recipe.rubric.coverage, recipe.rubric.guards) == ("discriminative", False)
    assert (recipe.student.temperature, recipe.student.captions_each) == (1.0, 1)


@pytest.mark.parametrize(("arm", "stage"), [("greedy", "caption_student"), ("lenient", "synthesize_rubrics")])
def test_an_arm_of_the_laptop_recipe_changes_one_condition_of_the_hack(arm, stage):
    own, of_arm = (load_recipe(recipe_path("rubicap-laptop"), arm=one).stage_json() for one in (None, arm))
    assert {one for one in own if own[one] != of_arm[one]} - {"promote"} == {stage}


def test_the_laptops_peer_of_balcaprl_is_given_the_same_rubrics_conditions():
    own, peer = load_recipe(recipe_path("rubicap-laptop")), load_recipe(recipe_path("balcaprl-laptop"), arm="rubicap")
    assert peer.rubrics.student.temperature == own.student.temperature
    assert (peer.rubrics.rubric.writer.model, peer.rubrics.rubric.coverage, peer.rubrics.rubric.guards) == (
        own.rubric.writer.model,
        own.rubric.coverage,
        own.rubric.guards,
    )


CHEAP = "policy.judge={url: 'http://gpu/v1', model: cheap}"
STRONG = "policy.escalate_to={judge: {url: 'http://gpu/v1', model: strong}, below: 0.8}"


def test_a_cascades_strong_judge_is_checked_and_planned_like_any_other():
    recipe = load_recipe(recipe_path("quickstart"), [CHEAP, STRONG])
    assert "strong" in [endpoint.model for _, endpoint in recipe.endpoints()]
    calls = {one.endpoint.model: one.count for one in estimate_calls(recipe, 3328) if one.stage == "train_policy"}
    assert calls["cheap"] == calls["strong"] == 200 * 8 * 8
    assert "escalate_to" not in load_recipe(recipe_path("quickstart")).stage_json()["train_policy"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([STRONG, "policy.more_judges=[{url: 'http://gpu/v1', model: m}]"], "escalate_to takes one judge"),
        (
            ["policy.credits=logprob", "policy.more_judges=[{url: 'http://gpu/v1', model: m}]"],
            "logprob takes one judge",
        ),
        (["policy.credits=logprob", STRONG], "choose one"),
        ([STRONG.replace("0.8", "0.3")], r"policy.escalate_to.below"),
        (["policy.credits=words"], "policy.credits"),
    ],
)
def test_judges_that_do_not_go_together_are_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        load_recipe(recipe_path("quickstart"), [CHEAP, *overrides])


def test_a_canary_is_planned_and_by_default_there_is_none():
    plain, watched = (load_recipe(recipe_path("quickstart"), more) for more in ([], ["policy.canary={every: 50}"]))
    planned = [
        sum(one.count for one in estimate_calls(recipe, 3328) if (one.stage, one.purpose) == ("train_policy", "judge"))
        for recipe in (plain, watched)
    ]
    assert planned[1] - planned[0] == (2 + 4) * 16  # two gradings at the start, and one every 50 of 200 steps
    assert "canary" not in plain.stage_json()["train_policy"]
