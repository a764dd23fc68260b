"""DPG-Bench: yes-or-no questions about a generated image, which depend on one another (TencentQQGYLab/ELLA)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def dpg_score(answers: Sequence[Sequence[str]], dependency: Mapping[Any, Sequence[int]]) -> list[float]:
    """Share of questions that each image of a prompt passes; their mean is the prompt's score.

    A question passes if its answer is exactly "yes", in lower case, and its parents pass. Questions are visited in the
    order of `dependency`, so a parent fails its child on account of its own parents only if it comes before the child;
    a parent that comes later counts by its answer.

    Args:
        answers: one list per image, an answer per question in the order of `dependency`.
        dependency: question's number → numbers of its parents, 0 for none. Keys may be numbers or their text.
    Raises:
        ValueError: there is no question, a number of answers differs, or a parent is not a question.
    """
    parents = {int(question): [parent for parent in row if parent != 0] for question, row in dependency.items()}
    if not parents:
        raise ValueError("dependency has no question")
    if unknown := [(child, parent) for child, row in parents.items() for parent in row if parent not in parents]:
        raise ValueError(f"question {unknown[0][0]} depends on question {unknown[0][1]}, which is not there")
    scores = []
    for number, row in enumerate(answers):
        if len(row) != len(parents):
            raise ValueError(f"image {number} has {len(row)} answers to {len(parents)} questions")
        passes = {question: answer == "yes" for question, answer in zip(parents, row, strict=True)}
        for question, needs in parents.items():
            passes[question] = passes[question] and all(passes[parent] for parent in needs)
        scores.append(sum(passes.values()) / len(passes))
    return scores


def dpg_categories(prompts: Iterable[tuple[Mapping[Any, str], Sequence[Sequence[str]]]]) -> dict[str, dict[str, float]]:
    """Share of "yes" answers in each category of questions, regardless of parents.

    As in the reference code, only the answers for the last image of each prompt count.

    Args:
        prompts: for each, the questions' tuples (number → e.g. "attribute - color (dog, red)") and the answers as in
            `dpg_score`, in the order of the tuples.
    Returns:
        `l2`: the text before the bracket, e.g. "attribute - color" → share; `l1`: its part before the hyphen → share.
    Raises:
        ValueError: a prompt has no image, or another number of answers than of questions.
    """
    passes: dict[str, dict[str, list[bool]]] = {"l1": defaultdict(list), "l2": defaultdict(list)}
    for tuples, answers in prompts:
        if not answers or len(answers[-1]) != len(tuples):
            raise ValueError(f"{len(answers[-1]) if answers else 'no'} answers to {len(tuples)} questions")
        for text, answer in zip(tuples.values(), answers[-1], strict=True):
            category = text.split("(")[0].strip()
            passes["l1"][category.split("-")[0].strip()].append(answer == "yes")
            passes["l2"][category].append(answer == "yes")
    return {level: {name: sum(row) / len(row) for name, row in rows.items()} for level, rows in passes.items()}
