"""Answers of models as a store keeps them: pieces that come every few seconds, and few when an attempt has ended."""

import shutil
from pathlib import Path

import pytest
from test_runs_in_store import mirror_of

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.llm.cache import CACHE_FILE, AnswerCache
from rubricworks.llm.identity import Identity, IdentityPin
from rubricworks.runtime.store.attempts import read_index
from rubricworks.runtime.store.mirror import Mirror
from rubricworks.storage import open_bucket


def pieces_of(run: str, stage: str) -> list[str]:
    return [item.key for item in open_bucket(f"{run}/state/{stage}").objects("answers/")]


def keep_answers(mirror: Mirror, folder: Path, names: range) -> None:
    """One piece for each, as if each came long after the one before."""
    cache = AnswerCache(folder / CACHE_FILE)
    for name in names:
        cache.put(str(name).encode().ljust(32, b"-"), "m", f'"answer {name}"')
    cache.close()
    mirror.push()


@pytest.fixture
def one_a_piece(monkeypatch) -> None:
    monkeypatch.setattr("rubricworks.runtime.store.run_state._ROWS_PER_PIECE", 1)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [Mirror.finish, Mirror.give_up], ids=["done", "failed"])
def test_many_small_pieces_of_answers_are_one_when_an_attempt_ends_and_none_is_lost(run, tmp_path, one_a_piece, ends):
    mirror, folder = mirror_of(run, "train")
    keep_answers(mirror, folder, range(30))
    assert len(pieces_of(run, "train")) == 30
    ends(mirror)
    assert len(pieces_of(run, "train")) == 1
    keep_answers(mirror, folder, range(30, 50))
    assert len(pieces_of(run, "train")) == 21
    shutil.rmtree(folder)
    again, folder = mirror_of(run, "train")
    again.state.fetch(whole=False)
    cache = AnswerCache(folder / CACHE_FILE)
    results = [cache.get(str(name).encode().ljust(32, b"-")) for name in range(50)]
    cache.close()
    assert results == [f'"answer {name}"' for name in range(50)]
    ends(again)
    assert len(pieces_of(run, "train")) == 1


def test_pieces_that_are_put_together_while_they_are_read_are_looked_for_again(run, line, one_a_piece):
    mirror, folder = mirror_of(run, "train")
    keep_answers(mirror, folder, range(3))
    shutil.rmtree(folder)
    errors = iter([(404, "NoSuchKey")])
    line.fault = lambda request: next(errors, None) if request.method == "GET" and ".jsonl.gz" in request.path else None
    again, folder = mirror_of(run, "train")
    again.state.fetch(whole=False)
    cache = AnswerCache(folder / CACHE_FILE)
    assert all(cache.get(str(name).encode().ljust(32, b"-")) for name in range(3))
    cache.close()


def test_what_one_pod_pinned_of_a_judge_holds_on_the_next(run):
    mirror, folder = mirror_of(run, "train")
    judge = Endpoint(url="http://judge", model="judge", on_change="refuse")
    IdentityPin(judge, "judge", folder).check(Identity("judge-2026-01"))
    IdentityPin(judge, "judge", folder).note_prompt("judge-2")
    mirror.finish()
    assert "identities.json" not in read_index(open_bucket(run), "train")
    shutil.rmtree(folder)
    other, folder = mirror_of(run, "score")
    other.state.fetch(whole=False)
    pin = IdentityPin(judge, "judge", folder)
    pin.note_prompt("judge-2")
    with pytest.raises(UserError, match="answered as judge-2026-01 before, and now as judge-2026-06"):
        pin.check(Identity("judge-2026-06"))
    with pytest.raises(UserError, match="by prompt judge-2 before, and now by judge-3"):
        pin.note_prompt("judge-3")
