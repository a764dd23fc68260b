"""Model calls of an RLR³ run, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.llm.usage import CAPTION_TOKENS, GUIDE_TOKENS, IMAGE_TOKENS, GradingCalls
from rubricworks.methods.rlr3.recipe import Rlr3Recipe
from rubricworks.policy.rewards.checklist import CHECKLIST_TOKENS, EXECUTION_TOKENS
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.estimate import CallEstimate, audit_calls, policy_calls, scoring_calls

MULTIPLE_CHOICE_SHARE = 0.35
"""Table 1 of the paper: 22 to 48 % of a corpus."""
FILTER_SHARE = 0.4
"""Table 1 of the paper: the essential rule keeps 25 to 60 %."""
PATTERNS_PER_ROUND = 3
"""Attack patterns per proposal of the red team: one of each family."""


def estimate_calls(recipe: Rlr3Recipe, questions: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, questions)
    train = max(questions - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    checklist, grading = CHECKLIST_TOKENS, EXECUTION_TOKENS
    if recipe.opening.opener:
        choices = round((train + held_out) * MULTIPLE_CHOICE_SHARE)
        yield CallEstimate("open_questions", "opening", recipe.opening.opener, choices, IMAGE_TOKENS + 300, 100)
    for teacher in recipe.checklists.teachers:
        prompt = IMAGE_TOKENS + GUIDE_TOKENS
        yield CallEstimate("write_checklists", "checklist", teacher, train + held_out, prompt, 2 * checklist)
    if recipe.checklists.merger:
        prompt = IMAGE_TOKENS + GUIDE_TOKENS + len(recipe.checklists.teachers) * checklist
        yield CallEstimate(
            "write_checklists", "merging", recipe.checklists.merger, train + held_out, prompt, 2 * checklist
        )
    if recipe.checklists.examiner:
        yield CallEstimate("write_checklists", "examining", recipe.checklists.examiner, train + held_out, *grading)
    yield CallEstimate("offline_filter", "judge", recipe.filter.judge, train * recipe.filter.rollouts, *grading)
    if gate := recipe.checklist_gate():
        yield from audit_calls("offline_filter", gate, train, GradingCalls(0, *grading))
    responses = round(train * FILTER_SHARE) * recipe.genrm_data.responses_each
    for teacher in recipe.genrm_data.teachers:
        yield CallEstimate("genrm_data", "label", teacher, responses, *grading)
    audit, abnormal = recipe.audit, 4 * recipe.audit.per_category
    trials = 0
    if audit.red_team:
        trials = audit.search_rounds * PATTERNS_PER_ROUND * audit.search_size
        yield CallEstimate("audit", "red team", audit.red_team, audit.search_rounds, GUIDE_TOKENS + CAPTION_TOKENS, 600)
    if audit.generator:
        yield CallEstimate(
            "audit", "generator", audit.generator, 2 * abnormal + trials, GUIDE_TOKENS + CAPTION_TOKENS, 600
        )
    for judge in audit.quality_judges:
        yield CallEstimate("audit", "quality", judge, 2 * abnormal + trials, GUIDE_TOKENS + CAPTION_TOKENS, 150)
    gradings = (abnormal + (audit.regular or recipe.genrm_data.test)) * len(audit.settings) + trials
    yield CallEstimate("audit", "judge", audit.judge, gradings, *grading)
    algorithm, passed = recipe.policy.algorithm, round(train * FILTER_SHARE)
    yield from policy_calls("train_rlr3", recipe.policy, TrainingSize(samples=passed, held_out=held_out))
    milestones = 2 * (algorithm.steps_on(passed) // algorithm.milestone_every)
    yield from scoring_calls(recipe.evaluation, held_out, trained=milestones)
