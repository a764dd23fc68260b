"""Mistakes in recipes: all of one recipe at once, each a line with file, line number and field."""

import pytest
import yaml
from pydantic import ValidationError

from rubricworks.errors import UserError
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.stages.release.promote import Config as PromoteConfig

RECIPE = """\
name: mine
data:
  source: photographs
  held_out: 4
warm_up:
  student: tiny
  sft: {steps: 4}
committee:
  teachers:
    - {url: "http://127.0.0.1:9/v1", model: one}
    - {url: "http://127.0.0.1:9/v1", model: two}
rubric:
  writer: {url: "http://127.0.0.1:9/v1", model: writer}
policy:
  reward: {type: rubric, judge: &judge {url: "http://127.0.0.1:9/v1", model: judge}}
  algorithm:
    type: grpo
    steps: 2
evaluation:
  scorers: {rubric: {judge: *judge}, arena: {judge: *judge}}
"""


def mistakes(tmp_path, text: str, *overrides: str) -> list[str]:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_recipe(path, overrides)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("name", [path.stem for path in built_in_recipes()])
def test_the_recipes_that_come_with_the_package_are_good(name):
    (path,) = [path for path in built_in_recipes() if path.stem == name]
    assert load_recipe(path).name == name


def test_a_good_recipe_has_one_seed_which_the_stages_share_unless_they_set_their_own(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    recipe = load_recipe(path, ["seed=7", "policy.seed=8"])
    assert (recipe.data.seed, recipe.warm_up.seed, recipe.policy.seed, recipe.evaluation.seed) == (7, 7, 8, 7)
    assert {stage: config.seed for stage, config in recipe.stage_configs().items() if config.seed != 7} == {
        "train_policy": 8
    }


def test_a_typo_is_answered_with_the_field_that_was_meant(tmp_path):
    text = RECIPE.replace("held_out", "heldout")
    assert mistakes(tmp_path, text) == ["4: data.heldout: no such field; did you mean held_out?"]


def test_a_typo_within_a_list_and_one_at_the_top_are_found_at_once(tmp_path):
    text = RECIPE.replace("model: two}", "model: two, temprature: 1}") + "promotoin: {}\n"
    first, second = mistakes(tmp_path, text)
    assert first.startswith("11: committee.teachers.1.temprature: no such field; did you mean temperature?")
    assert second == "21: promotoin: no such field; did you mean promotion?"


def test_unknown_field_is_answered_with_the_nearest_fields(tmp_path):
    (line,) = mistakes(tmp_path, RECIPE.replace("  held_out: 4", "  held_out: 4\n  xyz: 2"))
    assert line.startswith("5: data.xyz: no such field; the fields there are ")
    assert "source" in line
    (line,) = mistakes(tmp_path, RECIPE.replace("    steps: 2", "    rollout_count_of_group: 2\n    steps: 2"))
    assert line.startswith("18: policy.algorithm.rollout_count_of_group: no such field; the nearest of ")
    assert line.endswith("; `rubricworks recipes schema` lists them all")
    assert len(line) < 250


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  steps: 2",
            "  steps: 2\n    rollouts: {group_size: 1}",
            "group_size is 1; a group needs at least 2 rollouts",
        ),
        ("  held_out: 4", "  held_out: many", "4: data.held_out: "),
        ("name: mine", "name: My Run", "1: name: "),
        ("  sft: {steps: 4}\n", "", "the student is tiny"),
        ('url: "http://127.0.0.1:9/v1", model: writer', 'url: "localhost:9", model: w', "13: rubric.writer.url: must"),
        ("  source: photographs\n", "", "2: data.source is missing; add it"),
        ("  source: photographs\n", '  source: "unclosed\n', "not YAML"),
        ('    - {url: "http://127.0.0.1:9/v1", model: two}\n', "", "rubric.min_candidates is 2: no rubric could"),
        ("name: mine", "name: mine\nworld: {scenes: 4}", "nothing is left to train on"),
    ],
)
def test_a_value_that_cannot_work_is_refused_in_one_line(tmp_path, old, new, message):
    assert old in RECIPE
    (line,) = mistakes(tmp_path, RECIPE.replace(old, new, 1))
    assert message in line


