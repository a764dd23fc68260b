"""Principal components of image patches as the latents of a small generator."""

import numpy as np
import pytest
import torch

from rubricworks.errors import UserError
from rubricworks.training.generators.flow_matching.patch_basis import PatchBasis, fit_patch_basis
from rubricworks.training.generators.flow_matching.pixel_flow import patches_of
from rubricworks.world.pictures.drawing import CELL_SIDE, draw
from rubricworks.world.pictures.prompts import pairs

COMPONENTS = 12
"""Four shapes times three colour channels span the differences of all cells from the background."""


@pytest.fixture(scope="module")
def patches():
    images = np.stack([draw(pair.things) for pair in pairs(5, 600)])
    return patches_of(images, CELL_SIDE).flatten(0, 1)


def test_patches_stand_row_by_row():
    image = np.zeros((1, 4, 4, 3), dtype=np.uint8)
    image[0, :2, 2:] = 255  # the upper right of four patches
    means = patches_of(image, 2).mean(dim=2)
    assert means.tolist() == [[-1, 1, -1, -1]]


def test_codes_of_pictures_have_unit_variance_and_no_correlation(patches):
    codes = fit_patch_basis(patches, COMPONENTS).encode(patches)
    covariance = np.cov(codes.numpy(), rowvar=False, ddof=0)
    np.testing.assert_allclose(covariance, np.eye(COMPONENTS), atol=1e-3)


def test_directions_are_those_of_numpys_singular_vectors(patches):
    patches = patches[:900]
    basis = fit_patch_basis(patches, 3)
    centred = (patches - patches.mean(dim=0)).numpy().astype(np.float64)
    _, values, vectors = np.linalg.svd(centred, full_matrices=False)
    expected = vectors[:3] * values[:3, None] / np.sqrt(len(patches))
    signs = np.sign((expected * basis.components_KC.numpy()).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(basis.components_KC.numpy(), expected * signs, atol=1e-4)


def test_pictures_of_shapes_lose_nothing_in_twelve_numbers_a_patch(patches):
    basis = fit_patch_basis(patches, COMPONENTS)
    assert (basis.decode(basis.encode(patches)) - patches).abs().max() < 1e-4
    fewer = fit_patch_basis(patches, 6)
    assert (fewer.decode(fewer.encode(patches)) - patches).abs().max() > 0.1


def test_more_components_than_the_patches_have_are_refused(patches):
    with pytest.raises(UserError, match="latent is 13, but the pictures' patches have 12 components"):
        fit_patch_basis(patches, COMPONENTS + 1)


def test_saved_basis_is_read_again(patches, tmp_path):
    basis = fit_patch_basis(patches, COMPONENTS)
    basis.save(tmp_path)
    loaded = PatchBasis.load(tmp_path)
    assert torch.equal(loaded.mean_C, basis.mean_C)
    assert torch.equal(loaded.components_KC, basis.components_KC)
