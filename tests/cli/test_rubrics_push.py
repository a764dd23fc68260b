"""`rubricworks rubrics push`: a data set with its card, on a server that answers as the Hub does, and back again."""

from pathlib import Path

import pytest
from hub_stand_in import COMMIT
from huggingface_hub import DatasetCard

from rubricworks.data.rubric_sets import read_rubric_set

PEOPLE = Path(__file__).parents[1] / "data" / "rubric_files" / "people.csv"


@pytest.fixture(autouse=True)
def _new(hub):
    hub.is_new = True


def test_a_set_goes_to_the_hub_and_comes_back_as_it_was(hub, tell):
    done = tell("rubrics", "push", PEOPLE, "org/mine")
    assert (done.code, done.out) == (0, f"org/mine@{COMMIT}: 2 rubrics\n"), done
    assert (hub.made["name"], hub.made["organization"]) == ("mine", "org")
    assert (hub.made["visibility"], hub.made["summary"]) == ("private", "Add 2 rubrics")
    assert set(hub.files) == {"README.md", "data/train.parquet"}
    back = list(read_rubric_set(f"org/mine@{COMMIT}", note=print))
    ours = {entry.sample_id: entry.rubric for entry in read_rubric_set(PEOPLE, note=print)}
    assert {entry.sample_id: entry.rubric for entry in back} == ours


def test_the_card_is_one_that_the_hub_reads_and_counts_what_is_there(hub, tell):
    assert tell("rubrics", "push", PEOPLE, "org/mine", "--public").code == 0
    assert hub.made["visibility"] == "public"
    card = DatasetCard(hub.files["README.md"].decode())
    assert card.data.to_dict()["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "data/train.parquet"}]}
    ]
    assert card.data.size_categories == ["n<1K"]
    rubrics = [entry.rubric for entry in read_rubric_set(PEOPLE, note=print)]
    criteria = [criterion for rubric in rubrics for criterion in rubric.criteria]
    assert f"| rubrics | {len(rubrics)} |" in card.text
    assert f"| criteria | {len(criteria)} |" in card.text
    assert f"| pitfalls (negative weight) | {sum(criterion.weight < 0 for criterion in criteria)} |" in card.text


def test_out_shows_the_files_and_asks_nobody(hub, tell, tmp_path):
    done = tell("rubrics", "push", PEOPLE, "org/mine", "--sample", "s1", "--out", "card")
    assert (done.code, done.out) == (0, "card: 1 rubrics and their card, not uploaded\n")
    assert (tmp_path / "card" / "data" / "train.parquet").is_file()
    assert not hub.files
    again = tell("rubrics", "push", PEOPLE, "org/mine", "--out", "card")
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("token", "name", "message"),
    [
        ("", "org/mine", "needs a token that may write; set HF_TOKEN"),
        ("other", "org/mine", "HF_TOKEN may not write there (HTTP 403)"),
        ("key", "org/mine/more", "is no name of a repository"),
    ],
)
def test_what_keeps_it_from_the_hub_is_told(hub, tell, monkeypatch, token, name, message):
    monkeypatch.setenv("HF_TOKEN", token)
    done = tell("rubrics", "push", PEOPLE, name)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
