"""The reward manager in verl's own hands: loaded by its loader, called with its rows. No GPU, no ray cluster.

verl's pins clash with ours, so install.sh gives it a folder of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from coloured_squares import square
from peer_folders import PEERS
from scripted_server import say
from trained_run import rubric, write_table

from rubricworks.runs.training_set import write_training_set

VERL = PEERS / "verl"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not VERL.is_dir(), reason="verl is not installed; tests/cluster/install.sh does it"),
]

PROGRAM = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])  # before math-verify's antlr4
import numpy as np, torch
from omegaconf import OmegaConf
from PIL import Image
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

class Tokenizer:
    def decode(self, ids, skip_special_tokens):
        return "a red circle"

judge = {"url": sys.argv[2], "model": "judge"}
config = OmegaConf.create({"reward": {
    "custom_reward_function": {"path": None, "name": "compute_score"},
    "sandbox_fusion": {"url": None},
    "reward_manager": {
        "source": "importlib", "name": "RubricRewardManager", "module": {"path": "pkg://rubricworks.adapters.verl"}},
    "reward_kwargs": {"rubricworks": {"judges": [judge], "exposure": "image", "criteria": ["red"]}},
}})
manager = load_reward_manager(config, Tokenizer(), reward_router_address=None, reward_model_tokenizer=None)
criterion = {"criterion": "red", "evaluation_rule": "passes if red is named", "weight": 3}
content = [{"type": "image", "image": Image.new("RGB", (8, 8))}, {"type": "text", "text": "describe it"}]
columns = {
    "data_source": "scenes",
    "reward_model": {"style": "rule", "ground_truth": json.dumps({"criteria": [criterion]})},
    "extra_info": {"sample_id": "s1"},
    "raw_prompt": [{"role": "user", "content": content}],
}
tensors = {"prompts": [[1, 1]], "responses": [[5, 6, 7, 0]], "attention_mask": [[1, 1, 1, 1, 1, 0]]}
batch = TensorDict({name: torch.tensor(value) for name, value in tensors.items()}, batch_size=1)
def column(value):
    cells = np.empty(1, dtype=object)
    cells[0] = value
    return cells
data = DataProto(batch=batch, non_tensor_batch={name: column(value) for name, value in columns.items()})
result = asyncio.run(manager.run_single(data))
scores = type(manager).assemble_rm_scores(data, [result["reward_score"]])
print(json.dumps([result, scores.tolist()]))
"""


EXAMPLE = """
import asyncio, json, shlex, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np, torch
import pyarrow.parquet as pq
import verl
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

class Tokenizer:
    def decode(self, ids, skip_special_tokens):
        return "Call for help."

with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
    config = compose("ppo_trainer", overrides=shlex.split(sys.argv[2]))
manager = load_reward_manager(config, Tokenizer(), reward_router_address=None, reward_model_tokenizer=None)
(row, *_) = pq.read_table(config.data.train_files).to_pylist()
columns = {**row, "raw_prompt": row["prompt"]}
tensors = {"prompts": [[1, 1]], "responses": [[5, 6, 7, 0]], "attention_mask": [[1, 1, 1, 1, 1, 0]]}
def column(value):
    cells = np.empty(1, dtype=object)
    cells[0] = value
    return cells
data = DataProto(batch=TensorDict({name: torch.tensor(value) for name, value in tensors.items()}, batch_size=1),
    non_tensor_batch={name: column(value) for name, value in columns.items()})
print(json.dumps(asyncio.run(manager.run_single(data))))
"""


def test_verl_takes_the_rows_and_options_of_the_example(serve, tmp_path):
    root = Path(__file__).parents[2]
    rubrics = root / "tests" / "data" / "rubric_files" / "healthbench.jsonl"
    scores = [{"id": number, "reasoning": "", "score": int(number == 1)} for number in (1, 2, 3)]
    server = serve([say(json.dumps({"verdicts": scores}))])
    command = [sys.executable, "examples/verl_rubrics.py", rubrics, tmp_path / "train.parquet"]
    variables = {**os.environ, "PYTHONPATH": str(root), "JUDGE_URL": server.url, "JUDGE_MODEL": "judge"}
    printed = subprocess.run(command, capture_output=True, text=True, cwd=root, env=variables, check=True).stdout
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLE, str(VERL), printed], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["reward_score"] == pytest.approx(9 / 16)  # of 9 + 7 points, and no pitfall
    assert "My neighbour lies on the floor" in json.dumps(server.chats[0].body)


def test_verl_loads_the_manager_and_puts_its_score_on_the_last_token(serve):
    verdict = {"verdicts": [{"id": 1, "reasoning": "looked", "score": 1}]}
    server = serve([say(json.dumps(verdict))])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(VERL), server.url],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    result, scores = json.loads(done.stdout.splitlines()[-1])
    verdicts = {"verdicts": '{"red": 1.0}', "criterion/red": 1.0}
    assert result == {"reward_score": 1.0, "reward_extra_info": {"score": 1.0, "judged": 1.0, **verdicts}}
    assert scores == [[0.0, 0.0, 1.0, 0.0]]
    assert server.chats[0].body["messages"][1]["content"][0]["type"] == "image_url"


def test_the_conformance_page_says_what_verl_makes_of_missing_rewards():
    outcomes = conformance("verl", VERL)
    assert outcomes == {
        "none": "stopped",
        "nan": "spreads",
        "raises": "stopped",
        "timeout": "stopped",
        "partly": "not offered",
        "partly-decoupled": "spreads",
        "equals": "stopped",
        "one-left": "stopped",
        "none-left": "stopped",
    }


def conformance(peer, folder):
    """Outcome of each case, by the command in a process beside the peer."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "rubricworks.cli", "conformance", peer, "--markdown"],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(root)))},
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| ok", "| FAIL"))]
    return {row[1]: row[2] for row in rows}


ROWS = """
import json, sys
sys.path.insert(0, sys.argv[1])  # before math-verify's antlr4
from omegaconf import OmegaConf
from verl.utils.dataset.rl_dataset import RLHFDataset
rows = RLHFDataset([sys.argv[2]], tokenizer=None, config=OmegaConf.create({"filter_overlong_prompts": False}),
    processor=object())
(row,) = [rows[at] for at in range(len(rows))]
content = row["raw_prompt"][0]["content"]
image, text = content
print(json.dumps([text, image["type"], image["image"].size, row["reward_model"], row["extra_info"]["file_name"]]))
"""


def test_verls_own_dataset_reads_the_rows_of_an_exported_run(tmp_path):
    run = tmp_path / "first"
    run.mkdir()
    (run / "recipe.yaml").write_text("name: quickstart\npipeline: rubicap\n")
    sample = {"sample_id": "a", "split": "train", "image": square("top-left", "red"), "image_digest": "d"}
    write_table(run / "prepare", "samples", [sample | {"prompt": "?", "references": [], "source": "photos/brick.jpg"}])
    write_table(run / "synthesize_rubrics", "rubrics", [{"sample_id": "a", "rubric": json.dumps(rubric("Names red"))}])
    write_training_set(run, "verl", tmp_path / "out")
    command = [sys.executable, "-c", ROWS, str(VERL), str(tmp_path / "out" / "train.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text, image, size, reward_model, name = json.loads(done.stdout.splitlines()[-1])
    assert (text, image, size) == ({"type": "text", "text": "?"}, "image", [32, 32])
    assert json.loads(reward_model["ground_truth"])["criteria"][0]["criterion"] == "Names red"
    assert name == "brick.jpg"