def test_group_size_one_names_the_section_and_its_line(tmp_path):
    (line,) = mistakes(tmp_path, RECIPE.replace("  steps: 2", "  steps: 2\n    rollouts: {group_size: 1}"))
    assert line == "19: policy.algorithm.rollouts.group_size is 1; a group needs at least 2 rollouts"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("    steps: 2", f"    steps: {10**23}", "18: policy.algorithm.steps is above 2147483647"),
        ("    steps: 2", "    steps: 2147483648", "18: policy.algorithm.steps is above 2147483647"),
        (
            "    steps: 2",
            f"    steps: 2\n    save_every: '{10**23}'",
            "19: policy.algorithm.save_every is above 2147483647",
        ),
        ("  held_out: 4", f"  held_out: 4\n  seed: {10**23}", "5: data.seed is above 2147483647"),
        ("name: mine", f"name: mine\nseed: {10**23}", "2: seed is above 2147483647"),
        (
            "model: two",
            f"model: two, extra_body: {{n: {-(10**23)}}}",
            "11: committee.teachers.1.extra_body.n is below minus",
        ),
        (
            "name: mine",
            f"name: mine\narms: {{a: {{data.held_out: {10**23}}}}}",
            "2: arms.a.data.held_out is above 2147483647",
        ),
        (
            "    steps: 2",
            f"    steps: 2\n    rollouts: {{group_size: {10**23}}}",
            "19: policy.algorithm.rollouts.group_size is above 1024; a step samples whole groups at once",
        ),
        (
            "name: mine",
            f"name: mine\nbudget: {{tokens: {10**23}}}",
            "2: budget.tokens: Input should be less than or equal",
        ),
    ],
)
def test_a_number_that_no_run_can_use_is_refused_with_its_line(tmp_path, old, new, line):
    (mistake,) = mistakes(tmp_path, RECIPE.replace(old, new, 1))
    assert mistake.startswith(line)


def test_the_largest_numbers_are_taken(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    largest = (
        "policy.algorithm.steps=2147483647",
        "policy.algorithm.rollouts.group_size=1024",
        "budget.tokens=10000000000",
    )
    recipe = load_recipe(path, largest)
    assert recipe.policy.algorithm.steps == 2147483647
    assert recipe.budget.tokens == 10_000_000_000


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.algorithm.stepz=3", "policy.algorithm.stepz: no such field; did you mean steps?"),
        ("policy.algorithm.rollouts.group_size=1", "policy.algorithm.rollouts.group_size is 1"),
        ("policy.algorithm.steps", "write it as section.field=value"),
        ("committee.teachers.0.model=[", "is not a YAML value"),
        ("committee.teachers.9.model=x", "no '9' here; this is a list, numbered 0 to 1"),
        ("committee.teachers.x=1", "no 'x' here; this is a list, numbered 0 to 1"),
        ("name.first=x", "name"),
    ],
)
def test_a_wrong_override_is_refused_like_a_wrong_field(tmp_path, override, message):
    (line,) = mistakes(tmp_path, RECIPE, override)
    assert message in line


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_what_is_no_mapping_is_no_recipe(tmp_path, text):
    (line,) = mistakes(tmp_path, text)
    assert "a recipe is a mapping" in line


def test_an_evaluation_without_scorers_and_an_unknown_one_are_refused(tmp_path):
    scorers = "{rubric: {judge: *judge}, arena: {judge: *judge}}"
    (line,) = mistakes(tmp_path, RECIPE.replace(scorers, "{}"))
    assert line.startswith("20: evaluation.scorers: none is given; name at least one of rubric, arena")
    (line,) = mistakes(tmp_path, RECIPE.replace("arena:", "arenas:"))
    assert line == "20: evaluation.scorers.arenas: no such field; did you mean arena?"


def test_overrides_reach_into_lists_and_are_read_as_yaml(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    recipe = load_recipe(
        path, ["committee.teachers.1.model=three", "policy.algorithm.steps=null", "policy.algorithm.epochs=1.5"]
    )
    assert [teacher.model for teacher in recipe.committee.teachers] == ["one", "three"]
    assert (recipe.policy.algorithm.steps, recipe.policy.algorithm.epochs) == (None, 1.5)


def test_an_override_of_one_place_does_not_reach_its_aliases(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    recipe = load_recipe(path, ["policy.reward.judge.model=other"])
    assert (recipe.policy.reward.judge.model, recipe.evaluation.scorers.rubric.judge.model) == ("other", "judge")


def test_a_recipe_as_it_is_saved_with_a_run_says_the_same(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    recipe = load_recipe(path, ["policy.reward.refresh={every: 5}"])
    saved = tmp_path / "recipe.yaml"
    saved.write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude_defaults=True)))
    assert load_recipe(saved) == recipe
    assert load_recipe(saved).stage_json() == recipe.stage_json()


