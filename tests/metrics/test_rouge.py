"""ROUGE-L by words, against COCO's evaluation code and against a plain dynamic programme."""

import random

import pytest

from rubricworks.metrics.rouge import rouge_l

WORDS = ("a", "red", "square", "at", "top-left", "and", "blue", "disc")


def drawn(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 24)))


def test_the_score_is_that_of_coco_on_words_without_punctuation():
    rouge = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
    rng = random.Random(3)
    for _ in range(300):
        candidate, references = drawn(rng), [drawn(rng) for _ in range(rng.randint(1, 3))]
        assert rouge_l(candidate, references) == pytest.approx(rouge.calc_score([candidate], references), abs=1e-12)
        spelled = [f"{reference.upper()} ." for reference in references]
        assert rouge_l(f"{candidate}, ", spelled) == rouge_l(candidate, references)


def test_the_common_subsequence_is_the_longest():
    def longest(words: list[str], other: list[str]) -> int:
        row = [0] * (len(other) + 1)
        for word in words:
            before = row[:]
            for at, match in enumerate(other, 1):
                row[at] = before[at - 1] + 1 if word == match else max(before[at], row[at - 1])
        return row[-1]

    rng = random.Random(4)
    for _ in range(300):
        candidate, other = drawn(rng), drawn(rng)
        common = longest(candidate.split(), other.split())
        precision, recall = common / len(candidate.split()), common / len(other.split())
        expected = (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision) if common else 0.0
        assert rouge_l(candidate, [other]) == pytest.approx(expected, abs=1e-12)


def test_texts_without_words_score_nothing_and_references_are_a_list():
    assert rouge_l("", ["a red square"]) == rouge_l("a red square", [" . "]) == rouge_l("disc", ["square"]) == 0
    assert rouge_l("A red square.", ["a red square"]) == 1
    with pytest.raises(ValueError, match="give a list of one text or more"):
        rouge_l("a", "a red square")
    with pytest.raises(ValueError, match="give a list of one text or more"):
        rouge_l("a", [])
