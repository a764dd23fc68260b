import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import format_mask
from rubricworks.rewards.format_mask import has_repetition_loop, mixes_languages

SENTENCE = "at top-left a big red circle . "
QUESTION = "How many circles are there?"


@pytest.mark.parametrize(
    ("response", "loops"),
    [
        (SENTENCE * 2, False),
        (SENTENCE * 4, False),
        (SENTENCE * 6, True),
        ("first something else, then " + "no " * 40, True),
        ("no " * 10, False),
        ("ha" * 60, True),
        ("哈" * 100, True),
        ("-" * 500 + " a table | " * 3, False),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", False),
        ("", False),
    ],
)
def test_a_unit_that_comes_back_without_a_break_is_a_loop(response, loops):
    assert has_repetition_loop(response) is loops


MATRIX = r"\begin{pmatrix} " + r" \\ ".join([" & ".join(["0"] * 10)] * 10) + r" \end{pmatrix}"
IDENTITY = "\n".join(" ".join("1" if row == column else "0" for column in range(8)) for row in range(8))
THINGS = ["circle", "star", "square", "triangle", "bird", "car", "tree", "cup", "dog", "hat"]
COLOURS, SIDES = ["red", "blue", "green"], ["left", "right", "top"]
TABLE = ["| shape | colour | count |", "|---|---|---|", *(f"| {thing} | red | {n} |" for n, thing in enumerate(THINGS))]
HONEST = {
    "counting by number": " ".join(f"circle {n} ," for n in range(1, 41)),
    "counting by ordinals": " ".join(f"the {n}th bird ," for n in range(1, 31)),
    "counting aloud": " ".join(map(str, range(1, 201))),
    "counting with nouns": " ".join(f"{n} apples" for n in range(1, 51)),
    "a list of equal things": "\n".join(f"{n}. a red circle" for n in range(1, 25)),
    "a tally": "one bird , " * 13,
    "a zero matrix": f"The matrix is ${MATRIX}$.",
    "three zero matrices": f"{MATRIX} + {MATRIX} = {MATRIX}",
    "an identity in rows": IDENTITY,
    "a grid of zeros": "\n".join(["0 0 0 0 0 0 0 0 0 0"] * 10),
    "a matrix in brackets": "[" + ", ".join(["[0, 0, 0, 0, 0]"] * 5) + "]",
    "a table": "\n".join(TABLE),
    "a repeating decimal": "0." + "3" * 100,
    "a large number": "1" + "0" * 100,
    "rulers": "=" * 80 + "\nResult\n" + "- " * 40 + "\n" + "*" * 80,
    "steps with different words": "\n".join(
        f"Step {n}: at cell {n} I see a {COLOURS[n % 3]} {THINGS[n % 10]} beside the {THINGS[n * 7 % 10]} ."
        for n in range(1, 31)
    ),
    "a sum of equal terms": "5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 + 5 = 100",
}  # fmt: skip
LOOPS = {
    "300 ones": "1" * 300,
    "300 ones with spaces": "1 " * 300,
    "300 zeros in an answer": "The answer is " + "0" * 300,
    "exclamations": "!?" * 200,
    "exclamations with spaces": "!? " * 200,
    "dots": "." * 400,
    "59 near-equal steps": " ".join(f"Step {n}: I look at the image once more and count." for n in range(1, 60)),
    "59 short steps": " ".join(f"Step {n}: look again." for n in range(1, 60)),
    "59 steps with other words": " ".join(
        f"Step {n}: I look at the {SIDES[n % 3]} of the image and count again." for n in range(1, 60)
    ),
    "59 steps of two kinds": " ".join(
        f"Step {n}: I check it again." if n % 2 else f"Step {n}: I verify it once more." for n in range(1, 60)
    ),
    "wait": "Wait, let me check that again. " * 12,
    "one word": "the " * 100,
    "letters in a word": "abc" * 40,
    "an emoji": "\U0001f600" * 300,
    "an endless grid": "0 & " * 200,
}  # fmt: skip


@pytest.mark.parametrize("response", HONEST.values(), ids=HONEST.keys())
def test_counting_and_grids_are_no_loops(response):
    assert not has_repetition_loop(response)
    assert not has_repetition_loop(f"Let me think step by step. {response} So the answer is \\boxed{{4}}.")


@pytest.mark.parametrize("response", LOOPS.values(), ids=LOOPS.keys())
def test_loops_of_digits_signs_and_near_equal_steps_are_found(response):
    assert has_repetition_loop(response)
    assert has_repetition_loop(f"Let me think step by step. {response} So the answer is \\boxed{{4}}.")


@given(st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=5, max_size=12, unique=True), st.integers(8, 20))
def test_any_unit_of_words_repeated_often_is_found_wherever_it_starts(unit, times):
    assert has_repetition_loop("to begin with , " + " ".join(unit * times) + " and the end")


@pytest.mark.parametrize(
    ("response", "allowed", "mixed"),
    [
        ("There are three circles.", [QUESTION], False),
        ("There are three circles, 我来数一数", [QUESTION], True),
        ("The sign reads 停止.", [QUESTION], False),
        ("The sign reads 停止营业中.", [QUESTION, "停止营业中"], False),
        (r"角 \alpha 等于 \frac{1}{2}, 所以 x = 3", ["角是多少?"], False),
        ("Let me think about the angle first.", ["角是多少?"], True),
        (r"Thus \theta = π/2 and β > 0", [QUESTION], False),
        ("да, there are three", [], False),
        ("there are three, потому что", [], True),
        ("42", [QUESTION], False),
    ],
)
def test_more_than_a_quotation_in_a_foreign_script_is_another_language(response, allowed, mixed):
    assert mixes_languages(response, allowed=allowed) is mixed


@given(st.text(max_size=300))
def test_any_text_has_a_mask(response):
    assert format_mask(response, allowed=[QUESTION]) in (True, False)


def test_long_responses_are_read_at_once():
    assert format_mask("word number " + " ".join(map(str, range(20_000))), allowed=[QUESTION])
