"""A sample is a prompt, with or without an image."""

import pytest

from rubricworks.data import Sample
from rubricworks.errors import UserError

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("fields", [{}, {"image": None}, {"image": b""}])
def test_a_prompt_without_an_image_is_a_sample_and_says_so_to_what_needs_one(fields):
    sample = Sample(sample_id="s1", prompt="a red cube on a table", **fields)
    assert sample.image is None
    with pytest.raises(UserError, match="sample s1: the captioners read it, and the sample has no image"):
        sample.require_image("the captioners read it")


def test_the_image_of_a_sample_that_has_one_is_what_it_was_given():
    assert Sample(sample_id="s1", image=PNG).require_image("the captioners read it") == PNG
