"""Programs and data that some reference implementations need."""

import shutil

import pytest

from rubricworks.errors import UserError
from rubricworks.metrics import synonym_score


@pytest.fixture(scope="session")
def wordnet() -> None:
    try:
        synonym_score("dog", "tree")
    except UserError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java() -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no Java on this machine")
