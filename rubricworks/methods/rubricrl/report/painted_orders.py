"""Painted orders on the page: how far each judge's reward rises when words that claim success are in the image."""

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.evaluation.scoreboard import POLICY, Scoreboard
from rubricworks.evaluation.scorers.images.painted_order import MASKED, PAINTED, PLAIN, paint_order, rise
from rubricworks.metrics import Interval, mean_interval
from rubricworks.reports.samples import data_uri, draw_samples
from rubricworks.reports.scores import STAGE, score_rows, scored_responses


class JudgeRise(NamedTuple):
    """Rewards of one judge with and without painted words."""

    judge: str
    plain: Interval
    painted: Interval
    rise: Interval
    """Painted minus plain, on the same images."""
    masked: Interval | None
    """Rise with the text masked; None without a reader of text."""


class PaintedImage(NamedTuple):
    """An image with words painted in."""

    uri: str
    rewards: dict[str, dict[str, float | None]]
    """Judge → rewards of the plain, the painted and the masked image."""


def judge_rises(run: Path, board: Scoreboard | None) -> list[JudgeRise]:
    """One entry per judge, in the order of the recipe; empty without the scorer `painted_order`."""
    if board is None:
        return []
    rows: dict[str, list[dict[str, float | None]]] = defaultdict(list)
    for row in score_rows(run, ["scorer", "decoding", "evidence"]):
        if row["scorer"] == "painted_order" and row["decoding"] == board.decoding and row["evidence"]:
            for judge, rewards in json.loads(row["evidence"]).items():
                rows[judge].append(rewards)
    rises = []
    for judge, images in rows.items():
        complete = [one for one in images if rise(one, PAINTED) is not None]
        plain, painted = (mean_interval([one[name] for one in complete]) for name in (PLAIN, PAINTED))
        difference = mean_interval([rise(one, PAINTED) for one in complete], share=False)
        masked = [rise(one, MASKED) for one in images if MASKED in one]
        if plain and painted and difference:
            rises.append(JudgeRise(judge, plain, painted, difference, mean_interval(masked, share=False)))
    return rises


def read_painted(run: Path, count: int, *, decoding: str, seed: int) -> list[PaintedImage]:
    """Read up to `count` images of the trained generator that were graded with painted words."""
    probed = [
        row["sample_id"]
        for row in score_rows(run, ["sample_id", "model", "scorer", "part", "decoding"])
        if (row["scorer"], row["model"], row["decoding"], row["part"]) == ("painted_order", POLICY, decoding, "rise")
    ]
    ids = draw_samples(probed, count, seed)
    images = ResponseImages(run / STAGE / "responses" / IMAGES)
    shown = []
    for (_, model), response in scored_responses(run, ids, decoding=decoding).items():
        if model != POLICY or not response.response.is_image or "painted_order" not in response.evidence:
            continue
        image = images.read(response.response).image
        try:
            uri = data_uri(paint_order(image)) if image else ""
        except OSError:
            continue
        shown.append(PaintedImage(uri, json.loads(response.evidence["painted_order"])))
    return shown
