"""Calls are read as data: what a plain call holds, and that nothing else is read, run or able to hurt."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.verifiers import parse_verifier_call

PLAIN = [
    ("text_verify(target='Export Volume', ignore_case=True)", {"target": "Export Volume", "ignore_case": True}),
    (r"expr_verify(target=r'\frac{4}{6}')", {"target": r"\frac{4}{6}"}),
    ("bbox_verify(target=[[531,118,892,435]])", {"target": ((531, 118, 892, 435),)}),
    ("point_verify(predict=[[-5.5, +236, 1e3, .5, 1_000]],)", {"predict": ((-5.5, 236, 1000.0, 0.5, 1000),)}),
    ("list_verify(candidates=[['a'], ('b',), []], target=None)", {"candidates": (("a",), ("b",), ()), "target": None}),
    (" text_verify(\n predict = 'a' \"b\"\n) ", {"predict": "ab"}),
    ("text_verify(predict='''a\n'b''')", {"predict": "a\n'b"}),
    ('text_verify(predict="it\'s (((((((((((((((((((((((((((")', {"predict": "it's ((((((((((((((((((((((((((("}),
    ("text_verify(predict=('a'))", {"predict": "a"}),
    ("text_verify()", {}),
    ("text_verify(predict='头发 é')", {"predict": "头发 é"}),
]
LATEX = [
    (r"'\frac{1}{2}\times\theta'", r"\frac{1}{2}\times\theta"),
    (r"'\sqrt2 \underline{x} \xi \U \N'", r"\sqrt2 \underline{x} \xi \U \N"),
    (r"'\\frac\\beta'", r"\frac\beta"),
    (r"r'\frac\n'", r"\frac\n"),
    ("'\frac{1}{2}\times\beta'", r"\frac{1}{2}\times\beta"),
    ("r'\frac{1}{2}'", r"\frac{1}{2}"),
    (r"'a\nb\tc\next\'\\'", "a\nb\tc\next'\\"),
    (r"'\u00e9\x41\101'", "éAA"),
]
NOT_PLAIN = {
    "nothing": "",
    "a name": "text_verify",
    "a positional argument": "text_verify('a')",
    "two calls": "text_verify(predict='a');text_verify(predict='b')",
    "another function": "__import__('os').system('true')",
    "eval": "eval(predict='a')",
    "a call in an argument": "text_verify(predict=__import__('os'))",
    "a name as value": "text_verify(predict=x)",
    "an attribute": "text_verify(predict=a.b)",
    "an attribute of the call": "text_verify(predict='a').upper()",
    "a method": "x.text_verify(predict='a')",
    "a dunder": "text_verify(predict=True.__class__)",
    "an f-string": "text_verify(predict=f'{x}')",
    "bytes": "text_verify(predict=b'x')",
    "a comprehension": "text_verify(predict=[x for x in y])",
    "a star": "text_verify(*a)",
    "two stars": "text_verify(**{'predict': 'a'})",
    "a star in a list": "text_verify(predict=[*'abc'])",
    "a repeated keyword": "text_verify(predict='a', predict='b')",
    "an unknown keyword": "text_verify(predicted='a')",
    "a keyword of another verifier": "bbox_verify(candidates=[])",
    "a time limit": "expr_verify(target='1', timeout=1e9)",
    "half a character": "text_verify(predict='\ud800')",
    "half a character, escaped": r"text_verify(predict='\ud800')",
    "a sum": "text_verify(predict='a' + 'b')",
    "a product": "text_verify(predict='a' * 1000000000)",
    "a power": "expr_verify(predict=9**9**9)",
    "a condition": "text_verify(predict='a' if 1 else 'b')",
    "a lambda": "text_verify(predict=lambda: 1)",
    "an assignment": "text_verify(predict=(x := 1))",
    "a dictionary": "text_verify(predict={'a': 1})",
    "a set": "text_verify(predict={1})",
    "a complex number": "text_verify(predict=3j)",
    "an ellipsis": "text_verify(predict=...)",
    "a number of 5,000 digits": f"text_verify(predict=1{'0' * 5000})",
    "a comment": "text_verify(predict='a' # b\n)",
    "a call of a call": "text_verify(predict='a')(target='b')",
    "brackets around the name": "(text_verify)(predict='a')",
    "a tuple": "text_verify(predict='a'),",
    "an open string": "text_verify(predict='a",
    "an open call": "text_verify(predict='a'",
    "brackets that do not match": "text_verify(predict=[1, 2)",
    "a missing comma": "text_verify(predict='a' target='b')",
    "two commas": "text_verify(predict=[1,,2])",
    "a negative text": "text_verify(predict=-'a')",
    "two signs": "text_verify(predict=--1)",
    "a full-width letter": "ｔext_verify(predict='a')",  # noqa: RUF001
    "a foreign digit": "text_verify(predict=٣)",
    "not text": None,
}
HUGE = {
    "open brackets": "text_verify(predict=" + "[" * 99_000,
    "brackets": "text_verify(predict=" + "[" * 100 + "]" * 100 + ")",
    "signs": "text_verify(predict=" + "-" * 99_000 + "1)",
    "sums": "text_verify(predict=1" + "+1" * 49_000 + ")",
    "negations": "text_verify(predict=" + "not " * 24_000 + "1)",
    "quotes": "text_verify(predict=" + "'" * 99_000,
    "backslashes": "text_verify(predict='" + "\\" * 99_000,
    "spaces": "text_verify(" + " " * 99_000,
    "names": "a" * 100_000,
    "more than 100,000 characters": "text_verify(predict='" + "a" * 100_000 + "')",
}


@pytest.mark.parametrize(("text", "arguments"), PLAIN, ids=lambda value: str(value)[:30])
def test_a_plain_call_is_read(text, arguments):
    call = parse_verifier_call(text)
    assert (call.name, dict(call.arguments)) == (text.strip().split("(")[0], arguments)


@pytest.mark.parametrize(("literal", "argument"), LATEX, ids=ascii)
def test_latex_keeps_its_backslashes_with_an_r_before_it_or_not(literal, argument):
    assert parse_verifier_call(f"expr_verify(predict={literal})").arguments["predict"] == argument


@pytest.mark.parametrize("text", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(ValueError) as error:
        parse_verifier_call(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_length_and_depth_have_limits(text):
    with pytest.raises(ValueError):
        parse_verifier_call(text)


def test_a_long_but_plain_call_is_read():
    assert len(parse_verifier_call("text_verify(predict='" + "a" * 99_000 + "')").arguments["predict"]) == 99_000


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda items: st.lists(items, max_size=4).map(tuple),
    max_leaves=8,
)


@given(literals)
def test_whatever_python_writes_for_a_literal_is_read_back(value):
    assert parse_verifier_call(f"text_verify(predict={value!r})").arguments["predict"] == value


@given(st.text(alphabet="text_verify(predict='a\\\"[]),=-+1 .\n{}r", max_size=40))
def test_any_text_is_read_or_refused(text):
    for call in (text, f"text_verify(predict={text})"):
        with contextlib.suppress(ValueError):
            assert parse_verifier_call(call).name == "text_verify"


def test_what_is_remembered_cannot_be_changed():
    call = parse_verifier_call("bbox_verify(target=[[1, 2, 3, 4]])")
    with pytest.raises(TypeError):
        call.arguments["target"] = ()
    assert isinstance(call.arguments["target"], tuple)
