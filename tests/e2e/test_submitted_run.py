"""A submitted recipe really runs: its stages come live, and a stop keeps what they made."""

import time

import pytest
from served_api import ask, exchange, served

from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.files import recipe_path

pytestmark = pytest.mark.slow


def test_a_run_is_submitted_watched_and_stopped(tmp_path):
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.2, local_runs=True)) as url:
        body = {"recipe": recipe_path("quickstart").read_text(), "run": "live", "overrides": ["world.scenes=2400"]}
        key = {"Idempotency-Key": "of-the-test"}
        status, answer = ask(f"{url}/api/v1/submissions", method="POST", body=body, **key)
        assert (status, answer["place"]) == (201, "here"), answer
        wait(lambda: "prepare" in str(ask(f"{url}/api/v1/runs/live")[1].get("stages")), url)
        assert ask(f"{url}/api/v1/runs/live")[1]["state"] == "going"
        assert b"run live" in exchange(f"{url}/submissions/live")[2]
        assert (
            ask(f"{url}/api/v1/runs/live/stop", method="POST", body={}, **{"Idempotency-Key": "stop-of-test"})[0] == 200
        )
        wait(lambda: ask(f"{url}/api/v1/submissions/live")[1]["state"] == "ended", url)
        assert "rubricworks run --resume live" in ask(f"{url}/api/v1/submissions/live")[1]["message"]
        wait(lambda: ask(f"{url}/api/v1/runs/live")[1]["state"] != "going", url)
        record = ask(f"{url}/api/v1/runs/live")[1]
        assert (record["state"], "rubricworks run --resume live" in record["message"]) == ("stopped", True)
        assert exchange(f"{url}/runs/live")[2].count(b'class="state stopped">stopped') == 2, "the run and its stage"
        assert [stage["stage"] for stage in record["stages"]] == ["prepare"]


def wait(condition, url):
    deadline = time.monotonic() + 300
    while not condition():
        state = ask(f"{url}/api/v1/submissions/live")[1]
        assert time.monotonic() < deadline, (state, exchange(f"{url}/submissions/live")[2][-3000:])
        time.sleep(0.2)
