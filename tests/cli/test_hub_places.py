"""Data sets of the Hub where a command takes a file: captions, rubrics, responses and models' answers."""

import json

import pytest
from audited import write_stage_table
from hub_stand_in import COMMIT
from scripted_server import say
from synthetic_run import picture, sample

from rubricworks.data.rows import iter_rows
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError

RUBRIC = {"criteria": [{"criterion": "red", "weight": 3}]}
PLACE = f"org/mine@{COMMIT}"


def lines(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.fixture
def stored(hub):
    hub.files["captions/train-0.jsonl"] = lines({"sample_id": "s1", "caption": "a red ball"})
    hub.files["captions/train-1.jsonl"] = lines({"sample_id": "s2", "caption": "a blue ball"})
    hub.files["rubrics/train.jsonl"] = lines(
        *({"sample_id": name, "rubric": json.dumps(RUBRIC)} for name in ("s1", "s2"))
    )
    hub.files["about.txt"] = b"Mine"
    return hub


@pytest.fixture
def judge(serve):
    return serve([say(json.dumps({"verdicts": [{"id": 1, "reasoning": "", "score": 1}]}))] * 4)


def test_rows_of_a_data_set_are_those_of_its_files_in_order(stored):
    rows = list(iter_rows(f"{PLACE}/captions", ["sample_id"], optional=["caption"]))
    assert rows == [{"sample_id": "s1", "caption": "a red ball"}, {"sample_id": "s2", "caption": "a blue ball"}]
    assert list(iter_rows(f"{PLACE}/captions/*-1.jsonl", ["sample_id"])) == [{"sample_id": "s2"}]
    with pytest.raises(UserError, match="no Parquet and no JSON lines"):
        list(iter_rows(f"{PLACE}/*.txt", ["sample_id"]))


def test_captions_and_rubrics_of_the_hub_are_graded(stored, tell, judge):
    done = tell("grade", f"{PLACE}/captions", f"{PLACE}/rubrics", "--judge", f"j@{judge.url}")
    assert done.out.splitlines()[-1] == "mean reward 1.000; 2 judged, 0 not", done.err
    unpinned = tell("grade", "org/mine", "org/mine", "--judge", f"j@{judge.url}")
    assert (unpinned.code, "needs a revision" in unpinned.err) == (2, True)
    missing = tell("grade", "c.parquet", "r.parquet", "--judge", f"j@{judge.url}")
    assert (missing.code, "there is no such file" in missing.err) == (2, True)


def test_a_private_set_without_a_token_is_one_line(stored, tell, judge, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    place = f"org/private@{COMMIT}"
    done = tell("grade", place, f"{PLACE}/rubrics", "--judge", f"j@{judge.url}")
    assert (
        done.err.strip()
        .splitlines()[-1]
        .endswith("org/private: the Hub shows no such data set; check the name, or it is private, which needs HF_TOKEN")
    )
    assert done.code == 2


def test_responses_of_the_hub_are_audited_against(stored, tell, judge):
    sets = (f"{PLACE}/rubrics", "--responses", f"{PLACE}/captions")
    done = tell("rubrics", "audit", *sets, "--judge", f"j@{judge.url}")
    assert "a red ball" in json.dumps([chat.body for chat in judge.chats]), done.err


def test_rubrics_and_responses_of_the_hub_are_evaluated(stored, tell, judge, tmp_path):
    rows = [sample(key, picture("red")) for key in ("s1", "s2")]
    samples = write_stage_table(tmp_path / "samples", "samples", rows)
    by_id = [{"sample_id": row["sample_id"], "rubric": json.dumps(RUBRIC)} for row in read_rows(samples)]
    stored.files["rubrics/train.jsonl"] = lines(*by_id)
    stored.files["captions/all.jsonl"] = lines(
        *({"sample_id": row["sample_id"], "response": "a red ball"} for row in by_id)
    )
    done = tell(
        "evaluate", f"mine={PLACE}/captions/all.jsonl", "--on", samples, "--with", "rubric",
        "--judge", f"j@{judge.url}", "--rubrics", f"{PLACE}/rubrics", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.code == 0, done.err
    (model,) = json.loads((tmp_path / "out" / "score" / "scores.json").read_bytes())["models"]
    assert model["model"] == "mine"
    assert model["means"]["rubric_reward"]["value"] == 1
