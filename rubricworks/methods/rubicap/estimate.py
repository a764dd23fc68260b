"""Model calls of a RubiCap run, estimated from its recipe."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rubricworks.evaluation.rubric_audit import MAX_PROBES, MAX_READINGS
from rubricworks.grading.likert import LIKERT_TOKENS
from rubricworks.llm import Endpoint
from rubricworks.llm.usage import (
    CAPTION_TOKENS,
    COMPARISON_IN,
    COMPARISON_OUT,
    EXAM_TOKENS,
    IMAGE_TOKENS,
    QUESTIONS_PER_EXAM,
    READING_IN,
    READING_OUT,
    grading_calls,
)
from rubricworks.methods.rubicap.peers.config import ExamPeer, LikertPeer, RewritingPeer, SupervisedPeer
from rubricworks.methods.rubicap.peers.rewards import RewardedPeer
from rubricworks.methods.rubicap.recipe import RubicapRecipe
from rubricworks.methods.rubicap.stages.pitfall_refresh import SHOWN
from rubricworks.methods.rubicap.stages.train_policy import PolicySection
from rubricworks.recipe.estimate import CallEstimate, rubric_calls, scoring_calls


def estimate_calls(recipe: RubicapRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    synthesis = rubric_calls(recipe.committee, recipe.student, recipe.rubric, train + held_out)
    yield from synthesis
    policy = recipe.policy
    if gate := recipe.rubric_gate():
        rubrics = min(gate.sample, train)
        reading = (rubrics * MAX_READINGS, READING_IN, READING_OUT)
        yield CallEstimate("synthesize_rubrics", "audit reading", gate.judges[0], *reading)
        for judge in gate.judges:
            calls = grading_calls(rubrics * MAX_PROBES, gate.call_per)
            yield CallEstimate("synthesize_rubrics", "audit", judge, *calls)
    if isinstance(policy.peer, SupervisedPeer | RewritingPeer):
        yield from _supervised_calls(policy, recipe.committee.teachers, train)
        yield from scoring_calls(recipe.evaluation, held_out)
        return
    steps = policy.steps_on(train)
    rollouts = policy.rollouts_on(train)
    if policy.peer:
        yield from _reward_calls(policy.peer, train, rollouts)
    else:
        draws = policy.escalate_to.repeats if policy.escalate_to else 1
        for judge in (policy.judge, *policy.more_judges):
            yield CallEstimate("train_policy", "judge", judge, *grading_calls(draws * rollouts, policy.call_per))
        if policy.canary:
            regraded = (2 + steps // policy.canary.every) * policy.canary.samples
            for judge in (policy.judge, *policy.more_judges):
                calls = grading_calls(regraded, policy.call_per)
                yield CallEstimate("train_policy", "judge", judge, *calls)
        if policy.escalate_to:  # at most: the share of unsure verdicts is known once the judge has been asked
            calls = grading_calls(rollouts, policy.call_per)
            yield CallEstimate("train_policy", "judge", policy.escalate_to.judge, *calls)
    if recipe.rubric.refresh_every:
        refreshes = max(steps - 1, 0) // recipe.rubric.refresh_every
        yield replace(synthesis[-1], stage="train_policy", count=refreshes * train)
        if pitfalls := recipe.rubric.pitfalls:  # at most: captions that repeat are graded once
            captions = pitfalls.draws + SHOWN + len(recipe.committee.teachers) * recipe.committee.captions_each
            strong = [policy.escalate_to.judge] if policy.escalate_to else []
            for judge in (policy.judge, *policy.more_judges, *strong):
                calls = grading_calls(refreshes * train * captions, policy.call_per)
                yield CallEstimate("train_policy", "judge", judge, *calls)
    if policy.probe and policy.probe_every:
        probes = (steps - 1) // policy.probe_every * min(policy.probe_samples, held_out)
        yield CallEstimate("train_policy", "probe", policy.probe, probes, COMPARISON_IN, COMPARISON_OUT)
    yield from scoring_calls(recipe.evaluation, held_out)


def _supervised_calls(policy: PolicySection, teachers: Sequence[Endpoint], train: int) -> Iterator[CallEstimate]:
    if isinstance(policy.peer, RewritingPeer):
        drafts = train * (policy.peer.attempts + 1)  # at most: captions that meet all criteria are not rewritten
        for judge in (policy.judge, *policy.more_judges):
            yield CallEstimate("train_policy", "judge", judge, *grading_calls(drafts, policy.call_per))
        return
    captioner = policy.peer.captioner if isinstance(policy.peer, SupervisedPeer) else None
    if captioner and captioner.model not in [teacher.model for teacher in teachers]:
        yield CallEstimate("train_policy", "caption", captioner, train, IMAGE_TOKENS, CAPTION_TOKENS)


def _reward_calls(peer: RewardedPeer, train: int, rollouts: int) -> Iterator[CallEstimate]:
    if isinstance(peer, LikertPeer):
        captions = 2 if peer.kind == "reference_likert" else 1
        tokens = IMAGE_TOKENS + captions * CAPTION_TOKENS + LIKERT_TOKENS
        yield CallEstimate("train_policy", "judge", peer.judge, rollouts, tokens, 2)
    elif isinstance(peer, ExamPeer):
        yield CallEstimate("train_policy", "exam", peer.writer, train, IMAGE_TOKENS + 400, EXAM_TOKENS)
        calls = rollouts * QUESTIONS_PER_EXAM
        yield CallEstimate("train_policy", "exam", peer.taker, calls, CAPTION_TOKENS + 150, 2)
