"""Data sets of the Hub as sources, from a server that answers as the Hub does."""

from pathlib import Path

import pytest
from hub_stand_in import COMMIT, serving

from rubricworks.data.hub import hub_files, hub_folder, hub_source
from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.errors import TransientError, UserError
from rubricworks.policy.rewards.measured_rates import MeasuredRates
from rubricworks.runtime.store.source_files import local_source

RAR = (Path(__file__).parent / "rubric_files" / "rar.jsonl").read_bytes()
FILES = {"README.md": b"# RaR", "data/train-0.jsonl": RAR}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serving(FILES, tmp_path, monkeypatch) as asked:
        yield asked


def test_rubrics_of_a_commit_are_read_and_fetched_once(hub):
    source = f"org/open@{COMMIT}/data/*.jsonl"
    folder = hub_folder(hub_source(source))
    assert [path.name for path in folder.parent.glob("*")] == ["train-0.jsonl"]
    for place in ("data", "data/train-*.jsonl", "data/*"):
        (entry,) = read_rubric_set(f"org/open@{COMMIT}/{place}")
        assert entry.rubric.weights == [5, 4, 1, -1]
    assert sum("/resolve/" in path and "train" in path for path in hub) <= 2  # its head and its content
    assert not any("README" in path for path in hub)


def test_a_recipes_source_may_be_of_the_hub(hub):
    place = local_source(f"parquet:org/open@{COMMIT}/data/train-0.jsonl")
    assert place.startswith("parquet:/")
    assert Path(place.removeprefix("parquet:")).read_bytes() == RAR
    assert hub_files(hub_source(f"org/open@{COMMIT}/data")) == ["data/train-0.jsonl"]


def test_a_judges_rates_may_be_a_file_of_the_hub(hub):
    rates = MeasuredRates(agreement=f"org/open@{COMMIT}/data/train-0.jsonl")
    assert rates.content == RAR
    with pytest.raises(UserError, match=r"rates\.json is in it at commit"):
        MeasuredRates(agreement=f"org/open@{COMMIT}/rates.json").digest()


def test_a_private_set_needs_the_token(hub, monkeypatch):
    source = hub_source(f"org/closed@{COMMIT}/data")
    with pytest.raises(UserError, match="needs HF_TOKEN"):
        hub_folder(source)
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(UserError, match="HF_TOKEN does not open it"):
        hub_folder(source)
    monkeypatch.setenv("HF_TOKEN", "key")
    assert (hub_folder(source) / "train-0.jsonl").read_bytes() == RAR


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("org/open", "needs a revision"),
        ("org/open@main", "may move"),
        ("org/open@9f26ac8", "may move"),
        (f"org/open@{'0' * 40}", "no commit 000"),
        (f"org/open@{COMMIT}/images", "no file images"),
        (f"org/nothing@{COMMIT}", "no such data set"),
    ],
)
def test_what_is_not_on_the_hub_or_not_pinned_is_refused(hub, source, words):
    with pytest.raises(UserError, match=words):
        list(read_rubric_set(source))


def test_a_hub_that_does_not_answer_is_another_attempts_matter(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match="does not give the data set"):
        hub_files(hub_source(f"org/open@{COMMIT}"))


def test_paths_here_are_no_data_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "cats").mkdir(parents=True)
    for path in (
        "photos/cats",
        "photos/dogs",
        "./org/name",
        "/org/name",
        "rubrics.parquet",
        "out/a.jsonl",
        "s3://b/c@d",
    ):
        assert hub_source(path) is None
