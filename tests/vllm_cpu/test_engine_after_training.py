"""vLLM's offline engine in the first of a training's processes, as `train_genrm` tests its models."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from coloured_squares import PROMPT
from support_paths import SUPPORT_PATHS

from rubricworks.training.generate import generate_captions, load_model

pytestmark = pytest.mark.vllm
PROGRAM = """
import json, sys

if __name__ == "__main__":
    import pytest
    from vllm_on_cpu import make_vllm_fit_cpu

    from rubricworks.training.config import EngineOptions
    from rubricworks.training.engine import load_engine
    from rubricworks.training.processes import broadcast, is_main

    folder, prompt, out = sys.argv[1:]
    broadcast("the processes form a group")
    if is_main():
        with pytest.MonkeyPatch.context() as patch:
            make_vllm_fit_cpu(patch)
            patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")  # the engine's own process, as on a GPU
            engine = load_engine(folder, EngineOptions(kind="vllm", max_model_length=128), batch_size=1)
        texts = engine([None] * 2, [prompt, "a red"], max_new_tokens=6)
        engine.close()
        with open(out, "w") as file:
            json.dump(texts, file)
"""


def test_first_of_two_processes_generates_while_the_other_has_ended(taught, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = [*SUPPORT_PATHS, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    arguments = [str(tmp_path / "program.py"), str(taught), PROMPT, str(tmp_path / "texts.json")]
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    expected = generate_captions(*load_model(taught), [None] * 2, [PROMPT, "a red"], max_new_tokens=6)
    assert json.loads(Path(tmp_path / "texts.json").read_text()) == [list(text) for text in expected]
