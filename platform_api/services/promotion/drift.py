"""Reconciler: compares the registry's alias, this database's last promotion, and the version that the consumer reports.

A look ends promotions that were left in `applying`, and finds drift: an alias that somebody moved past the API, a
version that no consumer confirmed in time or that it was never told of, a consumer that serves another one. Drift is
told (on the page of promotions, by /readyz and /metrics, in the log) and never mended by itself. It also notes which
runs' models are champions, for lists of runs.
"""

import asyncio
import contextlib
import json
import logging
from datetime import timedelta

import aiohttp
from sqlalchemy import false, func, not_, select, update
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.data.downloads.hosts import FetchRefused
from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import Delivery, Promotion, Run, utc_now
from rubricworks.platform_api.schemas.promotions import DriftBody
from rubricworks.platform_api.services.promotion.consumer import ConsumerAddress
from rubricworks.platform_api.services.promotion.promotions import Promotions
from rubricworks.redaction import foreign_line

_LONGEST_ANSWER = 1 << 20
_MOST_MODELS = 200
_CONFIRMED_WITHIN = timedelta(minutes=15)
_log = logging.getLogger(__name__)


class Reconciler:
    """Looks for drift of one installation."""

    def __init__(self, database: Database, promotions: Promotions, consumer: ConsumerAddress | None) -> None:
        """
        Args:
            consumer: the consumer, which is asked what it serves.
        """
        self._database, self._promotions, self._consumer = database, promotions, consumer
        self.drift: tuple[DriftBody, ...] = ()

    async def follow(self, seconds: float) -> None:
        """Look again and again, until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(self._consumer.client()) if self._consumer else None
            while True:
                try:
                    await self._promotions.recover()
                    await self.look(http)
                    await self.note_champions()
                except SQLAlchemyError as error:
                    _log.warning("drift could not be looked for: %s", describe_fault(error))
                except Exception:  # the next look must come
                    _log.exception("looking for drift failed")
                await asyncio.sleep(seconds)

    async def look(self, http: aiohttp.ClientSession | None) -> tuple[DriftBody, ...]:
        """Look once; return what was found.

        Args:
            http: the consumer's client; None without a consumer.
        """
        async with self._database.session() as session:
            done = Promotion.state.in_(("applied", "confirmed"))
            newest = select(func.max(Promotion.id)).where(done).group_by(Promotion.model)
            rows = (
                await session.scalars(select(Promotion).where(Promotion.id.in_(newest)).order_by(Promotion.id))
            ).all()
            given_up = set(
                await session.scalars(
                    select(Delivery.promotion_id).where(Delivery.due_at.is_(None), Delivery.delivered_at.is_(None))
                )
            )
        last = {promotion.model: promotion for promotion in rows}
        drift: list[DriftBody] = []
        try:
            for model, promotion in last.items():
                champion = await self._promotions.champion(model)
                if champion != promotion.version and await self._is_settled(promotion):
                    drift.append(DriftBody(model=model, kind="alias", text=_moved(champion, promotion)))
        except UserError as error:
            drift = [DriftBody(model="", kind="registry", text=f"the registry does not answer: {error}")]
        if http is not None:
            serving = await self._serving(http) if last else {}
            told = (_consumer_drift(promotion, serving, given_up) for promotion in last.values())
            drift += [
                DriftBody(model=model, kind="consumer", text=text)
                for model, text in zip(last, told, strict=True)
                if text
            ]
        if tuple(drift) != self.drift:
            for difference in drift:
                _log.warning("drift of %s: %s", difference.model or "all models", difference.text)
        self.drift = tuple(drift)
        return self.drift

    async def note_champions(self) -> None:
        """Write into the rows of runs whose model is the champion, of models that runs of the index registered."""
        async with self._database.session() as session:
            query = select(Run.model).where(Run.model.is_not(None)).distinct().order_by(Run.model)
            models = [model for model in await session.scalars(query.limit(_MOST_MODELS)) if model]
        try:
            champions = {model: await self._promotions.champion(model) for model in models}
        except UserError:  # drift tells that the registry is away
            return
        async with self._database.session() as session:
            for model, version in champions.items():
                is_champion = (Run.version == version) if version is not None else false()
                was = update(Run).where(Run.model == model, Run.champion.is_not(None), not_(is_champion))
                await session.execute(was.values(champion=None))
                if version is not None:
                    now = update(Run).where(Run.model == model, is_champion, Run.champion.is_(None))
                    await session.execute(now.values(champion=f"{model} {version}"))

    async def _is_settled(self, last: Promotion) -> bool:
        """Return True unless a promotion of the model moves the alias, or has moved it since it was looked up."""
        async with self._database.session() as session:
            states = ("applying", "applied", "confirmed")
            query = select(Promotion.id).where(Promotion.model == last.model, Promotion.state.in_(states))
            return await session.scalar(query.order_by(Promotion.id.desc()).limit(1)) == last.id

    async def _serving(self, http: aiohttp.ClientSession) -> dict[str, object]:
        """Model → version, as the consumer says; empty for one that does not say."""
        assert self._consumer is not None
        try:
            async with http.get(self._consumer.url, allow_redirects=False) as answer:
                content = json.loads(await _read(answer)) if answer.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError, FetchRefused):
            return {}
        serving = content.get("serving") if isinstance(content, dict) else None
        return serving if isinstance(serving, dict) else {}


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """Body of an answer.

    Raises:
        ValueError: it has no end.
    """
    body = bytearray()
    async for part in answer.content.iter_chunked(1 << 16):
        body += part
        if len(body) > _LONGEST_ANSWER:
            answer.close()
            raise ValueError("too long")
    return bytes(body)


def _moved(now: int | None, last: Promotion) -> str:
    return f"the alias is at version {now}, and the last promotion made it {last.version}"


def _consumer_drift(promotion: Promotion, serving: dict[str, object], given_up: set[int]) -> str:
    version, told = promotion.version, promotion.decided_at or promotion.requested_at
    if promotion.state == "confirmed":
        if (says := serving.get(promotion.model, version)) != version:
            return f"the consumer says that it serves version {foreign_line(says, 50)}, not {version}"
    elif promotion.id in given_up:
        return f"the message about version {version} was never received"
    elif utc_now() - told > _CONFIRMED_WITHIN:
        return f"no consumer has confirmed version {version} since {told:%Y-%m-%d %H:%M}"
    return ""
