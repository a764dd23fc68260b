"""Held-out prompts with the images of both models and the verdicts on them, side by side.

The prompts are drawn by a hash of their ids and the seed, not selected by their results.
"""

import json
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.reports.scores import STAGE, ScoredResponse, scored_ids, scored_responses
from rubricworks.rubrics import Rubric, Scorecard, Verdict


class DrawnImage(NamedTuple):
    """One model's image for one prompt."""

    uri: str
    """Data URI."""
    reward: float | None
    correct: float | None
    """GenEval's verdict."""
    reasons: tuple[str, ...]
    """Why it is not correct."""
    verdicts: dict[str, Verdict]
    """Criterion → verdict."""


class Example(NamedTuple):
    """One held-out prompt."""

    prompt: str
    task: str
    base: DrawnImage | None
    policy: DrawnImage | None
    criteria: list[tuple[str, str]]
    """Key and criterion of the rubric."""


def read_examples(run: Path, count: int, *, decoding: str, seed: int) -> list[Example]:
    """Read up to `count` evaluated prompts, in the order of the draw."""
    ids = draw_samples(scored_ids(run), count, seed)
    responses = scored_responses(run, ids, decoding=decoding)
    images = ResponseImages(run / STAGE / "responses" / IMAGES)
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in table_rows(run / "write_prompt_rubrics", ["sample_id", "rubric"])
        if row["sample_id"] in ids
    }
    samples = sample_rows(run / "prepare_prompts", set(ids), ["prompt", "task"])
    examples = []
    for sample_id in ids:
        rubric, sample = rubrics.get(sample_id), samples.get(sample_id) or {}
        examples.append(
            Example(
                prompt=sample.get("prompt") or "",
                task=sample.get("task") or "",
                base=_drawn(responses.get((sample_id, BASE)), images),
                policy=_drawn(responses.get((sample_id, POLICY)), images),
                criteria=[(one.key, one.criterion) for one in rubric.criteria] if rubric else [],
            )
        )
    return examples


def _drawn(response: ScoredResponse | None, images: ResponseImages) -> DrawnImage | None:
    if response is None or not response.response.is_image:
        return None
    image = images.read(response.response).image
    evidence = json.loads(response.evidence.get("geneval", "{}"))
    verdicts: dict[str, Verdict] = {}
    if "rubric" in response.evidence:
        scorecard = Scorecard.model_validate_json(response.evidence["rubric"])
        verdicts = {verdict.criterion: verdict for verdict in scorecard.verdicts}
    return DrawnImage(
        uri=data_uri(image) if image else "",
        reward=response.values.get("rubric_reward"),
        correct=response.values.get("geneval_correct", response.values.get("geneval")),
        reasons=tuple(evidence.get("reasons", ())),
        verdicts=verdicts,
    )
