"""Rubrics in the hands of Inspect, verifiers, OpenEnv and NeMo Gym: programs in processes of their own, beside each.

Their pins clash with ours, so install.sh gives each a folder of its own.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from peer_folders import PEERS
from scripted_server import fail, say
from test_verl_itself import VERL, conformance

ROOT = Path(__file__).parents[2]
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


def answer_judge(_, body):
    """The same of an answer, which stands apart from its prompt."""
    text = body["messages"][1]["content"]
    answer = text.split("<response>\n")[1]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = [{"id": c["id"], "reasoning": "", "score": int(c["criterion"].split()[-1] in answer)} for c in criteria]
    return say(json.dumps({"verdicts": scores}))


def run(peer, program, url):
    if not (PEERS / peer).is_dir():
        pytest.skip(f"{peer} is not installed; tests/cluster/install.sh does it")
    # The peer's own versions of what it shares with us come first.
    beside = [str(VERL)] if peer == "nemo-gym" else []  # ray and hydra, which verl needs, too
    paths = [str(PEERS / peer), *beside, str(ROOT), str(ROOT / "examples"), str(ROOT / ".typing")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JUDGE_URL": url, "JUDGE_MODEL": "judge"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


INSPECT = """
import json
from typing import get_args
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer._metric import ScoreReason
from inspect_scorer import captions

task = captions()
rubric = task.dataset[0].metadata
samples = [Sample(id=name, input="Describe it.", metadata=rubric) for name in ("good", "bad", "unjudged")]
answers = [ModelOutput.from_content("mockllm/model", text) for text in ("a cat", "a dog", "outage")]
for answer in answers:
    answer.usage = ModelUsage()  # else its tokens are counted with a file from the network
model = get_model("mockllm/model", custom_outputs=answers)
(log,) = eval(Task(dataset=samples, scorer=task.scorer), model=model, display="none", log_dir=LOGS, max_connections=1)
scores = {sample.id: next(iter(sample.scores.values())) for sample in log.samples}
print(json.dumps({
    "status": log.status,
    "values": {name: None if score.value != score.value else score.value for name, score in scores.items()},
    "reason": [scores["unjudged"].reason, scores["unjudged"].metadata["error"]],
    "known": scores["unjudged"].reason in get_args(ScoreReason),
    "credits": scores["good"].metadata["credits"],
    "mean": log.results.scores[0].metrics["mean"].value,
}))
"""


def test_inspect_runs_the_example_and_leaves_out_what_was_not_judged(serve, tmp_path):
    result = run("inspect", INSPECT.replace("LOGS", repr(str(tmp_path))), serve(judge).url)
    assert result == {
        "status": "success",
        "values": {"good": 1.0, "bad": 0.0, "unjudged": None},
        "reason": ["grader_failed", "transport"],
        "known": True,
        "credits": {"names the cat": 1.0},
        "mean": 0.5,
    }


CONVERSATION = '''
import json, os
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool
from rubricworks.adapters.inspect_ai import rubric_scorer
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

@tool
def look():
    async def execute(at: str):
        """Look at a place.

        Args:
            at: place to look at.
        """
        return f"on the {at} lies a cat"
    return execute

criteria = [{"criterion": f"names the {name}", "weight": 1} for name in ("cat", "shelf", "dog")]
given = [ChatMessageUser(content="I am on the roof."), ChatMessageAssistant(content="The dog is here."),
    ChatMessageUser(content="Who is there?")]
samples = [Sample(id="s1", input=given, metadata={"rubric": {"criteria": criteria}})]
results = []
for view in ("last_reply", "full_trace"):
    call = ModelOutput.for_tool_call("mockllm/model", "look", {"at": "shelf"})
    answers = [call, ModelOutput.from_content("mockllm/model", "Nobody.")]
    for answer in answers:
        answer.usage = ModelUsage()
    model = get_model("mockllm/model", custom_outputs=answers, memoize=False)
    scorer = rubric_scorer(Grader(ChatClient(os.environ["JUDGE_URL"], "judge"), subject="answer"), view=view)
    task = Task(dataset=samples, solver=[system_message("Be brief."), use_tools(look()), generate()], scorer=scorer)
    (log,) = eval(task, model=model, display="none", log_dir=LOGS)
    (score,) = log.samples[0].scores.values()
    results.append([score.answer, score.metadata["credits"]])
print(json.dumps(results))
'''


def test_inspect_has_a_conversation_graded_whole_after_the_input_that_it_shows(serve, tmp_path):
    server = serve(answer_judge)
    last, whole = run("inspect", CONVERSATION.replace("LOGS", repr(str(tmp_path))), server.url)
    assert last == ["Nobody.", {"names the cat": 0.0, "names the shelf": 0.0, "names the dog": 0.0}]
    assert whole == ["Nobody.", {"names the cat": 1.0, "names the shelf": 1.0, "names the dog": 0.0}]
    shown = [chat.body["messages"][1]["content"] for chat in server.chats]
    assert all("user: I am on the roof.\n\nassistant: The dog is here." in text for text in shown)


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


WITHHELD = """
import asyncio, json, os
from types import SimpleNamespace
from rubricworks.adapters.verifiers import RubricGrade, RubricGradeConfig

