"""Recipes of the BalCapRL pipeline as users meet them: listed, planned, mistaken, run as one of their arms."""

from functools import cache

import pytest

from rubricworks.errors import UserError
from rubricworks.llm.usage import CRITERIA_PER_RUBRIC
from rubricworks.recipe.files import load_recipe, recipe_path

URL = "http://127.0.0.1:9/v1"
RECIPE = f"""\
name: mine
pipeline: balcaprl
data:
  source: images
  held_out: 4
warm_up:
  student: some-vlm-2B
exams:
  writer: {{url: "{URL}", model: writer}}
policy:
  reward:
    type: caption_scores
    judge: {{url: "{URL}", model: judge}}
  algorithm: {{type: grpo, steps: 10}}
evaluation:
  scorers:
    b_capscore: {{judge: {{url: "{URL}", model: strong}}}}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    return path


def mistake(path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    (line,) = str(caught.value).splitlines()
    return line.removeprefix(f"{path}:")


def test_both_recipes_are_listed_with_what_they_are(tell):
    listed = {line.split()[0]: line for line in tell("recipes", "list").out.splitlines() if line.startswith("balcaprl")}
    assert "simulated judges, a real small student" in listed["balcaprl-laptop"]
    assert "paper's settings" in listed["balcaprl"]


def test_a_dry_run_counts_every_call_of_the_laptop_recipe_and_runs_nothing(tell, tmp_path):
    small = ["world.scenes=200", "data.held_out=20", "data.warm_up=30", "policy.algorithm.steps=5"]
    small += ["policy.algorithm.rollouts.prompts_per_step=3", "policy.algorithm.rollouts.group_size=4"]
    result = tell("run", "balcaprl-laptop", "--dry-run", *(part for item in small for part in ("--set", item)))
    assert result.code == 0, result
    assert calls(result.out) == {
        ("recap", "recaptioner"): 150 + 20,
        ("write_exams", "exam-writer"): 20,
        ("train_balcaprl", "assertion-judge"): 5 * 3 * 4,
        ("score", "assertion-judge-strong"): 2 * 20,
        # Both texts taken apart, matched, and checked against the image.
        ("score", "fact-judge"): 2 * 20 * 4,
        ("score", "exam-taker"): 2 * 20 * 5,
        ("score", "arena-judge"): 20,
    }
    assert "balcaprl-laptop: balcaprl on 200 images, 20 of them held out" in result.out
    assert not (tmp_path / "runs").exists()


def calls(plan: str) -> dict[tuple[str, str], int]:
    lines = [line.split() for line in plan.splitlines()]
    return {(f[0], f[3]): int(f[1].replace(",", "")) for f in lines if len(f) > 4 and f[1].replace(",", "").isdigit()}


def test_a_plan_follows_the_arm(tell):
    def trained(*options: str) -> dict[tuple[str, str], int]:
        sizes = ["world.scenes=200", "data.held_out=20", "data.warm_up=30", "policy.algorithm.steps=5"]
        result = tell(
            "run", "balcaprl-laptop", "--dry-run", *(part for size in sizes for part in ("--set", size)), *options
        )
        return {
            key: count
            for key, count in calls(result.out).items()
            if key[0] in ("recap", "peer_rubrics", "train_balcaprl")
        }

    assert trained() == {("recap", "recaptioner"): 150 + 20, ("train_balcaprl", "assertion-judge"): 320}
    assert trained("--arm", "sft").keys() == {("recap", "recaptioner")}
    assert trained("--arm", "weak_references")["recap", "recaptioner"] == 20
    assert trained("--arm", "judge_mini")["train_balcaprl", "assertion-judge-mini"] == 320
    assert trained("--arm", "caprl")["train_balcaprl", "exam-taker"] == 320 * 5
    rubicap = trained("--arm", "rubicap")
    assert rubicap["train_balcaprl", "judge"] == 320
    each = trained("--arm", "rubicap", "--set", "policy.reward.call_per=criterion")
    assert each["train_balcaprl", "judge"] == 320 * CRITERIA_PER_RUBRIC
    # Held-out samples need no rubrics.
    expected = {("peer_rubrics", model): 150 for model in (*(f"teacher-{n}" for n in range(1, 6)), "rubric-writer")}
    assert {key: count for key, count in rubicap.items() if key[0] == "peer_rubrics"} == expected


@cache
def stage_configs(name: str) -> dict[str, str]:
    return load_recipe(recipe_path(name)).stage_json()


def changed(name: str, arm: str) -> set[str]:
    """The stages whose configuration an arm changes; those before the first of them can be shared."""
    own, of_arm = stage_configs(name), load_recipe(recipe_path(name), arm=arm).stage_json()
    # An arm is not promoted; promotion tells the registry how a model was made.
    return {stage for stage in own if own[stage] != of_arm[stage]} - {"promote"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["balcaprl", "balcaprl-laptop"])
def test_every_arm_differs_in_its_training_and_shares_the_rest(name):
    recipe = load_recipe(recipe_path(name))
    expected = {"full", "no_cgdpo", "no_precision", "no_recall", "no_linguistic", "no_pointability", "weak_references"}
    expected |= {"no_length", "linear", "gate_0_3", "gate_05_1", "gate_05_3", "w_prec_02", "w_prec_04", "sft", "caprl"}
    expected |= {"rubicap"}
    assert expected <= recipe.arms.keys()
    for arm in recipe.arms:
        also = {"recap"} if arm == "weak_references" else set()
        if arm == "rubicap":
            also = {"peer_rubrics"}
        assert changed(name, arm) - also == {"train_balcaprl"}, arm
        assert also <= changed(name, arm)


@pytest.mark.slow
def test_no_two_arms_are_the_same():
    for name in ("balcaprl", "balcaprl-laptop"):
        recipe = load_recipe(recipe_path(name))
        result = [tuple(load_recipe(recipe_path(name), arm=arm).stage_json().values()) for arm in (None, *recipe.arms)]
        assert len(set(result)) == len(result)


def test_the_papers_settings():
    recipe = load_recipe(recipe_path("balcaprl"))
    policy = recipe.policy
    assert (policy.reward.weights.precision, policy.reward.weights.recall, policy.reward.weights.linguistic) == (
        0.1,
        0.3,
        0.3,
    )
    assert (policy.reward.length.type, policy.reward.length.lower, policy.reward.length.upper) == ("gate", 0.5, 2.0)
    assert (policy.algorithm.advantages, policy.reward.pointability, policy.algorithm.beta, policy.algorithm.delta) == (
        "c-gdpo",
        "strict",
        0.0,
        3.0,
    )
    assert (
        policy.algorithm.rollouts.group_size,
        policy.algorithm.rollouts.prompts_per_step,
        policy.algorithm.epochs,
        policy.algorithm.steps,
    ) == (8, 256, 1, None)
    assert (policy.algorithm.optimizer.learning_rate, policy.algorithm.optimizer.schedule, policy.algorithm.loss) == (
        5e-6,
        "cosine",
        "dr_grpo",
    )
    assert (
        policy.reward.judge.model,
        recipe.recap.captioner.model,
        recipe.evaluation.scorers.b_capscore.judge.model,
    ) == (
        "gpt-4o-mini",
        "gpt-5-mini",
        "gpt-5.4",
    )
    assert recipe.recap.prompt is None  # the original captioning prompts
    assert recipe.evaluation.scorers.b_capscore.pointability == "evidence"


def test_assertions_are_counted_as_the_papers_judge_lists_them():
    """Dropping those that the text does not make is ours; the recipe with the paper's settings drops none."""
    for arm in (None, *load_recipe(recipe_path("balcaprl")).arms):
        recipe = load_recipe(recipe_path("balcaprl"), arm=arm)
        overlaps = {getattr(recipe.policy.reward, "min_overlap", 0), recipe.evaluation.scorers.b_capscore.min_overlap}
        assert overlaps == {0}, arm


