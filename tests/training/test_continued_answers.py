"""Answers of a batch that is interrupted are those of one that is not."""

import pytest
from coloured_squares import PROMPT, squares

from rubricworks.training.continued_answers import Asked, continue_answers
from rubricworks.training.generate import generate_captions, load_model

IMAGES = [image for image, _, _ in squares()[:4]]
LIMITS = (5, 60, 70, 8)


@pytest.fixture(scope="module")
def loaded(student):
    return load_model(student)


def batch():
    prompts = (PROMPT, f"{PROMPT} {PROMPT}", PROMPT, "red")
    images = (*IMAGES[:3], None)
    return [Asked(image, prompt, limit) for image, prompt, limit in zip(images, prompts, LIMITS, strict=True)]


def alone(loaded, asked):
    [answer] = generate_captions(*loaded, [asked.image], [asked.prompt], max_new_tokens=asked.limit)
    return answer


def test_half_a_batch_that_others_wait_for_is_left_for_the_next_and_ends_the_same(loaded):
    left, answers, calls, rounds = dict(enumerate(batch())), {}, [], 0
    options = {"places": 4, "others_wait": lambda: True, "on_answer": lambda *call: calls.append(call)}
    while left:
        numbers = list(left)
        begun = continue_answers(*loaded, list(left.values()), **options)
        answers |= {numbers[at]: (text, length) for at, text, length in calls}
        calls.clear()
        left = {number: left[number]._replace(tokens=some) for number, some in zip(numbers, begun, strict=True) if some}
        rounds += 1
    assert rounds >= 60 // 16
    assert [answers[number] for number in range(4)] == [alone(loaded, asked) for asked in batch()]
    assert max(length for _, length in answers.values()) == 70


def test_each_answer_is_given_when_it_ends_and_without_others_all_end(loaded):
    calls = []
    begun = continue_answers(
        *loaded, batch(), places=4, others_wait=lambda: False, on_answer=lambda *call: calls.append(call)
    )
    assert begun == [None] * 4
    assert [number for number, _, _ in calls] == [0, 3, 1, 2]
    assert [(text, length) for _, text, length in sorted(calls)] == [alone(loaded, asked) for asked in batch()]
