"""The example of a task with rubrics, run by lmms-eval itself: policy and judge are endpoints here."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import stamina
from scripted_server import fail, say

from rubricworks.evaluation.suites.lmms_eval import LMMS_EVAL

pytestmark = pytest.mark.lmms
ROOT = Path(__file__).parents[2]


def judge(_, body):
    """Meets a criterion whose title's last word is in the response; breaks down over the word circle."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1]
    if "circle" in caption:
        return fail(400)
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = [
        {"id": c["id"], "reasoning": "looked", "score": int(c["criterion"].split()[-1] in caption)} for c in criteria
    ]
    return say(json.dumps({"verdicts": scores}))


def policy(_, body):
    asked = json.dumps(body["messages"])
    return say("A cat sits there." if "cat" in asked else "A red circle.")


def test_the_example_is_run_with_include_path_and_its_mean_is_over_what_was_judged(serve, tmp_path):
    asked, judged = serve(policy), serve(judge)
    model = f"model_version=mine,base_url={asked.url},num_concurrent=2,timeout=60"
    command = [LMMS_EVAL.python(), "-m", "lmms_eval", "--model", "openai", "--model_args", model]
    command += ["--tasks", "rubric_captions", "--include_path", str(ROOT / "examples" / "lmms_rubric")]
    command += ["--batch_size", "1", "--log_samples", "--output_path", str(tmp_path)]
    installed = tmp_path / "installed"  # what rubricworks needs there and lmms-eval does not bring
    installed.mkdir()
    (installed / "stamina").symlink_to(Path(stamina.__file__).parent)
    variables = {"JUDGE_URL": judged.url, "JUDGE_MODEL": "judge", "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT / "examples" / "lmms_rubric",
        env={**os.environ, **variables, "PYTHONPATH": f"{ROOT}{os.pathsep}{installed}"},
        check=False,
    )
    results = list(tmp_path.rglob("*_results.json"))
    assert results, done.stdout + done.stderr
    figures = json.loads(results[0].read_text())["results"]["rubric_captions"]
    assert figures["rubric,none"] == pytest.approx(0.75)  # the cat and not the mat: 3 of 4; the circle was not judged
    assert "rubric: 1 of 2 not judged" in done.stderr
    assert len(judged.chats) >= 2
