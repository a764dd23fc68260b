"""Results of a run that BalCapRL's claims compare: held-out caption scores and commentary of base and policy."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rubricworks.claims import run_scores
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard
from rubricworks.grading.assertions.texts import has_words, text_states
from rubricworks.reports.scores import response_rows, score_rows

RECIPE = "balcaprl-laptop"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class CaptionResults(NamedTuple):
    """Results of one run."""

    board: Scoreboard
    commentary: dict[str, float | None]
    """`base` and `policy` → share of captions with a sentence that names nothing visible; see `commentary_share`."""


def read_scores(run: Path) -> Scoreboard:
    """Read the scoreboard of a run.

    Raises:
        UserError: the run is not of BalCapRL's pipeline, is not finished, or a file is damaged.
    """
    return run_scores.read_scores(run, "balcaprl")


def read_results(run: Path) -> CaptionResults:
    """Read the results of a run.

    Raises:
        UserError: as `read_scores`.
    """
    board, references = read_scores(run), []
    samples: set[str] = set()
    for row in score_rows(run, ["sample_id", "model", "scorer", "evidence"]):
        samples.add(row["sample_id"])
        if (row["scorer"], row["model"]) == ("b_capscore", BASE) and row["evidence"]:
            references.append(json.loads(row["evidence"])["reference"])
    captions: dict[str, list[str]] = {BASE: [], POLICY: []}
    for row in response_rows(run):
        if row["model"] in captions and row["decoding"] == board.decoding and row["sample_id"] in samples:
            captions[row["model"]].append(row["response"])
    return CaptionResults(board, {model: commentary_share(texts, references) for model, texts in captions.items()})


def commentary_share(captions: Sequence[str], references: Sequence[str]) -> float | None:
    """Share of captions with a commentary sentence, which names nothing visible and so nothing one could point to.

    A sentence is commentary if fewer than half of its content words are in any reference caption of the held-out
    images, whether or not it is true. None without captions or references.
    """
    if not captions or not references:
        return None
    parts = [(index, part) for index, text in enumerate(captions) for part in _SENTENCE_END.split(text)]
    sentences = [(index, part) for index, part in parts if has_words(part)]
    visible = text_states("\n".join(references), [part for _, part in sentences])
    commented = {index for (index, _), is_visible in zip(sentences, visible, strict=True) if not is_visible}
    return mean(index in commented for index in range(len(captions)))