config = RubricGradeConfig(base_url=os.environ["JUDGE_URL"], model="judge", api_key_var="", subject="answer")
fields = {"id": "1", "rubric": [{"criterion": "names the cat", "weight": 1}], "answer": None}
trace = SimpleNamespace(last_reply="a cat", record_metric=lambda name, value: None)
asked = SimpleNamespace(prompt_text="Who sleeps?", **fields)
withheld = SimpleNamespace(prompt_text="", withheld_prompt_text="Who is awake?", **fields)
print(json.dumps([asyncio.run(RubricGrade(config).score(task, trace)) for task in (asked, withheld)]))
"""


def test_a_question_that_verifiers_holds_back_from_the_policy_is_shown_to_the_judge(serve):
    """As tasks have it after 0.4.0, for users who are simulated; 0.4.0 has the prompt alone."""
    server = serve(answer_judge)
    assert run("verifiers", WITHHELD, server.url) == [1.0, 1.0]
    asked, withheld = (chat.body["messages"][1]["content"] for chat in server.chats)
    assert "Who sleeps?" in asked
    assert "Who is awake?" in withheld


CRITERIA = """
import json, sys
from pathlib import Path
from verifiers.v1.judges.rubric import load_criteria
criteria = load_criteria(Path(PATH))
print(json.dumps([[criterion.name, criterion.weight, criterion.choices] for criterion in criteria]))
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


EVALUATION = """
import json, os, sys
from verifiers.v1.cli.eval.main import main

arguments = ["rubric-captions", "--env.taskset.rubrics", RUBRICS, "--env.agent.runtime.type", "subprocess",
    "--env.agent.harness.id", "one_call", "--env.taskset.task.judge.base-url", os.environ["JUDGE_URL"],
    "--env.taskset.task.judge.model", "judge", "--env.taskset.task.judge.api-key-var", "", "--no-rich", "--no-push",
    "--client.base-url", os.environ["JUDGE_URL"], "--client.api-key-var", "POLICY_KEY", "-m", "policy", "-o", OUT]
os.environ["POLICY_KEY"] = "none"
main(arguments)
(traces,) = __import__("pathlib").Path(OUT).rglob("traces.jsonl")
rows = []
for line in traces.read_text().splitlines():
    (trace,) = json.loads(line)["traces"]
    rewards = {name: reward and reward["score"] for name, reward in trace["rewards"].items()}
    rows.append([trace["task"]["data"]["id"], trace["ok"], rewards, trace["metrics"]])
print()
print(json.dumps(sorted(rows)))
"""
ONE_CALL = """
import httpx
import verifiers.v1 as vf

class OneCall(vf.Harness[vf.HarnessConfig]):
    NEEDS_CONTAINER = EXECUTES_CODE = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, **options):
        message = {"role": "user", "content": data.prompt}
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as client:
            answer = await client.post(f"{endpoint}/chat/completions", json={"model": ctx.model, "messages": [message]})
        return vf.ProgramResult(exit_code=int(answer.is_error), stdout="", stderr=answer.text)

__all__ = ["OneCall"]
"""


def test_vf_eval_runs_the_example_environment_and_an_unjudged_rollout_is_an_error(serve, tmp_path):
    rows = [(name, f"Describe the {name}.", f"names the {name}") for name in ("cat", "dog", "storm")]
    rubrics = tmp_path / "rubrics.jsonl"
    rubrics.write_text(
        "".join(
            json.dumps(
                {"sample_id": name, "prompt": prompt, "rubric": {"criteria": [{"criterion": title, "weight": 3}]}}
            )
            + "\n"
            for name, prompt, title in rows
        )
    )
    (tmp_path / "one_call.py").write_text(ONE_CALL)
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'examples' / 'rubric_captions')!r}]"
    program += EVALUATION.replace("RUBRICS", repr(str(rubrics))).replace("OUT", repr(str(tmp_path / "out")))

    def endpoint(number, body):
        if body["model"] == "judge":
            return judge(number, body)
        said = say("an outage" if "storm" in json.dumps(body["messages"]) else "a cat")
        return replace(said, body=json.dumps({**json.loads(said.body), "created": 0}).encode())

    cat, dog, storm = run("verifiers", program, serve(endpoint).url)
    assert cat == ["cat", True, {"rubric": 1.0}, {"rubric-grade/names the cat": 1.0}]
    assert dog == ["dog", True, {"rubric": 0.0}, {"rubric-grade/names the dog": 0.0}]
    assert storm[:3] == ["storm", False, {"rubric": None}]


