"""Reliability of rubrics and of their grader by people's labels (RubricRL, appendix C).

Prompts are sampled, and each of their criteria is one item with an image that the judge has graded. People decide for
each criterion: does it follow from the prompt (consistent)? Does it ask for something that the prompt does not support
(hallucinated)? Does the image meet it (label)? The last is compared with the judge, whose verdict is not shown.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import POLICY
from rubricworks.evaluation.studies.label_file import YES_NO, choice, read_label_file
from rubricworks.metrics import Interval, mean_interval
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import draw_samples, sample_rows
from rubricworks.reports.scores import STAGE, scored_ids, scored_responses
from rubricworks.rubrics import Rubric, Scorecard

COLUMNS = ("sample_id", "prompt", "key", "criterion", "response", "consistent", "hallucinated", "label")
"""Columns of the file; `rubricworks agreement` reads it as well."""
_QUESTIONS = ("consistent", "hallucinated", "label")


class RubricItem(NamedTuple):
    """A criterion of a prompt's rubric, and an image."""

    sample_id: str
    prompt: str
    key: str
    criterion: str
    response: str
    """Digest of the image."""
    credit: float | None
    """The judge's verdict; None if it failed."""
    image: bytes


class RubricReliability(BaseModel, extra="forbid", frozen=True):
    """Shares with intervals over prompts."""

    prompts: int
    pairs: int
    """Pairs of a prompt and a criterion that have a label."""
    raters: int
    consistency: Interval | None
    hallucination: Interval | None
    agreement: Interval | None
    """Share of the verdicts that agree with a person's; a judge that failed has none."""


def rubric_items(
    run: Path, prompts: int, *, seed: int, model: str = POLICY, decoding: str = "sampled"
) -> list[RubricItem]:
    """Draw prompts of a run's held-out set and return all criteria of each, with an image of the model.

    Raises:
        UserError: the run has no images that were graded by their rubrics.
    """
    ids = scored_ids(run, model)
    texts = sample_rows(run / "prepare_prompts", set(ids), ["prompt"])
    first_of_prompt = {texts[sample_id]["prompt"]: sample_id for sample_id in reversed(ids) if sample_id in texts}
    chosen = draw_samples(list(first_of_prompt.values()), prompts, seed)
    responses = scored_responses(run, chosen, decoding=decoding)
    images = ResponseImages(run / STAGE / "responses" / IMAGES)
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in table_rows(run / "write_prompt_rubrics", ["sample_id", "rubric"])
        if row["sample_id"] in chosen
    }
    items = []
    for sample_id in chosen:
        response = responses.get((sample_id, model))
        if sample_id not in rubrics or response is None or "rubric" not in response.evidence:
            continue
        credits = {
            verdict.criterion: verdict.credit
            for verdict in Scorecard.model_validate_json(response.evidence["rubric"]).verdicts
        }
        image = images.read(response.response).image or b""
        items += [
            RubricItem(
                sample_id,
                texts[sample_id]["prompt"],
                criterion.key,
                criterion.criterion,
                response.response.digest,
                credits.get(criterion.criterion),
                image,
            )
            for criterion in rubrics[sample_id].criteria
        ]
    if not items:
        raise UserError(f"{run}: no held-out image of {model} was graded by its rubric; run the evaluation first")
    return items


def write_key(path: Path, items: Sequence[RubricItem]) -> None:
    """Write the judge's verdicts, which no page shows."""
    rows = [[item.sample_id, item.criterion, item.response, item.credit] for item in items]
    path.write_text(json.dumps({"kind": "rubrics", "verdicts": rows}, ensure_ascii=False), encoding="utf-8")


def rubric_reliability(labels: Path, key: Path) -> RubricReliability:
    """Compute the shares from a filled-in file; items that a person left empty do not count.

    Raises:
        UserError: a cell is neither yes nor no, a row is none of the study's, or nothing is filled in.
    """
    verdicts = {(a, b, c): credit for a, b, c, credit in json.loads(key.read_text(encoding="utf-8"))["verdicts"]}
    values: dict[str, list[float | None]] = {name: [] for name in _QUESTIONS}
    clusters: dict[str, list[str]] = {name: [] for name in _QUESTIONS}
    prompts, raters, pairs = set(), set(), set()
    for row in read_label_file(labels, COLUMNS):
        item = row["sample_id"], row["criterion"], row["response"]
        if item not in verdicts:
            raise UserError(f"{labels}: line {row['line']}: this criterion and image are not of the study {key.parent}")
        for name in _QUESTIONS:
            if (answer := choice(labels, row, name, YES_NO)) is None:
                continue
            credit = verdicts[item]
            if name == "label":
                answer = None if credit is None else float((credit >= 0.5) == (answer == 1))
            values[name].append(answer)
            clusters[name].append(row["sample_id"])
            prompts.add(row["sample_id"])
            pairs.add(item)
            raters.add(row["rater"])
    if not pairs:
        raise UserError(f"{labels}: nothing is filled in; write yes or no in {', '.join(_QUESTIONS)}")
    intervals = [mean_interval(values[name], clusters=clusters[name]) if values[name] else None for name in _QUESTIONS]
    return RubricReliability(
        prompts=len(prompts),
        pairs=len(pairs),
        raters=len(raters),
        consistency=intervals[0],
        hallucination=intervals[1],
        agreement=intervals[2],
    )
