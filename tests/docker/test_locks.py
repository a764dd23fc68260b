"""The images install what the tests ran with, to the last package, and nothing that is not named by its hash."""

import re

import pytest
from locks import IMAGES, ROOT, constraints, locked, reached, requirements
from packaging.utils import canonicalize_name

AGAIN = "run `make locks`"
OF_CUDA = re.compile(r"nvidia-|cuda-|triton$|torchvision$")
"""What the CUDA build of torch brings, and the CPU build of the tests does not."""


@pytest.mark.parametrize("image", IMAGES)
def test_a_lock_has_what_the_package_asks_for(image):
    lock = locked(image)
    missing = [
        str(requirement)
        for requirement in requirements(image)
        if not requirement.specifier.contains(lock.get(canonicalize_name(requirement.name), "0"), prereleases=True)
    ]
    assert missing == [], AGAIN


@pytest.mark.parametrize("image", ["api", "cpu", "trainer"])
def test_a_lock_has_everything_that_those_bring(image):
    assert reached(image) - locked(image).keys() == set(), AGAIN


@pytest.mark.parametrize("image", ["api", "cpu", "trainer"])
def test_a_lock_has_the_versions_that_the_tests_run_with(image):
    tested = constraints()
    other = {name: version for name, version in locked(image).items() if tested.get(name) != version}
    assert {name for name in other if not OF_CUDA.match(name)} == set(), AGAIN
    assert image == "trainer" or other == {}


def test_vllm_brings_its_own_torch_but_the_trainer_of_the_tests():
    tested, lock = constraints(), locked("vllm")
    assert {name: lock[name] for name in ("transformers", "trl")} == {
        name: tested[name] for name in ("transformers", "trl")
    }, AGAIN


@pytest.mark.parametrize("image", ["api", "cpu"])
def test_small_images_have_no_torch(image):
    assert not {"torch", "transformers", "vllm"} & locked(image).keys()


@pytest.mark.parametrize("image", [*IMAGES, "tools"])
def test_every_package_is_named_by_its_hash(image):
    text = (ROOT / "docker" / f"requirements-{image}.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(locked(image)) > 10
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []
    assert "://" not in text, "a lock names no place to download from"
