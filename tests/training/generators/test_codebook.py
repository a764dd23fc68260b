"""Codes of patches: lossless where the codebook holds all, nearest where it does not."""

import numpy as np
import pytest

from rubricworks.errors import UserError
from rubricworks.training.generators.codebook import PatchCodebook
from rubricworks.world.pictures.drawing import draw
from rubricworks.world.pictures.prompts import pairs


@pytest.fixture(scope="module")
def pictures():
    return np.stack([draw(pair.things) for pair in pairs(1, 200)])


def test_pictures_of_few_distinct_patches_come_back_exactly(pictures):
    codec = PatchCodebook.fit(pictures, patch=6, codes=512)
    codes = codec.encode(pictures)
    assert codes.shape == (200, codec.length) == (200, 36)
    assert codec.codes == len(np.unique(codec.patches_CD, axis=0))
    assert np.array_equal(codec.decode(codes), pictures)


def test_codes_are_in_reading_order(pictures):
    codec = PatchCodebook.fit(pictures, patch=12, codes=512)
    image = np.full((36, 36, 3), 236, np.uint8)
    image[:, :, 2] = 228
    image[0:12, 24:36] = pictures[0][0:12, 0:12]
    codes = codec.encode(image[None])[0].tolist()
    other = codec.encode(np.roll(image, 12, axis=0)[None])[0].tolist()
    assert codes[2] == other[5]


def test_too_few_codes_take_the_nearest_patch(pictures):
    codec = PatchCodebook.fit(pictures, patch=6, codes=8, seed=1)
    assert codec.codes == 8
    codes = codec.encode(pictures[:5])
    patches = pictures[:5].reshape(5, 6, 6, 6, 6, 3).transpose(0, 1, 3, 2, 4, 5).reshape(5, 36, -1).astype(float)
    book = codec.patches_CD.numpy()
    brute = [[int(np.argmin(((book - patch) ** 2).sum(axis=1))) for patch in other] for other in patches]
    assert codes.tolist() == brute


def test_codebook_survives_saving_and_a_damaged_file_is_one_line(pictures, tmp_path):
    codec = PatchCodebook.fit(pictures, patch=6, codes=512)
    codec.save(tmp_path)
    again = PatchCodebook.load(tmp_path)
    assert np.array_equal(again.decode(codec.encode(pictures[:3])), pictures[:3])
    (tmp_path / "codebook.safetensors").write_bytes(b"{}")
    with pytest.raises(UserError, match="no readable codebook"):
        PatchCodebook.load(tmp_path)


def test_a_patch_that_does_not_divide_the_image_is_refused(pictures):
    with pytest.raises(UserError, match="patches of 7"):
        PatchCodebook.fit(pictures, patch=7, codes=8)
