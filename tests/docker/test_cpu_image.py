"""Imports of the CPU image's components are in the lock of that image."""

import subprocess
import sys

from locks import locked

PROGRAM = """
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

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r} in the image", name=name)

sys.meta_path.insert(0, Hidden())
assert "torch" in HIDDEN
from rubricworks.runtime.stage_table import STAGES

for stage in STAGES.values():
    if stage.image != "cpu":
        continue
    component = getattr(importlib.import_module(stage.component), stage.id)
    for ours in re.findall(r"(?:from|import) (rubricworks[.\\w]+)", inspect.getsource(component.python_func)):
        importlib.import_module(ours)
    stage.load()
    print(stage.id)
"""


def test_every_component_of_the_cpu_image_can_be_imported_with_its_lock_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(locked("cpu"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"prepare", "caption_committee", "promote", "report"} <= set(done.stdout.split())
