"""Rubrics in the hands of Inspect, verifiers and OpenEnv: each program runs in its own process beside that package.

Their pins clash with ours, so each lies in a folder of its own: `peers/NAME` in the virtual environment, made by
install.sh, or below the folder that RUBRICWORKS_PEERS names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_server import fail, say
from test_verl_itself import conformance

ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("RUBRICWORKS_PEERS") or Path(sys.prefix) / "peers")
pytestmark = pytest.mark.cluster


def judge(_, body):
    """Meets a criterion whose title's last word is in the response; breaks down over "outage"."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1]
    if "outage" in caption:
        return fail(400)
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = [
        {"id": c["id"], "reasoning": "looked", "score": int(c["criterion"].split()[-1] in caption)} for c in criteria
    ]
    return say(json.dumps({"verdicts": scores}))


def run(peer, program, url):
    if not (PEERS / peer).is_dir():
        pytest.skip(f"{peer} is not installed; tests/cluster/install.sh does it")
    # The peer's own versions of what it shares with us come first.
    paths = [str(PEERS / peer), str(ROOT), str(ROOT / "examples"), str(ROOT / ".typing")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JUDGE_URL": url, "JUDGE_MODEL": "judge"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


INSPECT = """
import json
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_scorer import captions

task = captions()
rubric = task.dataset[0].metadata
samples = [Sample(id=name, input="Describe it.", metadata=rubric) for name in ("good", "bad", "unjudged")]
answers = [ModelOutput.from_content("mockllm/model", text) for text in ("a cat", "a dog", "outage")]
for answer in answers:
    answer.usage = ModelUsage()  # else its tokens are counted with a file from the network
model = get_model("mockllm/model", custom_outputs=answers)
(log,) = eval(Task(dataset=samples, scorer=task.scorer), model=model, display="none", log_dir=LOGS, max_connections=1)
scores = {one.id: next(iter(one.scores.values())) for one in log.samples}
print(json.dumps({
    "status": log.status,
    "values": {name: None if score.value != score.value else score.value for name, score in scores.items()},
    "reason": scores["unjudged"].reason,
    "credits": scores["good"].metadata["credits"],
    "mean": log.results.scores[0].metrics["mean"].value,
}))
"""


def test_inspect_runs_the_example_and_leaves_out_what_was_not_judged(serve, tmp_path):
    result = run("inspect", INSPECT.replace("LOGS", repr(str(tmp_path))), serve(judge).url)
    assert result == {
        "status": "success",
        "values": {"good": 1.0, "bad": 0.0, "unjudged": None},
        "reason": "transport",
        "credits": {"names the cat": 1.0},
        "mean": 0.5,
    }


VERIFIERS = """
import asyncio, json, os
import verifiers.v1 as vf
from verifiers_judge import CaptionData, CaptionTask, CaptionConfig
from rubricworks.adapters.verifiers import RubricGradeConfig

RUBRIC = json.dumps({"criteria": [{"criterion": "names the cat", "weight": 3}]})
judge = RubricGradeConfig(base_url=os.environ["JUDGE_URL"], model="judge", api_key_var="")

def trace_of(text):
    class Trace:  # a rollout's, with what a judge reads and writes
        last_reply = text
        metrics = {}
        def record_metric(self, name, value):
            self.metrics[name] = value
    return Trace()

async def score(text):
    task = CaptionTask(CaptionData(idx=1, prompt="Describe it.", rubric=RUBRIC), CaptionConfig(judge=judge))
    trace = trace_of(text)
    try:
        return await task.rubric(trace), trace.metrics
    except ValueError as error:
        return str(error), None

async def main():
    return [await score(text) for text in ("a cat", "a dog", "outage")]

print(json.dumps(asyncio.run(main())))
"""


def test_a_task_of_verifiers_is_rewarded_and_what_was_not_judged_is_its_error(serve):
    good, bad, unjudged = run("verifiers", VERIFIERS, serve(judge).url)
    assert good == [1.0, {"rubric-grade/names the cat": 1.0}]
    assert bad == [0.0, {"rubric-grade/names the cat": 0.0}]
    assert "could not be judged (transport)" in unjudged[0]


CRITERIA = """
import json, sys
from pathlib import Path
from verifiers.v1.judges.rubric import load_criteria
criteria = load_criteria(Path(PATH))
print(json.dumps([[one.name, one.weight, one.choices] for one in criteria]))
"""


def test_verifiers_loads_the_criteria_that_are_exported_for_it(serve, tmp_path):
    from rubricworks.data.rubric_sets import read_rubric_set, write_rubric_set

    source = ROOT / "tests" / "data" / "rubric_files" / "people.csv"
    entries = [entry for entry in read_rubric_set(source) if entry.sample_id == "s1"]
    for name in ("s1.toml", "s1.json"):
        write_rubric_set(entries, tmp_path / name, "verifiers", note=str)
        loaded = run("verifiers", CRITERIA.replace("PATH", repr(str(tmp_path / name))), serve(judge).url)
        yes, no = ["no", "yes"], ["yes", "no"]
        assert loaded == [["Names the cat", 3, yes], ["Names its colour, too", 1.5, yes], ["Invents a dog", 2, no]]


def test_the_conformance_page_says_what_verifiers_makes_of_missing_rewards():
    if not (PEERS / "verifiers").is_dir():
        pytest.skip("verifiers is not installed; tests/cluster/install.sh does it")
    outcomes = conformance("verifiers", PEERS / "verifiers")
    assert outcomes == {
        "none": "marked",
        "nan": "spreads",
        "raises": "marked",
        "timeout": "counted as 0",
        "partly": "marked",
        "partly-decoupled": "not offered",
        "equals": "marked",
        "one-left": "marked",
        "none-left": "marked",
    }


OPENENV = """
import asyncio, json, os
from types import SimpleNamespace
from openenv.core.rubrics import Gate, Rubric as OpenEnvRubric
from openenv_rubric import cat
from rubricworks.adapters.openenv import RubricOfCriteria
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

pitfall = Criterion(criterion="invents a dog", evaluation_rule="Passes if a dog is named.", weight=-1)
judge = ChatClient(os.environ["JUDGE_URL"], "judge")
rubric = RubricOfCriteria(Rubric(criteria=(cat, pitfall)), Grader(judge))
assert isinstance(rubric, OpenEnvRubric)
hooked = []
rubric.register_forward_hook(lambda rubric, action, observation, result: hooked.append(result))

async def main():
    rows = []
    for text in ("a cat", "a cat and a dog", "outage"):
        action, observation = SimpleNamespace(message=text), SimpleNamespace(text="Describe it.")
        value = await rubric(action, observation)
        rows.append([value, [child.last_score for _, child in rubric.named_rubrics()]])
        gated = await Gate(rubric, threshold=0.9)(action, observation)
        rows[-1].append(gated)
    return rows

rows = asyncio.run(main())
print(json.dumps([rows, hooked]).replace("NaN", "null"))
"""


def test_openenv_calls_it_as_its_own_with_its_hooks_and_containers(serve):
    rows, hooked = run("openenv", OPENENV, serve(judge).url)
    assert rows[0] == [1.0, [1.0, 0.0], 1.0]
    assert rows[1] == [pytest.approx(2 / 3), [1.0, 1.0], 0.0]
    assert rows[2] == [None, [None, None], None]
    assert len(hooked) == 6
