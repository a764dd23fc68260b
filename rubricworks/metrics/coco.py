"""BLEU, ROUGE-L, METEOR and CIDEr of captions as COCO's evaluation code computes them (pycocoevalcap 1.2).

BLEU, ROUGE-L and CIDEr are that package's. Its PTB tokeniser and its METEOR 1.5 are Java programs, which are started
here directly: the package's own wrappers write into its folder and leave METEOR running.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

from rubricworks.errors import UserError

_TOKENIZER = "tokenizer/stanford-corenlp-3.4.1.jar"
_METEOR = "meteor/meteor-1.5.jar"
_METEOR_OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")
_JAVA_OPTIONS = ("-Dfile.encoding=UTF-8", "-XX:-UsePerfData")
_PUNCTUATION = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)
"""Tokens that COCO's tokeniser drops. Its text is lower case when it looks for the brackets' names, so they stay."""

Candidates = dict[str, list[str]]
References = dict[str, list[str]]


class CocoScores(NamedTuple):
    """Scores of a corpus of captions, and of each of them."""

    corpus: dict[str, float]
    captions: dict[str, dict[str, float]]
    """Image's id → scores of its caption."""


def coco_scores(
    candidates: Mapping[str, str], references: Mapping[str, Sequence[str]], *, ptb: bool = True
) -> dict[str, float]:
    """Scores of a corpus of captions, in [0, 1], CIDEr in [0, 10].

    BLEU and METEOR are computed over the corpus, ROUGE-L and CIDEr are means over captions. CIDEr weighs n-grams by
    their rarity in the references of all images: its value depends on the corpus, and is 0 for a single image.

    Args:
        candidates: image's id → its caption.
        references: image's id → its reference captions, at least one; the same ids.
        ptb: tokenise with the Penn Treebank tokeniser, as papers do; else captions are only put into lower case.
    Returns:
        Bleu_1, Bleu_2, Bleu_3, Bleu_4, ROUGE_L, METEOR, CIDEr.
    Raises:
        ValueError: there is no caption, the ids differ, or an image has no list of references.
        UserError: there is no Java, pycocoevalcap is not installed, or a Java program failed.
    """
    return caption_and_corpus_scores(candidates, references, ptb=ptb).corpus


def coco_caption_scores(
    candidates: Mapping[str, str], references: Mapping[str, Sequence[str]], *, ptb: bool = True
) -> dict[str, dict[str, float]]:
    """Scores of each caption of a corpus.

    CIDEr's weights are those of the whole corpus. Arguments and errors are those of `coco_scores`.

    Returns:
        Image's id → the scores of `coco_scores` for its caption.
    """
    return caption_and_corpus_scores(candidates, references, ptb=ptb).captions


def caption_and_corpus_scores(
    candidates: Mapping[str, str], references: Mapping[str, Sequence[str]], *, ptb: bool = True
) -> CocoScores:
    """Scores of the corpus and of each caption at once. Arguments and errors are those of `coco_scores`."""
    if not candidates or candidates.keys() != references.keys():
        lone = sorted(map(str, candidates.keys() ^ references.keys()))
        raise ValueError(
            f"{len(candidates)} captions, references of {len(references)} images; give one caption and its references "
            "for each image" + (f", also for {lone[0]}" if lone else "")
        )
    for image, texts in references.items():
        if isinstance(texts, str) or not texts:
            raise ValueError(f"the references of image {image} are {texts!r}; give a list of one text or more")
    package = _package()
    gts = {image: [_one_line(text) for text in references[image]] for image in candidates}
    res = {image: [_one_line(text)] for image, text in candidates.items()}
    if ptb:
        tokens = iter(_tokenize(package, [text for part in (gts, res) for texts in part.values() for text in texts]))
        gts, res = ({image: [next(tokens) for _ in texts] for image, texts in part.items()} for part in (gts, res))
    else:
        gts, res = ({image: [text.lower() for text in texts] for image, texts in part.items()} for part in (gts, res))

    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    bleu, bleu_rows = Bleu(4).compute_score(gts, res, verbose=0)
    rouge, rouge_row = Rouge().compute_score(gts, res)
    cider, cider_row = Cider().compute_score(gts, res)
    meteor, meteor_row = _meteor(package, gts, res)
    names = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "METEOR", "CIDEr")
    rows = zip(*bleu_rows, rouge_row, meteor_row, cider_row, strict=True)
    return CocoScores(
        dict(zip(names, map(float, (*bleu, rouge, meteor, cider)), strict=True)),
        {image: dict(zip(names, map(float, row), strict=True)) for image, row in zip(candidates, rows, strict=True)},
    )


def _one_line(text: str) -> str:
    """Text without line breaks, since both Java programs read a caption per line."""
    return " ".join(text.splitlines()).encode(errors="replace").decode()


def _tokenize(package: Path, texts: Sequence[str]) -> list[str]:
    """Tokens of each text in lower case, without punctuation, joined by spaces."""
    command = [_java(), *_JAVA_OPTIONS, "-cp", str(package / _TOKENIZER), "edu.stanford.nlp.process.PTBTokenizer"]
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "captions.txt"
        captions.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        process = subprocess.run(
            [*command, "-preserveLines", "-lowerCase", str(captions)], capture_output=True, cwd=folder, check=False
        )
    lines = process.stdout.decode(errors="replace").split("\n")[: len(texts)]
    if process.returncode or len(lines) < len(texts):
        raise UserError(f"the PTB tokeniser failed: {_last_line(process.stderr)}")
    return [" ".join(word for word in line.rstrip().split(" ") if word not in _PUNCTUATION) for line in lines]


def _meteor(package: Path, gts: References, res: Candidates) -> tuple[float, list[float]]:
    """METEOR of the corpus and of each caption.

    METEOR answers each line on its standard input: statistics of a caption to SCORE, and to EVAL, which takes them all,
    a line per caption and one of the corpus.
    """
    command = [_java(), *_JAVA_OPTIONS, "-Xmx2G", "-jar", str(package / _METEOR), *_METEOR_OPTIONS]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            statistics = []
            for image, [caption] in res.items():
                # `|||` separates METEOR's fields; pycocoevalcap takes double spaces out of the caption alone.
                texts = [text.replace("|||", "") for text in (*gts[image], caption)]
                statistics.append(
                    _ask(process.stdin, process.stdout, ["SCORE", *texts[:-1], texts[-1].replace("  ", " ")])
                )
            scores = [float(_ask(process.stdin, process.stdout, ["EVAL", *statistics]))]
            scores += [float(process.stdout.readline()) for _ in res]
        except (OSError, ValueError):
            process.kill()
            process.wait()
            errors.seek(0)
            raise UserError(f"METEOR failed: {_last_line(errors.read())}") from None
        finally:
            process.kill()
            process.communicate()  # closes both pipes and waits
    return scores[-1], scores[:-1]


def _ask(to: IO[bytes], answers: IO[bytes], fields: Iterable[str]) -> str:
    to.write((" ||| ".join(fields) + "\n").encode())
    to.flush()
    if not (answer := answers.readline().decode().strip()):
        raise ValueError("no answer")
    return answer


def _package() -> Path:
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("coco_scores needs pycocoevalcap; pip install 'rubricworks[eval]'")
    return Path(next(iter(spec.submodule_search_locations)))


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise UserError(
            "coco_scores needs Java for its tokeniser and METEOR, and there is no `java` on the PATH; install a Java "
            "runtime (Debian: default-jre-headless)"
        )
    return java


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no error message"
