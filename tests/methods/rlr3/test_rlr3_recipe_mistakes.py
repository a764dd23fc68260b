"""Mistakes in recipes of the RLR³ pipeline: each a line with file, line number and field."""

import pytest
from questions_recipe import RECIPE, URL

from rubricworks.errors import UserError
from rubricworks.recipe.files import load_recipe

PRICES = "prices:\n  judge: [1.0, 2.0]\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.yaml"


def mistakes(path, text: str, *overrides: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_recipe(path, overrides)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)


def test_another_pipeline_is_answered_with_the_one_that_was_meant(path):
    assert mistakes(path, RECIPE.replace("pipeline: rlr3", "pipeline: rlr33")) == [
        "2: pipeline: no pipeline 'rlr33'; did you mean rlr3?"
    ]
    assert mistakes(path, RECIPE.replace("pipeline: rlr3", "pipeline: [1]")) == [
        "2: pipeline: no pipeline [1]; there are rubicap, rlr3, balcaprl, rubricrl, "
        "recaption_pretrain, retrain, evaluate"
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("every: 10", "every: 15", "milestone_every", "milestone_every 15 does not divide policy.algorithm.steps 20"),
        ("every: 10", "every: 0", "milestone_every", "policy.algorithm.milestone_every is 0: the arms are compared by"),
        ("name: mine", "name: mine\nworld: {scenes: 9}", "world", "world.questions is 0: RLR³ trains on questions"),
        ("name: mine", "name: mine\nworld: {scenes: 2, questions: 2}", "world", "nothing is left to train on"),
        ("  held_out: 4", "  heldout: 4", "heldout", "data.heldout: no such field; did you mean held_out?"),
        ("  steps: 20", "  stepps: 20", "stepps", "policy.algorithm.stepps: no such field; did you mean steps?"),
        (
            "type: checklist",
            "type: checklist\n    gatee: no",
            "gatee",
            "policy.reward.gatee: no such field; did you mean gate?",
        ),
        (
            "label-2}",
            "label-2, modell: x}",
            "label-2",
            "genrm_data.teachers.1.modell: no such field; did you mean model",
        ),
        ("  per_category: 10", "  percategory: 10", "percategory", "did you mean per_category?"),
        ("examiner:", "examinor:", "examinor", "checklists.examinor: no such field; did you mean examiner?"),
        ("label-2}", "label-1}", "genrm_data:", "a teacher is there twice"),
        ("model: quality-2}", "model: quality-2}\n    - *judge", "quality_judges", "there are exactly two"),
        ("  per_category: 10", "  per_category: 10\n  settings: [words]", "settings", "audit.settings.0"),
        (f'  merger: {{url: "{URL}", model: merger}}\n', "", "checklists:", "2 teachers and no merger"),
        ("genrm:\n", "genrm:\n  base: {steps: 5}\n", "genrm:", "`base` is for student tiny_text"),
        ("  steps: 20", "  steps: 20\n    beta: 0.1", "loss:", "group_token_mean has no KL penalty"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_field(path, old, new, line, message):
    text = RECIPE.replace(old, new, 1)
    assert text != RECIPE
    (mistake,) = mistakes(path, text)
    assert message in mistake
    number = int(mistake.split(":")[0])
    assert number in (line_of(text, line), line_of(text, line) + 1), mistake


def test_fields_of_the_other_pipeline_are_no_fields_of_this_one(path):
    (mistake,) = mistakes(path, RECIPE + "committee: {}\n")
    assert "committee: no such field; " in mistake
    assert "filter" in mistake, "the nearest of this pipeline's own"


def test_dollars_cannot_be_capped_while_a_model_has_no_price(path):
    (mistake,) = mistakes(path, RECIPE + PRICES + "budget: {dollars: 5}\n")
    assert "budget.dollars caps the cost, but no price is known of answers, examiner, generator, label-1" in mistake
    assert int(mistake.split(":")[0]) == len((RECIPE + PRICES).splitlines()) + 1
