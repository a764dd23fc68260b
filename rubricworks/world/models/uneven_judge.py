"""The scripted uneven judge: right about objects, often wrong about details, 15 % of its verdicts in all.

Its error rates differ by what a criterion asks for, and so by weight: correcting rewards for them changes what is
rewarded (`policy.reward.noise_correction`), which one rate for all criteria does not.
"""

from rubricworks.world.models.judge import NOTHING_TO_JUDGE, judge_criterion, read_task, write_verdicts
from rubricworks.world.scene.rules import GivesCount, HasAttribute, ReadsWord, parse_rule
from rubricworks.world.scene.scene import SIZES

OBJECT_ERRORS, COLOUR_ERRORS, DETAIL_ERRORS = 0.05, 0.15, 0.3
"""Shares of wrong verdicts: on objects and inventions, on colours and words, on sizes and counts."""


def uneven_judge_reply(prompt: str) -> str:
    """The judge's JSON answer to a prompt; prose without criteria."""
    task = read_task(prompt)
    if task is None:
        return NOTHING_TO_JUDGE
    return write_verdicts(
        (number, *judge_criterion(title, rule, task.caption, error_rate=error_rate(rule)))
        for number, title, rule in task.criteria
    )


def error_rate(evaluation_rule: str) -> float:
    """Probability that the judge is wrong by this rule."""
    match parse_rule(evaluation_rule):
        case HasAttribute(value=value) if value in SIZES:
            return DETAIL_ERRORS
        case GivesCount():
            return DETAIL_ERRORS
        case HasAttribute() | ReadsWord():
            return COLOUR_ERRORS
        case _:
            return OBJECT_ERRORS
