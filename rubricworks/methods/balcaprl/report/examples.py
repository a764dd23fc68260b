"""Held-out images with the captions of both models and the judge's mark on every claim.

The images are drawn by a hash of their ids and the seed, not selected by their results.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.grading import GradedCaption
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.reports.scores import ScoredResponse, preferred, scored_ids, scored_responses

MODELS = {"base": "Base model", "policy": "Trained policy"}


class Claim(NamedTuple):
    text: str
    holds: bool
    """For a claim of the caption: verified; for one of the reference: covered."""


class JudgedCaption(NamedTuple):
    """One model's caption of one image, with the judge's verdicts."""

    kind: str
    name: str
    scored: ScoredResponse
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
    def policy(self) -> ScoredResponse | None:
        return next((one.scored for one in self.captions if one.kind == "policy"), None)

    @property
    def preferred(self) -> str | None:
        """Preferred caption: "policy", "base" or "neither"; None without a comparison."""
        return preferred(self.policy)

    @property
    def judgment(self) -> str:
        return self.policy.judgment if self.policy else ""


def read_caption_examples(run: Path, count: int, *, decoding: str, seed: int) -> list[CaptionExample]:
    """Read up to `count` evaluated samples, in the order of the draw."""
    ids = draw_samples(scored_ids(run), count, seed)
    scored = scored_responses(run, ids, decoding=decoding)
    images = sample_rows(run / "prepare", set(ids), ["image", "source"])
    return [_example(sample_id, scored, images.get(sample_id)) for sample_id in ids]


def _example(
    sample_id: str, scored: dict[tuple[str, str], ScoredResponse], image: dict[str, Any] | None
) -> CaptionExample:
    graded = {
        model: GradedCaption.model_validate_json(text) if (text := one.evidence.get("b_capscore")) else None
        for model in MODELS
        if (one := scored.get((sample_id, model)))
    }
    return CaptionExample(
        sample_id=sample_id,
        image=data_uri(image["image"]) if image else None,
        source=image["source"] if image else "",
        reference=next((one.reference for one in graded.values() if one), ""),
        captions=[_judged_caption(model, scored[sample_id, model], one) for model, one in graded.items()],
    )


def _judged_caption(model: str, scored: ScoredResponse, graded: GradedCaption | None) -> JudgedCaption:
    if graded is None or graded.assertions is None:
        return JudgedCaption(model, MODELS[model], scored, [], [], None, (), _why_not(graded))
    caption, reference = graded.assertions.synthetic_features, graded.assertions.gt_features
    return JudgedCaption(
        kind=model,
        name=MODELS[model],
        scored=scored,
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
