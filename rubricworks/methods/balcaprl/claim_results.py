"""Results of a run that BalCapRL's claims compare: held-out caption scores and commentary of base and policy."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rubricworks.claims.settings import read_settings
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.caption_summary import BASE, CAPTIONS_FILE, POLICY, CaptionSummary
from rubricworks.grading.assertion_texts import has_words, text_states
from rubricworks.reports.run_folder import read_value

RECIPE = "balcaprl-laptop"
STAGE = "evaluate_captions"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class CaptionResults(NamedTuple):
    """Results of one run."""

    summary: CaptionSummary
    commentary: dict[str, float | None]
    """`base` and `policy` → share of captions with a sentence that names nothing visible; see `commentary_share`."""


def is_finished(run: Path) -> bool:
    """Return True if the held-out captions are scored; the run's own page may still be missing."""
    return all((run / STAGE / name).is_file() for name in ("done.json", CAPTIONS_FILE))


def read_summary(run: Path) -> CaptionSummary:
    """Read the evaluation summary of a run.

    Raises:
        UserError: the run is not of BalCapRL's pipeline, is not finished, or a file is damaged.
    """
    read_settings(run, "balcaprl")
    if not (run / STAGE / "done.json").is_file():
        raise UserError(f"{run}: the stage {STAGE} has not finished; run it to its end, or leave it out")
    summary = read_value(run / STAGE / CAPTIONS_FILE, CaptionSummary)
    if summary is None:
        raise UserError(f"{run / STAGE / CAPTIONS_FILE}: missing or empty; run the stage {STAGE} again")
    if missing := [model for model in (BASE, POLICY) if model not in summary.models]:
        raise UserError(
            f"{run / STAGE / CAPTIONS_FILE}: no figures of {', '.join(missing)}; run the stage {STAGE} again"
        )
    return summary


def read_results(run: Path) -> CaptionResults:
    """Read the results of a run.

    Raises:
        UserError: as `read_summary`.
    """
    summary = read_summary(run)
    rows = list(read_rows(run / STAGE, columns=["model", "caption", "graded"]))
    references = [json.loads(row["graded"])["reference"] for row in rows if row["graded"] and row["model"] == BASE]
    captions = {model: [row["caption"] for row in rows if row["model"] == model] for model in (BASE, POLICY)}
    return CaptionResults(summary, {model: commentary_share(texts, references) for model, texts in captions.items()})


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
