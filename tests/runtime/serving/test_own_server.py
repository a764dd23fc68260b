"""The engine `generate`: our own server in place of vLLM, with a real small model."""

import asyncio
import json
import re
import urllib.request

import psutil
import pytest

from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.served import ServedModel
from rubricworks.runtime.serving.identity import served_identity, served_weights
from rubricworks.runtime.serving.local_servers import LocalServers
from rubricworks.training.tiny.text_config import TinyTextConfig

pytestmark = pytest.mark.slow


def test_small_model_answers_under_its_name_by_our_own_server_and_ends_with_the_run(tmp_path, monkeypatch):
    from rubricworks.training.tiny.text_student import build_text_student

    shape = TinyTextConfig(hidden=32, layers=1, heads=2, intermediate=32)
    model = build_text_student(["a red house and a blue boat"], tmp_path / "student", config=shape)
    served = ServedModel(name="genrm", model=str(model), engine="generate", arguments={"batch-size": 4})
    weights = served_weights(served, {})
    identity = served_identity(served, weights)
    assert str(identity).endswith("--batch-size 4")

    async def ask() -> set[str]:
        async with ChatClient(Endpoint.model_validate({"serve": served, "max_tokens": 4})) as client:
            messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "a red house"}]
            calls = [client.chat(messages, seed=seed) for seed in range(6)]
            replies = await asyncio.gather(*calls, return_exceptions=True)
            return {re.sub(r'"created": \d+', "", str(getattr(reply, "raw", reply))) for reply in replies}

    others = set(psutil.Process().children(recursive=True))  # of tests before
    with LocalServers(tmp_path) as servers:
        [url] = servers.serve(served, identity, weights).urls
        monkeypatch.setenv(served.variables[0], url)
        with urllib.request.urlopen(f"{url}/v1/models") as answer:
            assert [listed["id"] for listed in json.load(answer)["data"]] == ["genrm"]
        assert len(asyncio.run(ask())) == 1  # greedy: the same whatever the seed
        children = set(psutil.Process().children(recursive=True)) - others
        assert children
    _, left = psutil.wait_procs(children, timeout=60)
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []
