"""Trained and pretrained models are plain: transformers and vLLM read their folders without this package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from coloured_squares import squares

from rubricworks.errors import UserError
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import load_engine
from rubricworks.training.generate import decode_image, generate_captions, load_model

pytestmark = pytest.mark.vllm
LENGTH = 12

TRANSFORMERS = """
import json, sys
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder, prompt, *files = sys.argv[1:]
model = AutoModelForImageTextToText.from_pretrained(folder)
processor = AutoProcessor.from_pretrained(folder)
captions = []
for file in files:
    turn = {"role": "user", "content": [{"type": "image", "image": Image.open(file)}, {"type": "text", "text": prompt}]}
    inputs = processor.apply_chat_template(
        [[turn]], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    ids = model.generate(**inputs, max_new_tokens=LENGTH)[0, inputs["input_ids"].shape[1]:]
    captions.append(processor.decode(ids, skip_special_tokens=True))
"""
VLLM = """
import json, os, sys
if OLDER:  # for LLaVA, also for the processes that vLLM starts
    sys.path.insert(0, OLDER)
    os.environ["PYTHONPATH"] = OLDER
from PIL import Image
from vllm import LLM, SamplingParams
folder, prompt, *files = sys.argv[1:]
llm = LLM(folder, dtype="float32", enforce_eager=True, kv_cache_memory_bytes=64_000_000)
chats = []
for file in files:
    parts = [{"type": "image_pil", "image_pil": Image.open(file)}, {"type": "text", "text": prompt}]
    chats.append([{"role": "user", "content": parts}])
outputs = llm.chat(chats, SamplingParams(temperature=0, max_tokens=LENGTH), use_tqdm=False)
captions = [output.outputs[0].text.strip() for output in outputs]  # its detokenizer begins with a space
"""
END = """
assert not any(name.startswith("rubricworks") for name in sys.modules)
print(json.dumps(captions))
"""


LLAVAS = ["pretrained", "pretrained_with_tiles"]


@pytest.mark.parametrize("student", ["taught", *LLAVAS])
@pytest.mark.parametrize("program", [TRANSFORMERS, VLLM], ids=["transformers", "vllm"])
def test_a_program_without_this_package_captions_as_the_library_does(request, tmp_path, monkeypatch, program, student):
    folder = request.getfixturevalue(student)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    images = [image for image, _, _ in squares()]
    prompt = squares()[0][1]
    files = [tmp_path / f"{number}.png" for number in range(len(images))]
    for file, image in zip(files, images, strict=True):
        decode_image(image).save(file)
    expected = [
        text for text, _ in generate_captions(*load_model(folder), images, [prompt] * 12, max_new_tokens=LENGTH)
    ]
    assert len(set(expected)) > 4
    older = Path(sys.prefix) / "transformers-for-llava"  # `install.sh` has the reason
    code = program.replace("LENGTH", str(LENGTH)) + END
    code = code.replace("OLDER", repr(str(older) if student in LLAVAS else ""))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(folder), prompt, *map(str, files)],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == expected


@pytest.mark.parametrize("student", LLAVAS)
def test_vllm_loads_no_llava_beside_this_transformers(request, student):
    """Once it does: `transformers-for-llava`, the error of `VllmEngine` and of the recipe, and the docs go."""
    folder = request.getfixturevalue(student)
    with pytest.raises(
        UserError, match=r"vLLM 0\.30\S* reads no LLaVA beside Transformers 5\.23\.0.*engine\.kind to gen"
    ):
        load_engine(folder, EngineOptions(kind="vllm", max_model_length=128), batch_size=1)
