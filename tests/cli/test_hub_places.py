"""Data sets of the Hub where a command takes a file: captions, rubrics, responses and models' answers."""

import json
from contextlib import chdir
from pathlib import Path

import pytest
from audited import write_stage_table
from hub_stand_in import COMMIT
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import say
from synthetic_run import picture, sample

from rubricworks.data.rows import iter_rows
from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.data.sources import image_entries
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError

RUBRIC = {"criteria": [{"criterion": "red", "weight": 3}]}
PLACE = f"org/mine@{COMMIT}"


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}(\.[A-Za-z0-9_-]{1,6}){0,3}", fullmatch=True)


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
    assert done.out.splitlines()[-1] == "mean reward 1.000 (1.000 to 1.000); 2 judged, 0 not", done.err
    unpinned = tell("grade", "org/mine", "org/mine", "--judge", f"j@{judge.url}")
    assert (unpinned.code, f"pins its rows: org/mine@COMMIT, today {PLACE}" in unpinned.err) == (2, True)
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


@given(
    NAMES, NAMES, st.booleans(), st.sampled_from([read_rubric_set, image_entries, lambda place: iter_rows(place, [])])
)
def test_a_place_that_is_not_here_is_read_both_ways(empty_folder, organisation, name, is_folder, read):
    """A name may be a path's or a data set's, with dots in it, and beside a folder of its organisation's name."""
    place = f"{organisation}/{name}"
    with chdir(empty_folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        if is_folder:
            Path(organisation).mkdir(exist_ok=True)
        with pytest.raises(UserError) as refused:
            list(read(place))
        if is_folder:
            Path(organisation).rmdir()
    assert "no such f" in str(refused.value)
    assert f"{place}@COMMIT, with the 40 digits of a commit from its page" in str(refused.value)


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("empty")


@pytest.mark.parametrize(
    "place", ["org/rubrics.jsonl", "org/a.v2.parquet", "rubrics.v2", "a/b/c", "./org/name", "/o/n"]
)
def test_what_can_only_be_a_path_gets_no_advice_about_the_hub(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    for read in (read_rubric_set, lambda place: iter_rows(place, [])):
        with pytest.raises(UserError, match=r"there is no such file or folder$"):
            list(read(place))


def test_a_set_beside_a_folder_of_its_name_is_read_both_ways_by_commands(stored, tell, judge, tmp_path):
    (tmp_path / "org").mkdir()
    for command in (
        ("grade", "org/mine.v2", f"{PLACE}/rubrics", "--judge", f"j@{judge.url}"),
        ("rubrics", "import", "org/mine.v2"),
        ("evaluate", "a=org/mine.v2", "--on", "org/mine.v2", "--with", "length", "--out", "out"),
    ):
        done = tell(*command)
        assert (done.code, "org/mine.v2@COMMIT" in done.err) == (2, True), done
    assert not any("mine.v2" in path for path in stored.asked)
