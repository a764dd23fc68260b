"""Arms of a recipe: few fields that differ, checked when the file is read, run by name."""

import json
import re

import pytest
import yaml
from questions_recipe import RECIPE

from rubricworks.errors import UserError
from rubricworks.recipe.files import load_recipe, recipe_path

ARMS = """\
arms:
  no_gate: {policy.reward.gate: false}
  plain:
    policy.reward.gate: false
    policy.reward.remap: false
  others: {policy.reward.judge.of.1.model: third, checklists.verifiers: {"*": [text_verify]}}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE + ARMS)
    return path


def mistakes(path, arms: str) -> list[str]:
    path.write_text(RECIPE + arms)
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_an_arm_changes_its_fields_and_no_others(path):
    recipe, arm = load_recipe(path), load_recipe(path, arm="plain")
    assert (recipe.arm, arm.arm) == (None, "plain")
    fields = recipe.model_dump()
    assert fields["policy"]["reward"]["gate"]
    fields["policy"]["reward"] |= {"gate": False, "remap": False}
    assert arm.model_dump() == fields | {"arm": "plain"}


def test_an_arm_reaches_into_lists_and_replaces_sections(path):
    arm = load_recipe(path, arm="others")
    assert arm.policy.reward.judge.of[1].model == "third"
    assert arm.checklists.verifiers == {"*": ("text_verify",)}
    assert load_recipe(path).policy.reward.judge.of[1].model == "second"


def test_what_the_command_line_sets_wins_over_the_arm(path):
    arm = load_recipe(path, ["policy.reward.remap=true"], arm="plain")
    assert (arm.policy.reward.gate, arm.policy.reward.remap) == (False, True)


def test_an_arm_that_is_not_there_is_answered_with_those_that_are(path, tell):
    result = tell("run", path, "--arm", "no_gates", "--dry-run")
    assert result.code == 2
    assert result.err == f"error: {path}: no arm 'no_gates'; did you mean no_gate?\n"
    assert "there are no_gate, plain, others" in tell("run", path, "--arm", "x", "--dry-run").err
    path.write_text(RECIPE)
    assert "no arm 'x'; it has none" in tell("run", path, "--arm", "x", "--dry-run").err


def test_every_mistake_in_every_arm_is_told_with_the_line_of_the_field(path):
    first = len(RECIPE.splitlines()) + 1
    mistake_lines = mistakes(
        path,
        ARMS
        + "  a: {policy.reward.gatee: true}\n  b:\n    policy.reward.gate: false\n    policy.algorithm.beta: 0.1\n",
    )
    assert mistake_lines[0] == f"{first + 6}: arms.a: policy.reward.gatee: no such field; did you mean gate?"
    assert mistake_lines[1].startswith(f"{first + 7}: arms.b: policy.algorithm.loss group_token_mean has no KL penalty")
    assert len(mistake_lines) == 2
    (mistake,) = mistakes(path, ARMS + "  c:\n    policy.reward.gate: false\n    policy.algorithm.steps: many\n")
    assert mistake.startswith(f"{first + 8}: arms.c: policy.algorithm.steps: ")
    assert '(given: "many")' in mistake


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ("  a: {polcy.reward.gate: true}", "arms.a: polcy: no such field; did you mean policy?"),
        (
            "  a: {policy.reward.judge.of.3.model: x}",
            "arms.a: policy.reward.judge.of.3.model: no '3' here",
        ),
        ("  a: [policy.reward.gate]", "arms.a: Input should be a valid dictionary"),
        ("  Big Name: {policy.reward.gate: true}", "String should match pattern"),
        (
            "  a: {policy.algorithm.milestone_every: 7}",
            "arms.a: policy.algorithm.milestone_every 7 does not divide policy.algorithm.steps 20",
        ),
    ],
)
def test_a_mistake_in_an_arm_is_one_line_before_anything_runs(path, arm, message):
    (mistake,) = mistakes(path, f"arms:\n{arm}\n")
    assert message in mistake
    assert int(mistake.split(":")[0]) >= len(RECIPE.splitlines()) + 1


def test_a_mistake_in_the_recipe_itself_is_told_once_and_not_for_every_arm(path):
    path.write_text(RECIPE.replace("  steps: 20", "  steps: none") + ARMS)
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    assert str(caught.value).count("\n") == 0
    assert "policy.algorithm.steps" in str(caught.value)
    assert "arms" not in str(caught.value)


def test_an_override_that_an_arm_could_not_have_is_no_hindrance_to_other_runs(path):
    path.write_text(RECIPE + "arms:\n  often: {policy.algorithm.milestone_every: 5}\n")
    assert (
        load_recipe(path, ["policy.algorithm.steps=12", "policy.algorithm.milestone_every=4"]).policy.algorithm.steps
        == 12
    )


def test_a_plan_is_that_of_the_arm(path, tell, tmp_path):
    questions = tmp_path / "questions.jsonl"
    lines = [json.dumps({"question": f"q{n}", "answer": "1"}) for n in range(6)]
    questions.write_text("\n".join(lines))
    path.write_text(RECIPE + ARMS)
    result = tell("run", path, "--arm", "others", "--set", f"data.source={questions}", "--dry-run")
    planned = [line.split() for line in result.out.splitlines() if line.startswith("train_rlr3")]
    assert {line[3] for line in planned} == {"judge", "third"}


def test_a_run_to_take_from_must_be_there_and_be_another_one(path, tell, tmp_path):
    for name in ("main", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        saved = load_recipe(path).model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
        (tmp_path / "runs" / name / "recipe.yaml").write_text(yaml.safe_dump(saved))
    assert "no run 'mian'" in tell("run", path, "--reuse", "mian", "--dry-run").err
    assert "that is this run itself" in tell("run", "--resume", "main", "--reuse", "main", "--dry-run").err
    other = tell("run", "--resume", "main", "--reuse", tmp_path / "runs" / "other", "--dry-run")
    assert "questions.parquet" in other.err  # only the questions are missing
    assert "stays the arm that it is" in tell("run", "--resume", "main", "--arm", "plain").err


THINKS = re.compile(r"gemini-2\.5-pro|gpt-5|\bo[34]\b|GLM-4\.\dV?|DeepSeek-R|-[Tt]hinking")
"""Models that think before they answer, unless they are asked not to; `max_tokens` counts what they think."""


def shipped():
    for file in sorted(recipe_path("rubicap").parent.glob("*.yaml")):
        yield file.stem, None
        yield from ((file.stem, arm) for arm in yaml.safe_load(file.read_text()).get("arms") or {})


@pytest.mark.parametrize(("name", "arm"), shipped())
def test_models_that_think_have_tokens_left_for_their_answer(name, arm):
    recipe = load_recipe(recipe_path(name), arm=arm)
    limits = {
        f"{field}: {endpoint.model}": endpoint.max_tokens
        for field, endpoint in recipe.endpoints()
        if THINKS.search(endpoint.model)
    }
    assert not {of: tokens for of, tokens in limits.items() if tokens < 4096}
