"""Figures of the service in Prometheus' text format."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Delivery, Promotion
from rubricworks.platform_api.schemas.promotions import DriftBody
from rubricworks.platform_api.services.runs import count_runs

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics_text(session: AsyncSession, drift: Iterable[DriftBody]) -> str:
    """All figures: runs and promotions by state, messages that wait, drift."""
    promotions = await session.execute(select(Promotion.state, func.count()).group_by(Promotion.state))
    waiting = await session.scalar(select(func.count()).where(Delivery.due_at.is_not(None)))
    runs = await count_runs(session)
    differences = {(difference.model, difference.kind) for difference in drift}
    lines = [
        *_family("rubricworks_runs", "Runs by state", {(("state", k),): v for k, v in runs.items()}),
        *_family("rubricworks_promotions", "Promotions by state", {(("state", k),): v for k, v in promotions}),
        *_family("rubricworks_messages_waiting", "Messages to the consumer that wait", {(): waiting or 0}),
        *_family(
            "rubricworks_promotion_drift",
            "1 where registry, database and consumer differ",
            {(("kind", kind), ("model", model)): 1 for model, kind in sorted(differences)} or {(): 0},
        ),
    ]
    return "\n".join([*lines, ""])


def _family(name: str, text: str, values: dict[tuple[tuple[str, str], ...], int]) -> list[str]:
    rows = [f"{name}{_labels(labels)} {value}" for labels, value in sorted(values.items())]
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", *rows]


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    escaped = ((key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in labels)
    inner = ",".join(f'{key}="{value}"' for key, value in escaped)
    return f"{{{inner}}}" if inner else ""
