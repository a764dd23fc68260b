"""Files of a run that a crash or a bad disk has torn: one line with the file and the way on, and no traceback."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from pydantic import BaseModel
from scripted_server import say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient
from rubricworks.llm.batches import _read_ids
from rubricworks.runtime.job import output_digest, refuse_other_records


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"digest": 1}', "{}", "\xff"])
def test_a_torn_record_of_a_finished_stage_is_one_line(content, tmp_path):
    stage = tmp_path / "prepare"
    stage.mkdir()
    (stage / "done.json").write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=rf"^{stage}/done.json is damaged \(.*delete the folder {stage} and resume"):
        output_digest(stage)


def test_a_torn_record_of_a_stage_that_began_is_one_line(tmp_path):
    (tmp_path / "prepare").mkdir()
    (tmp_path / "prepare" / "made_from.json").write_text('{"record": 2, "sta')
    with pytest.raises(UserError, match=rf"^{tmp_path}/prepare/made_from.json is damaged"):
        refuse_other_records(tmp_path)


class Answer(BaseModel):
    word: str


@pytest.mark.parametrize("entry", ["{", "[1]", "null", '["x", "many", 1, 0.5]', "[]"])
def test_a_damaged_entry_of_a_cache_is_one_line_that_names_the_file(entry, serve, tmp_path):
    server, cache = serve(lambda number, _: say(json.dumps({"word": "red"}))), tmp_path / "llm_cache.sqlite"

    def ask() -> object:
        async def once() -> object:
            async with ChatClient(server.url, "m", cache=cache) as client:
                return await client.chat([{"role": "user", "content": "?"}], Answer)

        return asyncio.run(once())

    ask()
    with closing(sqlite3.connect(cache)) as file:
        file.execute("UPDATE answers SET answer = ?", (entry,))
        file.commit()
    with pytest.raises(UserError, match=rf"the cache {cache} is damaged: an entry is no answer; delete the file"):
        ask()


@pytest.mark.parametrize("content", ["{", "{}", "[1]", "null"])
def test_a_torn_list_of_a_batchs_rows_is_one_line(content, tmp_path):
    (tmp_path / "batch.json").write_text(content)
    with pytest.raises(UserError, match=rf"^{tmp_path}/batch.json is damaged \(.*its batch is sent again"):
        _read_ids(tmp_path / "batch.json")
    (tmp_path / "batch.json").write_text(json.dumps(["a"]))
    assert _read_ids(tmp_path / "batch.json") == {"a"}
