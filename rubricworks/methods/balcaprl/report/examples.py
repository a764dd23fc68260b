"""Held-out images with the captions of both models, every claim marked as the judge marked it.

The images are drawn by a hash of their names and the seed: neither the best nor the worst are picked.
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
    """Verified, where it is the caption's; covered, where it is the reference's."""


class JudgedCaption(NamedTuple):
    """One model's caption of one image."""

    kind: str
    name: str
    row: dict[str, Any]
    """Of `caption_scores`."""
    claims: list[Claim]
    reference_claims: list[Claim]
    ratings: tuple[int, int, int] | None
    """Clarity, fluency, coherency; None where the judge could not be read."""
    dropped: tuple[str, ...]
    """What the judge listed of the caption although it does not say so; left out of the claims."""
    why_not: str
    """Why there are no claims; empty where the judge was read."""


class CaptionExample(NamedTuple):
    """One image on the page."""

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
        """policy | base | neither, or None if they were not compared."""
        win = self.win
        return None if win is None else "neither" if win == 0.5 else "policy" if win > 0.5 else "base"

    @property
    def judgment(self) -> str:
        return next((one.row["judgment"] or "" for one in self.captions if one.kind == "policy"), "")


def read_caption_examples(run: Path, count: int, *, seed: int) -> list[CaptionExample]:
    """Up to `count` evaluated samples, in the order of their draw."""
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
        captions=[_judged(model, rows[sample_id, model], one) for model, one in graded.items()],
    )


def _judged(model: str, row: dict[str, Any], graded: GradedCaption | None) -> JudgedCaption:
    if graded is None or graded.assertions is None:
        return JudgedCaption(model, MODELS[model], row, [], [], None, (), _why_not(graded))
    said, reference = graded.assertions.synthetic_features, graded.assertions.gt_features
    return JudgedCaption(
        kind=model,
        name=MODELS[model],
        row=row,
        claims=[Claim(one.text, one.is_verified) for one in said.atomic_assertions],
        reference_claims=[Claim(one.text, one.is_covered) for one in reference.atomic_assertions],
        ratings=(said.clarity_score, said.fluency_score, said.coherency_score),
        dropped=graded.dropped,
        why_not="",
    )


def _why_not(graded: GradedCaption | None) -> str:
    if graded is None:
        return "The judge was not asked: there is no reference caption."
    if graded.error is None:
        return "A caption without words earns nothing."
    return f"Could not be judged: {graded.message or 'the judge was not understood'}"
