"""COCO's caption scores: CIDEr by its definition, corpus and captions, what is refused, and what Java leaves behind.

METEOR takes seven seconds to start, so one run serves all tests of the same captions.
"""

import json
import math
import shutil
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from rubricworks.errors import UserError
from rubricworks.metrics import coco, coco_caption_scores, coco_scores

pytestmark = pytest.mark.slow

CASE = json.loads((Path(__file__).parents[1] / "conformance" / "data" / "e_text_metrics.json").read_text())["cases"][4]
NAMES = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "METEOR", "CIDEr"]
CANDIDATES = {
    "boat": "A red boat lies by the pier.",
    "dog": "a dog runs over the sand with a ball",
    "café": "Two people drink coffee at a café | and talk ||| 東京",
    "none": "",
}
REFERENCES = {
    "boat": ["A red boat lies at a wooden pier.", "By the pier there is a boat, and it is red."],
    "dog": ["A brown dog runs along the beach."],
    "café": ["Two people\nsit in a café."],
    "none": ["A cat sleeps on a sofa."],
}


def cider(candidates: dict[str, str], references: dict[str, list[str]]) -> dict[str, float]:
    """CIDEr-D as in its paper, from tokens with spaces between them: ten times the mean over n of 1 to 4 and over the
    references of the clipped cosine of tf-idf vectors, with a Gaussian penalty of sigma 6 on the lengths.
    """

    def grams(text: str, n: int) -> Counter:
        words = text.split()
        return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))

    def weight(gram: tuple[str, ...]) -> float:
        images = sum(any(gram in grams(text, len(gram)) for text in texts) for texts in references.values())
        return math.log(len(references)) - math.log(max(1, images))

    scores = {}
    for image, caption in candidates.items():
        total = 0.0
        for text in references[image]:
            for n in range(1, 5):
                actual = {gram: count * weight(gram) for gram, count in grams(caption, n).items()}
                reference = {gram: count * weight(gram) for gram, count in grams(text, n).items()}
                norms = [math.sqrt(sum(value**2 for value in row.values())) for row in (actual, reference)]
                product = sum(
                    min(value, reference[gram]) * reference[gram] for gram, value in actual.items() if gram in reference
                )
                # The reference code measures lengths in word pairs.
                lengths = [sum(grams(side, 2).values()) for side in (caption, text)]
                if all(norms):
                    total += product / math.prod(norms) * math.exp(-((lengths[0] - lengths[1]) ** 2) / (2 * 6**2))
        scores[image] = 10 * total / 4 / len(references[image])
    return scores


@pytest.fixture(scope="module")
def scores() -> tuple[dict, dict]:
    """Scores of the corpus and of each caption, in lower case; computed once."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java on this machine")
    once = coco.caption_and_corpus_scores(CANDIDATES, REFERENCES, ptb=False)

    def scored(*args: object, ptb: bool) -> object:
        assert (*args, ptb) == (CANDIDATES, REFERENCES, False)
        return once

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coco, "caption_and_corpus_scores", scored)
        return coco_scores(CANDIDATES, REFERENCES, ptb=False), coco_caption_scores(CANDIDATES, REFERENCES, ptb=False)


def test_corpus_and_every_caption_have_all_scores_in_order(scores):
    corpus, captions = scores
    assert list(corpus) == NAMES
    assert list(captions) == list(CANDIDATES)
    assert all(list(row) == NAMES for row in captions.values())
    assert all(0 <= row[name] <= 1 for row in (corpus, *captions.values()) for name in NAMES[:-1])


def test_cider_is_that_of_its_definition(scores):
    texts = {image: text.lower() for image, text in CANDIDATES.items()}
    expected = cider(texts, {image: [text.lower() for text in row] for image, row in REFERENCES.items()})
    assert {image: row["CIDEr"] for image, row in scores[1].items()} == pytest.approx(expected)


def test_corpus_has_the_means_of_rouge_and_cider_and_its_own_bleu_and_meteor(scores):
    corpus, captions = scores
    means = {name: sum(row[name] for row in captions.values()) / len(captions) for name in NAMES}
    assert {name: corpus[name] for name in ("ROUGE_L", "CIDEr")} == pytest.approx(
        {name: means[name] for name in ("ROUGE_L", "CIDEr")}
    )
    assert corpus["Bleu_1"] != pytest.approx(means["Bleu_1"])
    assert corpus["METEOR"] != pytest.approx(means["METEOR"])


def test_empty_caption_scores_nothing(scores):
    assert scores[1]["none"] == pytest.approx(dict.fromkeys(NAMES, 0.0), abs=1e-8)


def test_corpus_of_one_caption_leaves_nothing_running_or_written():
    """The expected scores are those of the writer of the conformance cases."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java on this machine")
    package = Path(next(iter(find_spec("pycocoevalcap").submodule_search_locations)))

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in package.rglob("*") if "__pycache__" not in path.parts}

    before = files()
    scores = coco_scores({"only": CASE["cand"]}, {"only": CASE["refs"]})
    assert files() == before
    assert [child.name() for child in psutil.Process().children(recursive=True) if child.name() == "java"] == []
    expected = {name: CASE["pycocoevalcap_ptb"][name] for name in ("Bleu_1", "Bleu_4", "ROUGE_L", "METEOR")}
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("candidates", "references", "says"),
    [
        ({}, {}, "0 captions"),
        ({"a": "x"}, {"b": ["x"]}, "also for a"),
        ({"a": "x"}, {"a": []}, "references of image a"),
        ({"a": "x"}, {"a": "x"}, "give a list of one text or more"),
    ],
)
def test_captions_without_their_references_are_refused(candidates, references, says):
    with pytest.raises(ValueError, match=says):
        coco_scores(candidates, references)


@pytest.mark.parametrize("ptb", [True, False])
def test_missing_java_says_what_to_install(monkeypatch, tmp_path, ptb):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no `java` on the PATH; install a Java runtime"):
        coco_scores({"a": "x"}, {"a": ["x"]}, ptb=ptb)


@pytest.mark.parametrize(("ptb", "program"), [(True, "the PTB tokeniser"), (False, "METEOR")])
def test_java_that_fails_is_told_with_its_last_words(monkeypatch, tmp_path, ptb, program):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UserError, match=f"{program} failed: no memory"):
        coco_scores({"a": "x"}, {"a": ["x"]}, ptb=ptb)


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    with pytest.raises(UserError, match=r"pycocoevalcap; pip install 'rubricworks\[eval\]'"):
        coco_scores({"a": "x"}, {"a": ["x"]})
