"""SPECS by its formula's symmetries, its bounds, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import specs_score

vectors = st.lists(st.integers(-9, 9).map(float), min_size=3, max_size=3).filter(any)


def test_same_opposite_and_right_angled_directions():
    assert specs_score([2.0, 0.0], [[5.0, 0.0], [-1.0, 0.0], [0.0, 3.0]]) == pytest.approx([1, 0, 0.5])


@given(vectors, vectors, st.floats(0.01, 100))
def test_length_does_not_matter_and_the_opposite_text_has_the_rest(image, text, factor):
    score, longer, opposite = specs_score(image, [text, [factor * value for value in text], [-value for value in text]])
    assert 0 <= score <= 1
    assert longer == pytest.approx(score)
    assert opposite == pytest.approx(1 - score)
    assert specs_score(text, [image]) == pytest.approx([score])


def test_vector_of_zeros_has_no_direction():
    assert specs_score([0.0, 0.0], [[1.0, 2.0]]) == [0.5]


@pytest.mark.parametrize("text", [[1.0], [1.0, float("nan")], [[1.0, 2.0]]])
def test_embedding_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="finite vectors of one length"):
        specs_score([1.0, 2.0], [text])