def test_peer_rubicap_asks_one_criterion_at_a_time_as_rubicap_does():
    rubicap = load_recipe(recipe_path("rubicap"))
    peer = load_recipe(recipe_path("balcaprl"), arm="rubicap")
    assert [
        rubicap.policy.reward.call_per,
        rubicap.evaluation.scorers.rubric.call_per,
        peer.policy.reward.call_per,
    ] == ["criterion"] * 3


def test_without_a_recap_section_the_images_own_captions_are_the_references(path):
    assert load_recipe(path).recap.captioner is None
    path.write_text(RECIPE + "recap: null\nseed: 7\n")
    recipe = load_recipe(path)
    assert recipe.recap.captioner is None
    assert {stage: config.seed for stage, config in recipe.stage_configs().items()} == dict.fromkeys(
        recipe.stage_configs(), 7
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: mine", "name: mine\nworld: {scenes: 4}", "data.held_out and data.warm_up take 4: nothing is left"),
        ("  held_out: 4", "  heldout: 4", "data.heldout: no such field; did you mean held_out?"),
        ("name: mine", "name: mine\nrecap: {captoner: x}", "recap.captoner: no such field; did you mean captioner?"),
        ("caption_scores\n", "caption_scores\n    pointability: loose\n", "policy.reward.pointability"),
        (
            "caption_scores\n",
            "caption_scores\n    weights: {precison: 1}\n",
            "policy.reward.weights.precison: no such field; did you mean",
        ),
        ("model: writer}", "model: writer}\n  splits: [train]\n", None),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_field(path, old, new, message):
    text = RECIPE.replace(old, new, 1)
    assert text != RECIPE
    if message is None:  # no CaptionQA, so held-out samples need no exams
        path.write_text(text)
        assert load_recipe(path).exams.splits == ("train",)
        return
    mistake_lines = mistake(path, text)
    assert message in mistake_lines
    assert mistake_lines.split(":")[0].isdigit()


def test_exams_must_be_there_for_whoever_reads_them(path):
    text = RECIPE.replace(
        "model: strong}}", f'model: strong}}}}\n    caption_qa: {{judge: {{url: "{URL}", model: reader}}}}'
    )
    assert text != RECIPE
    mistake_lines = mistake(path, text.replace("model: writer}", "model: writer}\n  splits: [train]"))
    assert (
        "evaluation.scorers.caption_qa is set: held-out samples need exams; add held_out to exams.splits"
        in mistake_lines
    )


def test_the_reward_of_rubrics_needs_a_committee_and_a_writer(path):
    text = RECIPE.replace("caption_scores", "rubric")
    assert "policy.reward.type is rubric: training needs rubrics; add rubrics.committee and rubrics.rubric" in mistake(
        path, text
    )
    teachers = [f'{{url: "{URL}", model: {name}}}' for name in ("one", "two")]
    half = f"{text}rubrics:\n  committee: {{teachers: [{', '.join(teachers)}]}}\n"
    assert "rubric is not set: rubrics take a committee and a rubric writer, or neither" in mistake(path, half)
    path.write_text(f'{half}  rubric: {{writer: {{url: "{URL}", model: writer}}}}\nseed: 7\n')
    result = load_recipe(path).rubrics
    assert {item.seed for item in (result, result.committee, result.student, result.rubric)} == {7}


def test_the_pipeline_is_one_of_those_that_there_are(path):
    assert "did you mean balcaprl?" in mistake(path, RECIPE.replace("pipeline: balcaprl", "pipeline: balcapr"))
