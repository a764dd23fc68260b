"""The recipes with RubiCap's rubric in the paper's form, and the arms that show how it is hacked."""

import pytest

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