def test_the_example_environment_installs_as_prime_env_install_does_it(tmp_path):
    source = ROOT / "examples" / "rubric_captions"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rubric_captions.py").read_bytes() == (source / "rubric_captions.py").read_bytes()


NEMO_GYM = """
import json, os
from fastapi.testclient import TestClient
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from rubricworks.adapters.nemo_gym import RubricResourcesServer, RubricServerConfig

config = RubricServerConfig(name="rubric", host="127.0.0.1", port=1, entrypoint="app.py",
    judges=[{"url": os.environ["JUDGE_URL"], "model": "judge"}])
client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=2),
    global_config_dict=OmegaConf.create({}))
server = RubricResourcesServer(config=config, server_client=client)
rubric = {"criteria": [{"criterion": "names the cat", "weight": 3}, {"criterion": "names the mat", "weight": 1}]}

def body(text, rubric=rubric):
    part = {"type": "output_text", "text": text, "annotations": []}
    said = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "Describe it."}]},
        "response": {"id": "r1", "created_at": 0, "model": "policy", "object": "response", "output": [said],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
        "rubric": rubric,
    }

with TestClient(server.setup_webserver()) as web:
    assert web.post("/seed_session", json={}).status_code == 200
    answers = [web.post("/verify", json=body(text)) for text in ("a cat", "an outage")]
print(json.dumps([answer.json() for answer in answers]))
"""


def test_nemo_gym_serves_the_rubric_and_masks_what_was_not_judged(serve):
    judged, unjudged = run("nemo-gym", NEMO_GYM, serve(judge).url)
    assert (judged["reward"], judged["mask_sample"], judged["failure_kind"]) == (0.75, False, None)
    assert (judged["criterion/names the cat"], judged["criterion/names the mat"]) == (1.0, 0.0)
    assert (unjudged["mask_sample"], unjudged["failure_kind"]) == (True, "judge_failed")
    assert "'names the cat' could not be judged (transport)" in unjudged["failure_reason"]


NEMO_GYM_CONVERSATION = """
import json, os
from fastapi.testclient import TestClient
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from rubricworks.adapters.nemo_gym import RubricResourcesServer, RubricServerConfig

def message(text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}

thought = {"type": "reasoning", "id": "t1", "summary": [{"type": "summary_text", "text": "the dog?"}]}
call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": json.dumps({"at": "shelf"})}
seen = {"type": "function_call_output", "call_id": "c1", "output": "there lies a cat"}
parameters = {"instructions": "Be brief.", "input": [
    {"role": "user", "content": "I am on the roof."}, message("The dog is here."),
    {"role": "user", "type": "message", "content": [{"type": "input_text", "text": "Who is there?"}]}]}

def verify(view, *output):
    config = RubricServerConfig(name="rubric", host="127.0.0.1", port=1, entrypoint="app.py", view=view,
        judges=[{"url": os.environ["JUDGE_URL"], "model": "judge"}], subject="answer")
    client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=2),
        global_config_dict=OmegaConf.create({}))
    server = RubricResourcesServer(config=config, server_client=client)
    body = {"responses_create_params": parameters, "response": {"id": "r1", "created_at": 0, "model": "policy",
        "object": "response", "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
        "rubric": [{"criterion": f"names the {name}", "weight": 1} for name in ("cat", "shelf", "dog")]}
    with TestClient(server.setup_webserver()) as web:
        answer = web.post("/verify", json=body).json()
    return [answer[f"criterion/names the {name}"] for name in ("cat", "shelf", "dog")]

print(json.dumps([
    verify("last_reply", thought, call, seen, message("Nobody.")),
    verify("full_trace", thought, call, seen, message("Nobody.")),
    verify("last_reply", message("A cat."), call, seen),
]))
"""


