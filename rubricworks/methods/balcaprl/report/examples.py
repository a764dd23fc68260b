"""Held-out images with the captions of both models and the judge's mark on every claim.

The images are drawn by a hash of their ids and the seed, not selected by their results.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.grading import GradedCaption
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows

MODELS = {"base": "Base model", "policy": "Trained policy"}
_TABLE = "evaluate_captions"


class Claim(NamedTuple):
    text: str
    holds: bool
    """For a claim of the caption: verified; for one of the reference: covered."""


class JudgedCaption(NamedTuple):
    """One model's caption of one image, with the judge's verdicts."""

    kind: str
    name: str
    row: dict[str, Any]
    """Row of `caption_scores`."""
    claims: list[Claim]
    reference_claims: list[Claim]
    ratings: tuple[int, int, int] | None
    """Clarity, fluency, coherency; None if the judge's answer could not be read."""
    dropped: tuple[str, ...]
    """Claims that the judge listed although the caption does not make them; not in `claims`."""
    why_not: str
    """Reason why there are no claims; empty if the judge's answer was read."""


class CaptionExample(NamedTuple):
    """One held-out image with both captions."""

    sample_id: str
    image: str | None
    """Data URI."""
    source: str
    reference: str
    captions: list[JudgedCaption]

    @property
    def win(self) -> float | None:
        return next((one.row["win"] for one in self.captions if one.kind == "policy"), None)

    @property
    def preferred(self) -> str | None:
        """Preferred caption: "policy", "base" or "neither"; None without a comparison."""
        win = self.win
        return None if win is None else "neither" if win == 0.5 else "policy" if win > 0.5 else "base"

    @property
    def judgment(self) -> str:
        return next((one.row["judgment"] or "" for one in self.captions if one.kind == "policy"), "")


def read_caption_examples(run: Path, count: int, *, seed: int) -> list[CaptionExample]:
    """Read up to `count` evaluated samples, in the order of the draw."""
    ids = draw_samples((row["sample_id"] for row in table_rows(run / _TABLE, ["sample_id"])), count, seed)
    rows = {(row["sample_id"], row["model"]): row for row in table_rows(run / _TABLE) if row["sample_id"] in set(ids)}
    images = sample_rows(run / "prepare", set(ids), ["image", "source"])
    return [_example(sample_id, rows, images.get(sample_id)) for sample_id in ids]


def _example(
    sample_id: str, rows: dict[tuple[str, str], dict[str, Any]], image: dict[str, Any] | None
) -> CaptionExample:
    graded = {
        model: GradedCaption.model_validate_json(row["graded"]) if row["graded"] else None
        for model in MODELS
        if (row := rows.get((sample_id, model)))
    }
    return CaptionExample(
        sample_id=sample_id,
        image=data_uri(image["image"]) if image else None,
        source=image["source"] if image else "",
        reference=next((one.reference for one in graded.values() if one), ""),
        captions=[_judged_caption(model, rows[sample_id, model], one) for model, one in graded.items()],
    )


def _judged_caption(model: str, row: dict[str, Any], graded: GradedCaption | None) -> JudgedCaption:
    if graded is None or graded.assertions is None:
        return JudgedCaption(model, MODELS[model], row, [], [], None, (), _why_not(graded))
    caption, reference = graded.assertions.synthetic_features, graded.assertions.gt_features
    return JudgedCaption(
        kind=model,
        name=MODELS[model],
        row=row,
        claims=[Claim(one.text, one.is_verified) for one in caption.atomic_assertions],
        reference_claims=[Claim(one.text, one.is_covered) for one in reference.atomic_assertions],
        ratings=(caption.clarity_score, caption.fluency_score, caption.coherency_score),
        dropped=graded.dropped,
        why_not="",
    )


def _why_not(graded: GradedCaption | None) -> str:
    if graded is None:
        return "The judge was not asked: there is no reference caption."
    if graded.error is None:
        return "A caption without words earns nothing."
    return f"Could not be judged: {graded.message or 'the judge was not understood'}"