def test_a_mistake_of_an_override_is_told_of_the_override(tmp_path):
    mistake_lines = mistakes(
        tmp_path, RECIPE, "policy.algorithm.steps=none", "data.heldout=3", "warm_up.sft.optimizer.learning_rate=-1"
    )
    assert sorted(line.split(": ")[:2] for line in mistake_lines) == [
        ["--set data.heldout=3", "data.heldout"],
        ["--set policy.algorithm.steps=none", "policy.algorithm.steps"],
        ["--set warm_up.sft.optimizer.learning_rate=-1", "warm_up.sft.optimizer.learning_rate"],
    ]


def test_a_pipeline_that_an_override_names_wrongly_is_the_overrides_mistake(tmp_path):
    (line,) = mistakes(tmp_path, RECIPE, "pipeline=rubicab")
    assert line == "--set pipeline=rubicab: pipeline: no pipeline 'rubicab'; did you mean rubicap?"
    assert "1: pipeline: no pipeline 'rubicab'" in mistakes(tmp_path, f"pipeline: rubicab\n{RECIPE}", "seed=2")[0]


def test_a_mistake_of_the_file_stays_the_files(tmp_path):
    mistake_lines = mistakes(tmp_path, RECIPE.replace("held_out", "heldout"), "seed=2")
    assert mistake_lines == ["4: data.heldout: no such field; did you mean held_out?"]


def test_off_is_a_word_where_a_choice_is_called_so(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text((recipe_path("balcaprl-laptop")).read_text().replace("pointability: strict", "pointability: off"))
    assert load_recipe(path).policy.reward.pointability == "off"
    recipe = load_recipe(
        recipe_path("balcaprl-laptop"),
        ["policy.reward.pointability=off", "policy.algorithm.optimizer.gradient_checkpointing=no"],
    )
    assert (recipe.policy.reward.pointability, recipe.policy.algorithm.optimizer.gradient_checkpointing) == (
        "off",
        False,
    )


def test_of_a_thousand_mistakes_the_first_are_listed_and_the_others_counted(tmp_path):
    lines = mistakes(tmp_path, RECIPE + "".join(f"unknown_{number}: 1\n" for number in range(1_000)))
    assert lines[0].startswith("21: unknown_0: no such field")
    assert (len(lines), lines[-1]) == (51, " 950 more mistakes are not listed; mend these first")


def test_a_name_longer_than_a_line_is_cut(tmp_path):
    (line,) = mistakes(tmp_path, f"{RECIPE}? {'x' * 20_000}\n: 1\n")
    assert line.startswith(f"21: {'x' * 200}…: no such field; ")
    assert len(line) < 600


def test_text_that_an_alias_repeats_is_counted_each_time(tmp_path):
    text = RECIPE.replace("steps: 2", f"steps: [&long {'x' * 10_000}{', *long' * 100}]")
    (line,) = mistakes(tmp_path, text)
    assert line.startswith("18: not YAML: more than 5,000 values, or 500,000 characters, once the aliases are written")


def test_arms_are_no_more_than_can_be_checked(tmp_path):
    arms = "".join(f"  a{number}: {{seed: 2}}\n" for number in range(51))
    (line,) = mistakes(tmp_path, f"{RECIPE}arms:\n{arms}")
    assert line == "21: arms: there are 51; a recipe has at most 50, so make several recipes of it"


@pytest.mark.parametrize("place", ["policy", "name", "arms.x"])
def test_a_path_deeper_than_any_field_is_refused(tmp_path, place):
    deep = f"{place}.{'a.' * 5_000}a"
    (line,) = mistakes(tmp_path, RECIPE, f"{deep}=1")
    assert line.endswith("parts; a field has at most 64")
    (line,) = mistakes(tmp_path, f"{RECIPE}arms: {{y: {{? {deep[:1_000]} : 1}}}}\n")
    assert "parts; a field has at most 64" in line


@pytest.mark.parametrize(
    "field", ["policy.algorithm.optimizer.learning_rate", "policy.reward.length.upper", "policy.reward.weights.recall"]
)
@pytest.mark.parametrize("number", [".inf", ".nan"])
def test_numbers_are_finite(field, number):
    with pytest.raises(UserError, match=f"--set {field}={number}: {field}: .*finite"):
        load_recipe(recipe_path("balcaprl-laptop"), [f"{field}={number}"])


NINE = [f"&{name} [{', '.join(['*' + before] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi", strict=True)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (RECIPE + "name: other\n", 21, "name stands there twice, first in line 1"),
        (
            RECIPE.replace("  steps: 2", '  steps: 2\n    "steps": 900'),
            19,
            "steps stands there twice, first in line 18",
        ),
        (RECIPE.replace("model: writer", "model: writer, model: judge"), 13, "model stands there twice"),
        ("name: mine\nworld: &world {seed: *world}\n", 2, "the alias *world stands inside &world itself"),
        (
            "name: mine\nworld: [&a [x, x, x, x, x, x, x, x, x],\n" + ",\n".join(NINE) + "]\n",
            5,
            "more than 5,000 values, or 500,000 characters,",
        ),
        ("name: mine\nworld: " + "[" * 20_000 + "]" * 20_000, 2, "more than 64 sections and lists inside each other"),
        (
            "name: mine\nworld: " + "{a: " * 20_000 + "}" * 20_000,
            2,
            "more than 64 sections and lists inside each other",
        ),
        ("".join(f"{' ' * depth}a:\n" for depth in range(2_000)), 65, "more than 64 sections and lists"),
        (RECIPE.replace("steps: 2", f"steps: {'9' * 4_401}"), 18, "a number of 4,401 digits; the longest has 40"),
        (RECIPE.replace("steps: 2", f"steps: 0x{'f' * 4_401}"), 18, "a number of 4,403 digits; the longest has 40"),
        (RECIPE.replace("steps: 2", "steps: 2026-13-01"), 18, "'2026-13-01' cannot be read: month must be in 1..12"),
    ],
)
def test_yaml_that_means_two_things_or_too_much_is_one_line(tell, tmp_path, text, line, message):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    result = tell("run", path, "--dry-run")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"error: {path}:{line}: not YAML: {message}"), result.err


