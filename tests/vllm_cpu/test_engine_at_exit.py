"""A program that does not close vLLM's engine ends all the same, as a pod's has to."""

import os
import subprocess
import sys

import pytest
from coloured_squares import PROMPT
from support_paths import SUPPORT_PATHS

pytestmark = pytest.mark.vllm
HANGS_AFTER = 900
PROGRAM = """
import sys, tempfile

folder = tempfile.TemporaryDirectory()  # registers the handler by which vLLM stops its engine, before the wait for it

if __name__ == "__main__":
    import pytest
    from vllm_on_cpu import make_vllm_fit_cpu

    from rubricworks.training.config import EngineOptions
    from rubricworks.training.engine import load_engine

    with pytest.MonkeyPatch.context() as patch:
        make_vllm_fit_cpu(patch)
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")  # the engine's own process, as on a GPU
        engine = load_engine(sys.argv[1], EngineOptions(kind="vllm", max_model_length=128), batch_size=1)
    print(len(engine([None], [sys.argv[2]], max_new_tokens=2)))
"""


def test_a_program_that_leaves_the_engine_open_ends(taught, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = [*SUPPORT_PATHS, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, str(tmp_path / "program.py"), str(taught), PROMPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS_AFTER, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "1" in done.stdout.splitlines()
