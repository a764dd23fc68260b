"""Texts that a spreadsheet would carry out stay texts, and come back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell

FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd|x", "-1+cmd|x", "@SUM(1)", "\t=1", "\r=1", "- a star", "'=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_written_as_a_text(text):
    assert guard_cell(text) == "'" + text


@pytest.mark.parametrize("value", ["a = b", "+", "-", "-1", "+.5", "-1.5e-3", "it's", "'tis", "", 1, -0.5, None])
def test_numbers_and_plain_texts_are_written_as_they_are(value):
    assert guard_cell(value) == value


@given(st.text() | st.text(alphabet="'=+-@\t1a").filter(bool))
def test_every_text_comes_back(text):
    written = guard_cell(text)
    assert unguard_cell(written) == text