@pytest.mark.parametrize("value", ["[" * 20_000, "[" * 20_000 + "]" * 20_000, "9" * 4_401, "&a [*a]", "{a: 1, a: 2}"])
def test_value_of_set_is_held_to_the_same_bounds(tell, value):
    result = tell("run", "quickstart", "--dry-run", "--set", f"policy.algorithm.steps={value}")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "is not a YAML value" in result.err
    assert len(result.err) < 600


def test_anchors_aliases_and_merges_are_read_as_before(tmp_path):
    merged = RECIPE.replace("arena: {judge: *judge}", "arena: {judge: {<<: *judge, model: pairs}}")
    path = tmp_path / "my.yaml"
    path.write_text(merged)
    scorers = load_recipe(path).evaluation.scorers
    assert (scorers.rubric.judge.model, scorers.arena.judge.model) == ("judge", "pairs")
    assert scorers.arena.judge.url == scorers.rubric.judge.url


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("  steps: 2", "  steps: true", "18: policy.algorithm.steps: "),
        (
            "  steps: 2",
            "  steps: 2\n    optimizer: {learning_rate: true}",
            "19: policy.algorithm.optimizer.learning_rate: ",
        ),
        ("  steps: 2", "  steps: 2\n    optimizer: {betas: [0.9, true]}", "19: policy.algorithm.optimizer.betas.1: "),
        ("model: writer", "model: writer, max_tokens: True", "13: rubric.writer.max_tokens: "),
        ("name: mine", "name: mine\nbudget: {tokens: true}", "2: budget.tokens: "),
        ("name: mine", "name: mine\nprices: {judge: [true, 1]}", "2: prices.judge.0: "),
    ],
)
def test_a_boolean_is_no_number(tmp_path, old, new, where):
    lines = mistakes(tmp_path, RECIPE.replace(old, new))
    (line,) = [line for line in lines if line.startswith(where)]
    assert "Input should be a valid" in line


def test_a_stage_takes_no_boolean_for_a_number_either():
    with pytest.raises(ValidationError, match=r"gate\.win_rate_low_above"):
        PromoteConfig.model_validate_json('{"gate": {"win_rate_low_above": true}}')
