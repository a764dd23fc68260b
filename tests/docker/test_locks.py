"""The images install what the tests ran with, to the last package, and nothing that is not named by its hash."""

import re

import pytest
from locks import IMAGES, PROJECT, ROOT, constraints, locked, reached, requirements
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

AGAIN = "run `make locks`"
VLLMS_CHOICE = {"fastapi", "numpy"}
"""Packages of which vLLM asks for older releases than the tests run with."""


def test_every_extra_that_an_installation_uses_is_in_the_lock_of_an_image():
    packages = {requirement.name for image in IMAGES for requirement in requirements(image)}
    of_people = {"docs", "demo", "all", "dev"}
    extras = PROJECT["optional-dependencies"]
    absent = {
        extra
        for extra in extras.keys() - of_people
        for line in extras[extra]
        if Requirement(line).name not in {"rubricworks", *packages}
    }
    assert absent == set(), "name them in docker/lock.sh and run `make locks`"


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
    tested, lock = constraints(), locked(image)
    other = {name for name, version in lock.items() if tested.get(name, version) != version}
    assert other == (VLLMS_CHOICE if "vllm" in lock else set()), AGAIN
    # What the tests' environment lacks comes with vLLM and with the CUDA build of torch.
    assert "vllm" in lock or lock.keys() <= tested.keys(), AGAIN


def test_trainings_find_the_engine_of_their_rollouts_in_the_trainer_image():
    """Recipes for GPUs set `vllm: {mode: colocate}`, with which the trainer itself imports vLLM."""
    assert locked("trainer")["vllm"] == locked("vllm")["vllm"]
    assert {"torch", "transformers", "trl", "kfp", "mlflow", "minio", "torchvision"} <= locked("trainer").keys()


@pytest.mark.parametrize("name", ["torch", "transformers", "trl"])
def test_vllms_own_image_has_the_trainer_of_the_tests(name):
    assert locked("vllm")[name] == constraints()[name], AGAIN


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
