"""RubricReward in another process, where TRL's asynchronous GRPO scores; and its verdicts in TRL's table."""

import asyncio
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
from test_trl_reward import RUBRIC, word_judge

from rubricworks.adapters.trl import GroupReward, RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.spending import Spending
from rubricworks.rewards import signed_reward

CAPTIONS = ["a red circle", "one circle", "outage"]


def reward_of(server, tmp_path, **options):
    judge = ChatClient(Endpoint(url=server.url, model="j"), cache=tmp_path / "answers.sqlite", attempts=1)
    return RubricReward(Grader(judge, call_per="criterion"), **options)


def call(reward):
    return asyncio.run(reward(prompts=["p"] * 3, completions=CAPTIONS, rubric=[RUBRIC] * 3))


@pytest.mark.slow
def test_a_spawned_process_gives_the_rewards_of_this_one(serve, tmp_path):
    server = serve(word_judge)
    reward = reward_of(server, tmp_path, reduce=signed_reward)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(call, reward).result() == [1.0, 0.25, None]
    asked = len(server.chats)
    assert call(pickle.loads(pickle.dumps(reward))) == [1.0, 0.25, None]
    assert len(server.chats) == asked + 2  # the file of answers is shared; the two calls that failed are asked again


def test_settings_are_pickled_and_nothing_of_the_environment(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "secret-of-the-judge")
    judge = ChatClient(Endpoint(url=serve(word_judge).url, model="j", api_key_env="JUDGE_KEY"))
    text = pickle.dumps(GroupReward(Grader(judge, combine="any"), group_size=2, gate=False))
    assert b"secret" not in text
    copy = pickle.loads(text)
    assert (copy.group_size, copy.gate, copy.grader.combine) == (2, False, "any")
    assert copy.grader.judges[0].endpoint == judge.endpoint


@pytest.mark.parametrize("own", ["spending", "on_failure"])
def test_a_client_with_something_of_this_process_is_not_pickled(serve, tmp_path, own):
    options = {"spending": Spending(tmp_path / "ledger.sqlite", "grade"), "on_failure": print}
    judge = ChatClient(Endpoint(url=serve(word_judge).url, model="j"), **{own: options[own]})
    with pytest.raises(pickle.PicklingError, match=own):
        pickle.dumps(RubricReward(Grader(judge)))


@pytest.mark.slow
def test_trls_asynchronous_loop_scores_a_group_with_it(serve, tmp_path):
    from accelerate import PartialState
    from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, _AsyncRolloutLoop

    PartialState()
    reward = pickle.loads(pickle.dumps(reward_of(serve(word_judge), tmp_path)))
    loop = object.__new__(_AsyncRolloutLoop)  # its start needs a vLLM server
    loop.reward_funcs, loop.reward_func_names = [reward], ["rubric_reward"]
    loop._env_reward_types, loop._provides_rollout_reward = [], False
    group = RolloutGroup.__new__(RolloutGroup)
    rows = len(CAPTIONS)
    for name in RolloutGroup.__dataclass_fields__:
        setattr(group, name, [None] * rows)
    group.prompts, group.completions, group.reward_kwargs = ["p"] * rows, CAPTIONS, {"rubric": [RUBRIC] * rows}
    group.completions_ids = [[1]] * rows
    group.completions_sequences = [[_Sequence()] for _ in CAPTIONS]
    group.tool_call_counts = group.tool_failure_counts = [0] * rows
    samples = asyncio.run(loop._score_group(group))
    # The unjudged response is out of the group: (1 - 0.625) / 0.375 and its opposite, and 0.
    assert [sample.advantage for sample in samples] == pytest.approx([1, -1, 0], abs=1e-6)


class _Sequence:
    """Tokens of one conversation."""

    def __getattr__(self, name):
        return [1]


def test_verdicts_stand_in_trls_table_of_completions(serve, tmp_path):
    columns = {}
    reward = reward_of(serve(word_judge), tmp_path)
    rows = {"rubric": [RUBRIC] * 3, "log_extra": columns.__setitem__}
    asyncio.run(reward(prompts=["p"] * 3, completions=CAPTIONS, **rows))
    assert columns == {
        "verdicts": [
            "red (+3): 1\ncircle (+1): 1",
            "red (+3): 0\ncircle (+1): 1",
            "red (+3): transport\ncircle (+1): transport",
        ]
    }
