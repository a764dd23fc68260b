"""The papers' registrations: arms and settings that their recipes have, and gates that are measured."""

import pytest

from rubricworks.claims.behavioural_policy import CLAIMED
from rubricworks.claims.gates import GATES
from rubricworks.claims.registration import BASE, OWN, load_registration, methods_with_claims, registration_path
from rubricworks.recipe.files import load_recipe, recipe_path

PAPERS = ["rubicap", "rlr3", "balcaprl", "rubricrl"]


def test_all_four_papers_are_registered():
    assert sorted(methods_with_claims()) == sorted(PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_registered_arm_setting_and_gate_exists(paper):
    registration = load_registration(registration_path(paper))
    recipe = load_recipe(recipe_path(registration.recipe), registration.settings)
    assert recipe.pipeline == paper
    assert set(registration.runs) - {OWN} <= recipe.arms.keys() | CLAIMED.keys()
    assert BASE in registration.own_run
    gates = {*registration.gates, *(gate for claim in registration.claims for gate in claim.gates)}
    assert gates <= GATES.keys()
    for claim in registration.claims:
        assert claim.metric != "length_tokens" or claim.margin == 2, claim.id


@pytest.mark.parametrize(("paper", "seeds", "margin"), [("balcaprl", 16, 0.03), ("rlr3", 12, 0.02)])
def test_papers_without_a_pilot_have_a_fixed_number_of_seeds(paper, seeds, margin):
    registration = load_registration(registration_path(paper))
    assert (registration.seeds, registration.margin, registration.blinded) == (seeds, margin, None)


@pytest.mark.parametrize("paper", ["rubicap", "rubricrl"])
def test_papers_with_a_pilot_fix_the_number_after_eight_seeds(paper):
    plan = load_registration(registration_path(paper)).blinded
    assert (plan.pilot, plan.at) == (5, 8)
