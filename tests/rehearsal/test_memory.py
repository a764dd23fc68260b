"""Memory of a step that is measured on fake tensors, beside the memory that the step takes."""

import json
import os
import subprocess
import sys

import pytest

from rubricworks.rehearsal.memory import StepShape, step_memory

SHAPES = {
    "tied, checkpointed": (
        {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 8}
        | {"num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": True},
        StepShape(rows=8, tokens=512, response=256, checkpointing=True, autocast=False),
    ),
    "untied, whole activations": (
        {"model_type": "qwen3", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 12}
        | {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 50000},
        StepShape(rows=8, tokens=768, response=512, checkpointing=False, autocast=False),
    ),
    "wide batch": (
        {"model_type": "qwen2", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 6}
        | {"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 16000, "tie_word_embeddings": True},
        StepShape(rows=16, tokens=640, response=128, checkpointing=True, autocast=False),
    ),
}
REAL_STEP = """
import json, sys
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import selective_log_softmax

shape, (rows, tokens, response, checkpointing, _) = json.loads(sys.argv[1])
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shape), dtype=torch.bfloat16).train()
if checkpointing:
    model.gradient_checkpointing_enable({"use_reentrant": False})
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", None))
ids = torch.randint(0, 100, (rows, tokens))

def field(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

before = field("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
logits = model(input_ids=ids, logits_to_keep=response + 1, use_cache=False).logits[:, :-1]
loss = -selective_log_softmax(logits, ids[:, -response:]).mean()
del logits
loss.backward()
print(field("VmHWM") - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of /proc")
@pytest.mark.parametrize("name", SHAPES)
def test_planned_activations_are_within_15_percent_of_a_real_step(name):
    shape, step = SHAPES[name]
    planned = step_memory(shape, step, bytes_per_parameter=8, processes=1)
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", REAL_STEP, json.dumps([shape, step])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    measured = int(done.stdout.split()[-1])
    assert planned.activations == pytest.approx(measured, rel=0.15)


def test_state_is_shared_by_the_processes_and_activations_are_not():
    shape, step = SHAPES["tied, checkpointed"]
    whole, shared = (step_memory(shape, step, bytes_per_parameter=16, processes=count) for count in (1, 8))
    assert whole.state == 16 * whole.parameters
    assert shared.state == 2 * whole.parameters
    assert shared.activations == whole.activations
    assert (whole.gathered, shared.gathered > 0) == (0, True)


def test_activations_grow_with_rows_and_without_checkpointing():
    shape, step = SHAPES["tied, checkpointed"]
    variants = {
        "as it is": step,
        "twice the rows": step._replace(rows=2 * step.rows),
        "without checkpointing": step._replace(checkpointing=False),
    }
    activations = {
        name: step_memory(shape, variant, bytes_per_parameter=8, processes=1).activations
        for name, variant in variants.items()
    }
    assert activations["twice the rows"] == pytest.approx(2 * activations["as it is"], rel=0.1)
    assert activations["without checkpointing"] > 1.5 * activations["as it is"]
