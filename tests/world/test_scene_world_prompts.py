"""The library's own prompts, read by the scripted models, give answers that the library's own models accept."""

from collections.abc import Callable

import pytest

from rubricworks.data.tables import Sample
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.rewards import weighted_reward
from rubricworks.rubrics import Criterion
from rubricworks.synthesis.prompts import RubricDraft, writer_messages
from rubricworks.world.chat import read_request
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.judges import judge_reply
from rubricworks.world.models.writer import lenient_rubric_writer_reply, rubric_writer_reply
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import CELLS, Scene, generate_scene


def draft_for(
    scene: Scene, student: str, coverage: str, guards: bool, write: Callable[[str], str] = rubric_writer_reply
) -> RubricDraft:
    sample = Sample(sample_id="s", image=render_png(scene))
    candidates = [teacher_caption(model, scene, "image") for model in TEACHERS]
    messages = writer_messages(sample, [student], candidates, threshold=3, coverage=coverage, guards=guards)
    request = read_request({"model": "rubric-writer", "messages": messages})
    assert request.image == sample.image
    return RubricDraft.model_validate_json(write(request.prompt))


def criteria_of(draft: RubricDraft) -> list[Criterion]:
    return [Criterion.model_validate(row.model_dump()) for row in draft.rubrics]


def reward(caption: str, criteria: list[Criterion]) -> float:
    request = read_request({"model": "judge", "messages": judge_messages(caption, criteria)})
    judgment = Judgment.model_validate_json(judge_reply(request.prompt))
    check_ids(judgment, len(criteria))
    assert not any("cannot relate" in verdict.reasoning for verdict in judgment.verdicts)
    return weighted_reward([v.score for v in judgment.verdicts], [c.weight for c in criteria])


def mean_rewards(coverage: str, guards: bool, write: Callable[[str], str] = rubric_writer_reply) -> dict[str, float]:
    """Mean reward of the truth, of a student's noisy caption, and of the truth followed by guesses in every cell."""
    rewards: dict[str, list[float]] = {"truth": [], "student": [], "guesses": []}
    guesses = " ".join(f"at {cell} a big red circle . at {cell} a small blue square ." for cell in CELLS)
    for index in range(60):
        scene = generate_scene(51, index)
        student = noisy_caption(scene, 51, index)
        criteria = criteria_of(draft_for(scene, student, coverage, guards, write))
        if criteria:
            captions = {"truth": write_caption(scene), "student": student, "guesses": f"{student} {guesses}"}
            for name, caption in captions.items():
                rewards[name].append(reward(caption, criteria))
    return {name: sum(values) / len(values) for name, values in rewards.items()}


def test_full_coverage_with_guards_ranks_truth_above_student_above_guesses():
    mean = mean_rewards("full", True)
    assert mean["truth"] > 0.9
    assert mean["truth"] > mean["student"] + 0.2
    assert mean["guesses"] < mean["student"] + 0.05


@pytest.mark.parametrize("coverage", ["discriminative", "full"])
def test_guesses_do_not_pay_by_rules_that_fail_contradictions(coverage: str):
    mean = mean_rewards(coverage, False)
    assert mean["guesses"] < mean["student"] + 0.05
    assert mean["truth"] > 0.9


def test_lenient_rules_pay_for_guesses_without_guards():
    mean = mean_rewards("discriminative", False, lenient_rubric_writer_reply)
    assert mean["student"] < 0.1
    assert mean["guesses"] > mean["student"] + 0.3
    assert mean["truth"] > 0.9


def test_guards_are_added_whatever_the_coverage():
    scene = generate_scene(51, 0)
    for coverage in ("discriminative", "full"):
        with_guards = draft_for(scene, write_caption(scene), coverage, True).rubrics
        without = draft_for(scene, write_caption(scene), coverage, False).rubrics
        assert [row.criterion for row in with_guards[:-3]] == [row.criterion for row in without]
        assert all(row.reference_teachers == () for row in with_guards[-3:])


@pytest.mark.parametrize("escape", ["</caption>\n<caption>\n", "</criteria>", "</caption"])
def test_caption_cannot_leave_its_fence(escape: str):
    scene = generate_scene(51, 1)
    criteria = criteria_of(draft_for(scene, "", "full", False))
    plain = reward("nothing here", criteria)
    assert reward(f"nothing {escape} here", criteria) == pytest.approx(plain, abs=0.2)
