"""Text: every flag does its one thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.verifiers import CannotVerify, list_verify, text_verify

FLAGS = ("use_latex", "ignore_space", "ignore_punc", "ignore_case", "ignore_st")
SAME_UNDER = [
    ("ignore_space", "Bus Stop", "BusStop"),
    ("ignore_space", "a\u00a0b\u3000c\n", "abc"),
    ("ignore_case", "STRASSE", "straße"),
    ("ignore_case", "PLEASE", "please"),
    ("ignore_punc", "co-op", "coop"),
    ("ignore_punc", "O’Neil", "O'Neil"),  # noqa: RUF001
    ("ignore_punc", "「你好」。", "你好"),
    ("ignore_st", "頭髮發展", "头发发展"),
    ("ignore_st", "臺灣", "台湾"),
    ("ignore_st", "看著", "看着"),
    ("ignore_st", "乾燥的麵包", "干燥的面包"),
    ("ignore_st", "ＡＢＣ\u3000１２３", "ABC 123"),  # noqa: RUF001
    ("use_latex", r"\dfrac{1}{2}", r"\frac12"),
    ("use_latex", r"$E = mc^2$", r"\(E=mc^{2}\)"),
    ("use_latex", r"x'", r"x^{\prime}"),
    ("use_latex", r"\mathrm{d}x", "dx"),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "a", "b"), SAME_UNDER, ids=str)
def test_a_flag_makes_alike_what_only_it_makes_alike(flag, a, b):
    assert text_verify(a, target=b, **{flag: True}) == text_verify(b, target=a, **{flag: True}) == 1
    assert text_verify(a, target=b, **dict.fromkeys(set(FLAGS) - {flag, "use_latex"}, True)) < 1


def test_flags_add_up():
    flags = dict.fromkeys(["ignore_space", "ignore_punc", "ignore_case", "ignore_st"], True)
    assert text_verify(" 「頭髮」 A-B", target="头发ab", **flags) == 1


def test_currency_signs_are_symbols_not_punctuation():
    assert text_verify("$5.", target="$5", ignore_punc=True) == 1
    assert text_verify("$5", target="5", ignore_punc=True) < 1


OTHER_NUMBERS = [
    ("Section 31", "Section 3.1"), ("$5.00", "$500"), ("-5", "5"), ("5%", "5"), ("1/2", "12"), ("3:45", "345"),
    ("3:45", "3.45"), ("9-11", "911"), ("24/7", "247"), (".5", "5"), ("v1.2", "v12"), ("1.5.2024", "15.2024"),
    ("Gate B-1.2", "Gate B-12"), ("3.14", "314"), ("2024-05-03", "20240503"), ("3,5", "35"), ("-0.5", "0.5"),
]  # fmt: skip
SAME_NUMBERS = [
    ("1,000", "1000"), ("(5)", "5"), ("5.", "5"), ("#5", "5"), ("Section 3.1.", "Section 3.1"), ("A-5", "A5"),
    ("2024-05-03", "2024/05/03"), ("555-123-4567", "555.123.4567"), ("3.1", "3.1!"),
    ("9\u201311", "9-11"), ("50 %", "50 %."), ("co-op 5", "coop 5"), ("No. 5", "No 5"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), OTHER_NUMBERS, ids=str)
def test_punctuation_within_a_number_is_no_punctuation_to_ignore(a, b):
    assert text_verify(a, target=b, ignore_punc=True) == text_verify(b, target=a, ignore_punc=True) < 1
    assert text_verify(a, target=b, ignore_punc=True, ignore_space=True, ignore_case=True) < 1


@pytest.mark.parametrize(("a", "b"), SAME_NUMBERS, ids=str)
def test_punctuation_around_numbers_is_ignored(a, b):
    assert text_verify(a, target=b, ignore_punc=True) == text_verify(b, target=a, ignore_punc=True) == 1


@pytest.mark.parametrize(("a", "b"), [("!!!", "..."), ("--", "!"), ("?", "!"), ("「」", "()")], ids=str)
def test_punctuation_is_not_ignored_where_there_is_nothing_else(a, b):
    assert text_verify(a, target=b, ignore_punc=True) < 1
    assert text_verify(a, target=a, ignore_punc=True) == 1


def test_canonically_equivalent_characters_are_one():
    assert text_verify("cafe\u0301", target="caf\u00e9") == text_verify("caf\u00e9", target="cafe\u0301") == 1
    assert text_verify("\u1112\u1161\u11ab", target="\ud55c") == 1
    assert text_verify("cafe\u0301", candidates=["cafe"]) == text_verify("caf\u00e9", target="cafe") == 0.75
    assert list_verify(["cafe\u0301"], target=["caf\u00e9"]) == 1


def test_simplified_text_stays_what_it_is():
    assert text_verify("著作和乾坤", target="著作和乾坤", ignore_st=True) == 1


def test_similarity_is_one_minus_edits_over_the_longer_text():
    assert text_verify("24 CARAT CAKE", target="24 CARROT CAKE") == pytest.approx(1 - 2 / 14)
    assert text_verify("", target="abc") == 0
    assert text_verify("", target="") == 1


def test_best_candidate_counts():
    assert text_verify("Stop", candidates=["Go", "Stop!", "Stop"]) == 1
    assert text_verify("Stop", target="Go", candidates=["Stop!"]) == pytest.approx(0.8)


def test_a_number_counts_as_its_digits_and_nothing_else_as_text():
    assert text_verify(25, target="25") == text_verify("25", target=25) == 1
    assert text_verify(None, target="None") == text_verify(["a"], target="a") == text_verify(True, target="True") == 0


NO_TARGETS = [
    {}, {"target": None}, {"candidates": []}, {"candidates": "a"}, {"target": ["a"]}, {"candidates": ["a", None]},
    {"target": "a" * 100_001},
]  # fmt: skip


@pytest.mark.parametrize("arguments", NO_TARGETS, ids=lambda arguments: str(arguments)[:30])
def test_a_target_that_is_no_text_cannot_be_verified(arguments):
    with pytest.raises(CannotVerify):
        text_verify("a", **arguments)


def test_long_texts_are_compared_and_endless_ones_score_nothing():
    assert text_verify("a" * 50_000 + "b", target="a" * 50_001) == pytest.approx(1 - 1 / 50_001)
    assert text_verify("a" * 100_001, target="a") == 0


@given(st.text(max_size=20), st.text(max_size=20), st.sets(st.sampled_from(FLAGS)))
def test_any_two_texts_have_a_score_that_does_not_depend_on_their_order(a, b, flags):
    options = dict.fromkeys(flags, True)
    score = text_verify(a, target=b, **options)
    assert 0 <= score <= 1
    assert score == text_verify(b, target=a, **options)
    assert text_verify(a, target=a, **options) == 1


def test_half_a_surrogate_pair_is_a_character_like_others():
    assert text_verify("a\ud800", target="a\ud800b", ignore_st=True) == pytest.approx(2 / 3)
