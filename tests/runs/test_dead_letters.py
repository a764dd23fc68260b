"""Dead letters asked again: only their shards are filled anew, and the table ends as if nothing had failed."""

import asyncio
import json

import pytest

from rubricworks.data.tables import build_table, read_rows
from rubricworks.errors import UserError
from rubricworks.runs.dead_letters import reopen_dead_letters
from rubricworks.runs.folder_lock import lock_folder

MADE_BY = {"stage": "caption_committee", "config": "c", "inputs": {}, "version": "1"}
BLANK = {"captioner": "t", "model": "t", "revision": "", "prompt_version": "1", "endpoint": "e", "seed": 0}
BLANK |= {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.0}
LETTER = {"stage": "caption_committee", "purpose": "caption", "criterion": None, "response": None, "reason": "timeout"}
LETTER |= {"message": "m", "raw": "", "request": "r", "attempts": 3, "response_type": None}


def build(run, failing=()):
    """Build the table of nine samples in shards of two; return the samples that were asked for."""
    asked = []

    async def make_rows(chunk):
        asked.extend(chunk)
        return {
            "captions": [{"sample_id": item, "caption": f"a {item}", **BLANK} for item in chunk if item not in failing],
            "dead_letters": [{"sample_id": item, **LETTER} for item in chunk if item in failing],
        }

    out = run / "caption_committee"
    asyncio.run(
        build_table(
            out,
            "captions",
            [str(number) for number in range(9)],
            make_rows,
            made_by=MADE_BY,
            shard_size=2,
            side_tables={"dead_letters": out / "dead_letters"},
        )
    )
    (out / "done.json").write_text(json.dumps({}))
    return asked


def test_only_the_shards_with_letters_are_asked_again_and_nothing_is_missing_then(tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    assert len(build(run, failing={"3", "8"})) == 9
    assert reopen_dead_letters(run, "caption_committee") == 2
    assert not (run / "caption_committee" / "done.json").exists()
    assert build(run) == ["2", "3", "8"]
    build(whole)
    assert list(read_rows(run / "caption_committee")) == list(read_rows(whole / "caption_committee"))
    assert reopen_dead_letters(run, "caption_committee") == 0
    assert (run / "caption_committee" / "done.json").exists()


def test_what_cannot_be_asked_again_stays_and_is_told(tmp_path):
    run = tmp_path / "run"
    build(run, failing={"3"})
    with lock_folder(run), pytest.raises(UserError, match="running already"):
        reopen_dead_letters(run, "caption_committee")
    with pytest.raises(UserError, match="train_policy is a training"):
        reopen_dead_letters(run, "train_policy")
    with pytest.raises(UserError, match="prepare of run has no finished table of dead letters"):
        reopen_dead_letters(run, "prepare")
    plan = run / "caption_committee" / "dead_letters" / ".plan.json"
    plan.write_text(plan.read_text().replace('"shard_size": 2', '"shard_size": 3'))
    with pytest.raises(UserError, match="does not ask by shards"):
        reopen_dead_letters(run, "caption_committee")
    assert (run / "caption_committee" / "done.json").exists()
