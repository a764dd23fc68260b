"""Hours, GPUs and dollars of a large recaptioning, from the rates that a small one measured."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.ledger import read_ledger
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError

STAGE = "recaption"
RUBICAP_SOURCES = {"COCO118K": 118_000, "BLIP558K": 558_000, "CC3M": 2_824_000}
"""Images that RubiCap recaptions for pretraining (section 4.6): "approximately 3.5 million" together."""


class MeasuredRate(NamedTuple):
    """Figures of a finished recaptioning."""

    images: int
    images_per_second: float
    tokens_per_caption: float
    dollars_per_image: float
    """Price of the calls to endpoints."""


class PlannedSource(NamedTuple):
    """Estimate for one source."""

    name: str
    images: int
    gpu_hours: float
    hours: float
    dollars: float


def read_rate(run: Path) -> MeasuredRate:
    """Read the rate of a finished recaptioning.

    Raises:
        UserError: there is none in the folder, or it wrote no caption in its last attempt.
    """
    lines = read_ledger(run)
    if not lines:
        raise UserError(f"{run}: no recaptioning to take rates from; run one on a thousand images first")
    measured = [line for line in lines if line["stage"] == STAGE and line.get("images")]
    if not measured:
        raise UserError(f"{run}: no image was captioned here, so there is no rate; run `recaption` to a new --out")
    last = measured[-1]
    tokens, dollars, captions = 0, 0.0, 0
    for row in read_rows(run / STAGE, columns=["completion_tokens", "cost"]):
        tokens, dollars, captions = tokens + row["completion_tokens"], dollars + row["cost"], captions + 1
    return MeasuredRate(last["images"], last["images_per_second"], tokens / captions, dollars / captions)


def plan_recaption(
    rate: MeasuredRate,
    sources: Mapping[str, int] = RUBICAP_SOURCES,
    *,
    gpus: int,
    measured_on: int = 1,
    dollars_per_gpu_hour: float = 0.0,
) -> list[PlannedSource]:
    """Estimate each source, then all of them, at a rate that grows with the number of GPUs.

    Args:
        measured_on: GPUs, or servers, that the rate was measured on.
    """
    per_gpu = rate.images_per_second / measured_on
    plan = []
    for name, images in {**sources, "all": sum(sources.values())}.items():
        gpu_hours = images / per_gpu / 3_600
        dollars = gpu_hours * dollars_per_gpu_hour + images * rate.dollars_per_image
        plan.append(PlannedSource(name, images, gpu_hours, gpu_hours / gpus, dollars))
    return plan
