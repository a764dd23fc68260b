"""A judge on the policy's accelerators sleeps while weights are updated, and is awake when it is called."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from coloured_squares import policy_rows
from training_configs import grpo_config

from rubricworks.errors import TransientError
from rubricworks.llm.served import SLEEPING_ENV
from rubricworks.training.policy import grpo
from rubricworks.training.policy.judge_sleep import SleepingJudges


@pytest.fixture
def judge():
    """A server with vLLM's routes of the sleep mode; `judge.events` is what it was asked, in order."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            server.events.append(self.path.strip("/"))
            self.send_response(server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.events, server.status = [], 200
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("options", [{}, {"steps_per_generation": 2, "num_iterations": 2}], ids=["once", "reused"])
def test_it_sleeps_in_updates_and_is_awake_for_rewards_and_after_each_step(
    student, tmp_path, judge, monkeypatch, options
):
    monkeypatch.setenv(SLEEPING_ENV, judge.url)

    def reward(completions, **_):
        judge.events.append("reward")
        return [float(number) for number in range(len(completions))]

    settings = grpo_config(group_size=4, prompts_per_step=2, max_new_tokens=8, steps=2, **options)
    rows = [row | {"rubric": "{}"} for row in policy_rows()]
    grpo.train_policy(student, rows, reward, tmp_path, settings, on_step=lambda _: judge.events.append("step"))
    asleep = False
    for event in judge.events:
        assert (event, asleep) not in {("reward", True), ("step", True), ("sleep?level=1", True)}, judge.events
        asleep = event == "sleep?level=1" or (asleep and event != "wake_up")
    assert not asleep
    assert judge.events.count("sleep?level=1") == 2
    assert judge.events[0] == "wake_up"  # an attempt before may have left it asleep


def test_a_judge_that_does_not_sleep_ends_the_training_in_one_line(judge, monkeypatch):
    monkeypatch.setenv(SLEEPING_ENV, judge.url)
    judge.status = 404
    with pytest.raises(TransientError, match=r"^the judge at .* does not answer sleep \(HTTP Error 404: Not Found\)"):
        SleepingJudges(is_main=True).sleep()


def test_only_the_first_process_asks(judge, monkeypatch):
    monkeypatch.setenv(SLEEPING_ENV, judge.url)
    judges = SleepingJudges(is_main=False)
    judges.sleep()
    assert judge.events == []
