"""The recipes with RubiCap's rubric in the paper's form, and the arms that show how it is hacked."""

import json

import pytest

from rubricworks.errors import UserError
from rubricworks.recipe.estimate import estimate_calls
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


CHEAP, STRONG = (f"{{url: 'http://gpu/v1', model: {name}}}" for name in ("cheap", "strong"))
CASCADE = f"policy.reward.judge={{type: cascade, cheap: {CHEAP}, strong: {STRONG}, below: 0.8}}"
LOGPROB = f"policy.reward.judge={{type: logprob, judge: {CHEAP}}}"


def test_a_cascades_strong_judge_is_checked_and_planned_like_any_other():
    recipe = load_recipe(recipe_path("quickstart"), [CASCADE])
    assert "strong" in [endpoint.model for _, endpoint in recipe.endpoints()]
    calls = {one.endpoint.model: one.count for one in estimate_calls(recipe, 3328) if one.stage == "train_policy"}
    assert calls["cheap"] == calls["strong"] == 200 * 8 * 8


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([CASCADE.replace("0.8", "0.3")], r"policy\.reward\.judge\.below"),
        ([CASCADE.replace("cascade", "casade")], r"policy\.reward\.judge\.type: no such type .* did you mean cascade"),
        ([CASCADE.replace(", below: 0.8", ", of: []")], r"policy\.reward\.judge\.of: no such field"),
        ([f"policy.reward.judge={{type: panel, of: [{CHEAP}]}}"], r"policy\.reward\.judge\.of"),
        ([LOGPROB, "policy.reward.credits=logprob"], r"policy\.reward\.credits: no such field"),
    ],
)
def test_judges_that_do_not_go_together_are_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        load_recipe(recipe_path("quickstart"), overrides)


def test_a_canary_is_planned_and_by_default_there_is_none():
    plain, watched = (
        load_recipe(recipe_path("quickstart"), more) for more in ([], ["policy.reward.canary={every: 50}"])
    )
    planned = [
        sum(one.count for one in estimate_calls(recipe, 3328) if (one.stage, one.purpose) == ("train_policy", "judge"))
        for recipe in (plain, watched)
    ]
    assert planned[1] - planned[0] == (2 + 4) * 16  # two gradings at the start, and one every 50 of 200 steps
    assert plain.policy.reward.canary is None


def test_each_refresh_is_planned_as_a_rewriting_of_every_trained_rubric():
    recipe = load_recipe(recipe_path("rubicap-laptop"), ["policy.reward.refresh={every: 50}"])
    scenes, held_out, warm_up = recipe.world.scenes, recipe.data.held_out, recipe.data.warm_up
    (planned,) = [
        one
        for one in estimate_calls(recipe, scenes)
        if one.stage == "train_policy" and one.endpoint == recipe.rubric.writer
    ]
    assert planned.count == 3 * (scenes - held_out - warm_up)  # before the steps 51, 101 and 151 of 200


RATES = "policy.reward.noise_correction={3: {false_positive: 0.1, false_negative: 0.1}}"


PITFALLS = ["policy.reward.refresh={every: 50, pitfalls: {draws: 6}}"]


def test_pitfalls_are_written_at_each_refresh_and_planned_with_their_tests():
    own, recipe = (load_recipe(recipe_path("rubicap-laptop"), one) for one in ([], PITFALLS))
    refresh = json.loads(recipe.stage_json()["train_policy"])["reward"]["refresh"]
    assert (refresh["every"], refresh["pitfalls"]) == (50, {"draws": 6, "most": 3})
    assert json.loads(own.stage_json()["train_policy"])["reward"]["refresh"] is None
    scenes = recipe.world.scenes
    trained = scenes - recipe.data.held_out - recipe.data.warm_up
    graded = sum(
        one.count
        for one in estimate_calls(recipe, scenes)
        if one.stage == "train_policy" and one.endpoint == recipe.policy.reward.judge
    )
    # 200 steps of 8 x 8 rollouts; 3 refreshes, 6 draws, the worst 2 again and 5 teachers' captions.
    assert graded == 200 * 64 + 3 * trained * (6 + 2 + 5)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["policy.reward.refresh={pitfalls: {}}"], r"policy\.reward\.refresh\.every is missing"),
        ([*PITFALLS, RATES], r"no rates for -3, -2, -1, weights of refresh\.pitfalls"),
        ([*PITFALLS, "policy.reward.refresh.pitfalls.draws=1"], r"policy.reward.refresh.pitfalls.draws"),
    ],
)
def test_pitfalls_are_refused_where_nothing_writes_or_tests_them(overrides, message):
    with pytest.raises(UserError, match=message):
        load_recipe(recipe_path("rubicap-laptop"), overrides)


def test_rates_of_a_file_are_looked_for_before_a_run_starts(tmp_path):
    rates = f"policy.reward.noise_correction={{agreement: '{tmp_path}/none.json'}}"
    (check,) = load_recipe(recipe_path("quickstart"), [rates]).method_checks(tmp_path)
    assert check.name == "noise_correction"
    assert "none.json cannot be read" in check.problem
    for of_file_or_given in (rates, "policy.reward.noise_correction={false_positive: 0.1, false_negative: 0.1}"):
        with pytest.raises(UserError, match="a judge of type logprob gives what lies between; leave one out"):
            load_recipe(recipe_path("quickstart"), [of_file_or_given, LOGPROB])
    with pytest.raises(UserError, match=r"noise_correction\.agreement holds the errors of one judge"):
        load_recipe(recipe_path("quickstart"), [rates, CASCADE])
