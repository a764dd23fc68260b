"""Models of the Hub at a commit: fetched once, without other copies of their weights; a name alone is refused."""

import pytest
from hub_stand_in import COMMIT, serving

from rubricworks.data.hub import model_place
from rubricworks.errors import UserError
from rubricworks.evaluation.encoders import SentenceEncoder, missing_model
from rubricworks.evaluation.scorers.capture import CaptureScorer
from rubricworks.recipe.sizes import count_parameters
from rubricworks.runtime.preflight_checks import require_model
from rubricworks.training.generate import load_model, load_model_processor
from rubricworks.training.tiny.text_student import build_text_student

PINNED = f"org/open@{COMMIT}"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = build_text_student(["a red ball"], tmp_path_factory.mktemp("model"))
    stored = {file.name: file.read_bytes() for file in folder.iterdir()}
    return {**stored, "pytorch_model.bin": b"again", "original/weights.pth": b"and again"}


@pytest.fixture
def hub(tmp_path, monkeypatch, files):
    with serving(files, tmp_path, monkeypatch) as asked:
        yield asked


def test_a_model_of_a_commit_is_loaded_without_other_copies_of_its_weights(hub, files):
    model, processor = load_model(PINNED)
    assert model.config.vocab_size >= len(processor)
    fetched = {path.partition(f"/resolve/{COMMIT}/")[2] for path in hub if "/resolve/" in path}
    assert fetched == set(files) - {"pytorch_model.bin", "original/weights.pth"}
    before = len(hub)
    load_model_processor(PINNED)
    assert not any("/resolve/" in path for path in hub[before:])


def test_weights_of_the_older_kind_are_fetched_where_there_are_no_others(hub, files, monkeypatch):
    monkeypatch.delitem(files, "model.safetensors")
    model_place(PINNED)
    assert any(path.endswith("/pytorch_model.bin") for path in hub)


def test_preflight_looks_for_the_commit(hub):
    assert f"{PINNED} is at" in require_model(PINNED)
    model_place(PINNED)
    assert require_model(PINNED) == f"{PINNED} is in the cache"


def test_an_encoder_is_that_of_its_commit(hub, monkeypatch):
    SentenceEncoder(PINNED, "scorers.capture.encoder")
    assert any(path.endswith(f"/{COMMIT}/model.safetensors") for path in hub)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert missing_model(PINNED) is None
    assert "is not in the Hub's cache" in missing_model(f"org/open@{'0' * 40}")


def test_the_size_in_a_name_is_read_before_its_commit():
    assert count_parameters(f"org/model-3B@{COMMIT}") == 3_000_000_000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("org/open@main", "may move"),
        (f"org/open@{'0' * 40}", "the model has no commit 000"),
        (f"org/nothing@{COMMIT}", "no such model"),
        (f"org/closed@{COMMIT}", "needs HF_TOKEN"),
    ],
)
def test_what_is_no_model_of_a_commit_is_refused(hub, name, words):
    with pytest.raises(UserError, match=words):
        load_model(name)


@pytest.mark.parametrize("load", [load_model, load_model_processor, model_place, require_model])
def test_a_name_without_a_commit_is_refused_with_todays(hub, load):
    with pytest.raises(UserError, match=f"pins its weights: org/open@COMMIT, today {PINNED}$"):
        load("org/open")
    assert f"today {PINNED}" in missing_model("org/open")
    assert not any("/resolve/" in path for path in hub)


def test_where_the_hub_tells_no_commit_its_page_does(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="org/open@COMMIT, with the 40 digits of a commit from its page"):
        model_place("org/open")
    assert not hub


def test_a_folder_is_a_models_place_whatever_its_name(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "open").mkdir(parents=True)
    assert [model_place(name) for name in ("org/open", str(tmp_path), "./open")] == [
        "org/open",
        str(tmp_path),
        "./open",
    ]
    with pytest.raises(UserError, match=r"^org/opem: there is no such folder, and .* org/opem@COMMIT, with the 40"):
        model_place("org/opem")
    with pytest.raises(UserError, match=r"^gpt2: there is no such folder, and .* org/name@COMMIT"):
        model_place("gpt2")
    assert not hub  # a folder beside it was meant, perhaps: nobody is asked


def test_captures_own_models_stand_as_its_reference_code_names_them(hub):
    scorer = CaptureScorer()
    assert [model_place(name) for name in (scorer.parser, scorer.encoder)] == [scorer.parser, scorer.encoder]