def test_nemo_gym_grades_a_response_of_several_turns_whole(serve):
    server = serve(answer_judge)
    last, whole, cut_off = run("nemo-gym", NEMO_GYM_CONVERSATION, server.url)
    assert last == [0.0, 0.0, 0.0]
    assert whole == [1.0, 1.0, 0.0]
    # Cut off after a call: the reply is the call's own turn, which says nothing, and not what the function returned.
    assert cut_off == [0.0, 0.0, 0.0]
    prompt = "system: Be brief.\n\nuser: I am on the roof.\n\nassistant: The dog is here.\n\nuser: Who is there?"
    assert all(f"<prompt>\n{prompt}\n</prompt>" in chat.body["messages"][1]["content"] for chat in server.chats)


NEMO_GYM_EXAMPLE = """
import json, os, runpy, socket, sys, textwrap, threading, time, urllib.error, urllib.request, yaml
from nemo_gym_server import __doc__ as page, gym_rows

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
config = yaml.safe_load(textwrap.dedent(page.partition("rubric.yaml:")[2].partition("A row")[0]))
server = config["rubric"]["resources_servers"]["rubric"]
server |= {"host": "127.0.0.1", "port": port, "judges": [{"url": os.environ["JUDGE_URL"], "model": "judge"}]}
head = {"head_server": {"host": "127.0.0.1", "port": 2}, "dry_run": False}
os.environ["NEMO_GYM_CONFIG_DICT"] = yaml.safe_dump(config | head)
os.environ["NEMO_GYM_CONFIG_PATH"] = "rubric"

def ask():
    (row,) = gym_rows(RUBRICS)
    part = {"type": "output_text", "text": "a cat", "annotations": []}
    said = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    row["response"] = {"id": "r1", "created_at": 0, "model": "policy", "object": "response", "output": [said],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/verify", json.dumps(row).encode(),
        {"Content-Type": "application/json"})
    for _ in range(600):
        try:
            answer = urllib.request.urlopen(request).read()
            os.write(1, b"\\n" + answer + b"\\n")  # Gym puts a prefix before what is printed
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    os._exit(0)

threading.Thread(target=ask, daemon=True).start()
runpy.run_path("examples/nemo_gym_server.py", run_name="__main__")
"""


def test_the_example_of_nemo_gym_is_a_server_that_its_configuration_starts(serve, tmp_path):
    rubrics = tmp_path / "rubrics.jsonl"
    criteria = [{"criterion": "names the cat", "weight": 3}, {"criterion": "names the mat", "weight": 1}]
    rubrics.write_text(json.dumps({"sample_id": "s1", "prompt": "Describe it.", "rubric": criteria}))
    answer = run("nemo-gym", NEMO_GYM_EXAMPLE.replace("RUBRICS", repr(str(rubrics))), serve(judge).url)
    assert (answer["reward"], answer["criterion/names the mat"]) == (0.75, 0.0)


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


OPENENV_EXAMPLE = """
import json, runpy
done = runpy.run_path("examples/openenv_rubric.py", run_name="__main__")
print(json.dumps({child.title: child.last_score for child in done["rubric"].children()}))
"""


def test_the_example_of_openenv_scores_its_action(serve):
    assert run("openenv", OPENENV_EXAMPLE, serve(judge).url) == {"names the cat": 1.0}


STATE = """
import asyncio, json, os
from pathlib import Path
from types import SimpleNamespace
from openenv.core.rubrics import WeightedSum
from rubricworks.adapters.openenv import RubricOfCriteria
from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

grader = Grader(ChatClient(os.environ["JUDGE_URL"], "judge"))
cat = Rubric(criteria=(Criterion(criterion="names the cat", weight=3),))
both = Rubric(criteria=(*cat.criteria, Criterion(criterion="names the mat", weight=1)))
assert WeightedSum([RubricOfCriteria(both, grader)], [1.0]).state_dict() == {}  # which is why it is no format
Path(OUT).write_text(json.dumps(RubricOfCriteria(both, grader).state_dict()))
(imported,) = read_rubric_set(OUT, note=str)
rubric = RubricOfCriteria(cat, grader)
rubric.load_state_dict(json.loads(Path(OUT).read_text()))
value = asyncio.run(rubric(SimpleNamespace(message="a cat"), SimpleNamespace(text="Describe it.")))
print(json.dumps([imported.rubric == both, value, [child.title for _, child in rubric.named_rubrics()]]))
"""


def test_openenvs_state_of_a_rubric_is_imported_and_loaded(serve, tmp_path):
    state = run("openenv", STATE.replace("OUT", repr(str(tmp_path / "s1.json"))), serve(judge).url)
    assert state == [True, 0.75, ["names the cat", "names the mat"]]
