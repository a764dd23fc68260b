"""A generator that is pretrained in seconds."""

import pytest
from tiny_generator import TINY, captioned_pictures

from rubricworks.training.generators.autoregressive import VocabularyGenerator
from rubricworks.training.generators.tiny_ar import pretrain_tiny_ar


@pytest.fixture(scope="package")
def pretrained(tmp_path_factory):
    return pretrain_tiny_ar(*captioned_pictures(128), tmp_path_factory.mktemp("tiny"), TINY, seed=1)


@pytest.fixture
def generator(pretrained):
    return VocabularyGenerator.load(pretrained)
