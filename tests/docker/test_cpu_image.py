"""Imports of the components of the CPU and the trainer image are in the lock of that image."""

import subprocess
import sys

import pytest
from locks import locked

PROGRAM = '''
import importlib, inspect, re, sys
from importlib import metadata
from packaging.utils import canonicalize_name

LOCKED = set(sys.argv[1].split(","))
OURS = {"rubricworks"}
HIDDEN = {
    module
    for module, packages in metadata.packages_distributions().items()
    if not {canonicalize_name(package) for package in packages} & (LOCKED | OURS)
} - {"pip", "setuptools", "packaging"}

class Installed:
    """Finds what the image has; of the rest it says what Python says of a package that is not installed: nothing."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Installed(finder) for finder in sys.meta_path]
IMAGE = sys.argv[2]
assert ("torch" in HIDDEN) == (IMAGE == "cpu")
from rubricworks.runtime.stage_table import STAGES

for stage in STAGES.values():
    if stage.image != IMAGE:
        continue
    component = getattr(importlib.import_module(stage.component), stage.id)
    for ours in re.findall(r"(?:from|import) (rubricworks[.\\w]+)", inspect.getsource(component.python_func)):
        importlib.import_module(ours)
    stage.load()
    print(stage.id)
# Preflight, retention and the commands about recipes read any of them.
from rubricworks.recipe.files import built_in_recipes, load_recipe

for path in built_in_recipes():
    load_recipe(path)
if IMAGE == "trainer":
    # What the stages import when they run: trainers, generation, and the tables of what they train on.
    trainers = "policy.grpo policy.vllm_rollouts sft generate lora tiny.student tiny.text_student"
    for module in trainers.split():
        importlib.import_module(f"rubricworks.training.{module}")
'''


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "some"),
    [
        ("cpu", {"prepare", "caption_committee", "promote", "report"}),
        pytest.param(
            "trainer",
            {"warm_up", "train_policy", "train_genrm", "score", "check_accelerators"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_component_of_an_image_can_be_imported_with_its_lock_alone(image, some):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(locked(image)), image], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert some <= set(done.stdout.split())
