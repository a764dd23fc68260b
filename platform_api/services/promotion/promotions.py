"""Promotions: a request, another person's decision, the alias, a signed message, the consumer's confirmation.

    requested ──→ applying ──→ applied ──→ confirmed
        └──→ rejected    └──→ failed (the champion moved; nothing changed)

The gate is judged by code in the run's promote stage; a version that did not pass cannot be requested. The two-person
rule: who requested does not approve, but for models where the installation waives it. A promotion enters `applying` in
a transaction of its own, then the alias moves from the champion of the request and from no other, then the result, the
audit log's line and the message to the consumer are written together. A process killed in between leaves `applying`,
which `recover` ends by what the registry says; one that waits for the registry says every 20 seconds that it lives
(`decided_at`), and the model stays locked.

A rollback waits for nobody and begins in `applying`. A model has one open request, and a rollback ends those from
before it. So the changes of a model's alias have the order of their numbers, by which consumers know an old message.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol

from sqlalchemy import case, exists, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import Delivery, Promotion, Submission, utc_now
from rubricworks.platform_api.pagination import (
    FOREIGN_CURSOR,
    PageRequest,
    decode_cursor,
    encode_cursor,
    query_page,
)
from rubricworks.platform_api.problems import BadRequest, Conflict, NotFound, Problem
from rubricworks.platform_api.schemas.bodies import JsonObject, Page
from rubricworks.platform_api.schemas.promotions import PromotionBody
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal, waives_for_model
from rubricworks.platform_api.services.access.tokens import submitters_of
from rubricworks.tracking.gate import GateFinding

RECOVERED_AFTER = timedelta(minutes=2)
_RENEWED_EVERY = 20.0
"""Seconds after which a process that waits for the registry says again that it lives."""
_OPEN = ("requested", "applying")
_DONE = ("applied", "confirmed")
_log = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A registered version, as a decision about it needs it."""

    version: int
    digest: str
    gate: str
    waits: bool
    """True if it passed its gate against the current champion and waits for a decision."""
    findings: tuple[GateFinding, ...] = ()
    """Result of each rule of its gate."""
    run: str = ""
    """Run that registered it; empty if its tags do not say."""


class Standing(NamedTuple):
    """Aliases of a model, as `ModelBody` has them, and more of its versions for the page."""

    model: str
    champion: int | None
    previous: int | None
    challenger: Candidate | None
    promoted: Candidate | None = None
    """The champion with what its gate found, where there is no challenger."""
    newest: Candidate | None = None
    """The newest version, where it is newer than both: it did not pass its gate, or was registered by hand."""


class Registry(Protocol):
    """The model registry; its methods block."""

    def standings(self, limit: int, token: str | None) -> tuple[list[Standing], str | None]:
        """Models of a page with their aliases, and the token of the next page. Raises UserError for another's token."""

    def champion(self, model: str) -> int | None:
        """A model's champion; None if it has none, or there is no such model."""

    def standing(self, model: str) -> Standing:
        """Aliases of a model. Raises UserError if there is no such model."""

    def candidate(self, model: str, version: int) -> Candidate:
        """A version of a model. Raises NotFound if there is none."""

    def move(self, model: str, version: int, expected: int | None, decided_by: str) -> None:
        """Make a version the champion in place of the expected one. Raises UserError if another one is it."""


class Promotions:
    """Promotions of one registry.

    The last step of each change is written `within` the request's session, in which its answer is stored too; without
    one, in a session of its own.
    """

    def __init__(
        self, database: Database, registry: Registry, *, has_consumer: bool, self_approval: Sequence[str] = ()
    ) -> None:
        """Args: has_consumer: write a message for each change, see `webhooks`. self_approval: patterns of what one
        person alone may approve, see `self_approval`.
        """
        self._database, self._registry, self._has_consumer = database, registry, has_consumer
        self._self_approval = tuple(self_approval)

    def waives_second_person(self, model: str) -> bool:
        """Return True if who requested a promotion of the model may approve it too."""
        return waives_for_model(self._self_approval, model)

    async def standings(self, asked: PageRequest) -> Page[Standing]:
        """Models with their aliases, by name; a cursor holds the registry's own token.

        Raises:
            BadRequest: the token is not one of the registry.
        """
        token = str(decode_cursor(asked.cursor, str)[0]) if asked.cursor is not None else None
        try:
            standings, following = await asyncio.to_thread(self._registry.standings, asked.limit, token)
        except UserError as error:
            if token is None:
                raise
            raise BadRequest(FOREIGN_CURSOR) from error
        return Page(items=standings, next_cursor=encode_cursor(following) if following is not None else None)

    async def champion(self, model: str) -> int | None:
        """A model's champion; None if it has none, or there is no such model."""
        return await asyncio.to_thread(self._registry.champion, model)

    async def request(
        self, by: Principal, model: str, version: int, reason: str, within: AsyncSession | None = None
    ) -> Promotion:
        """Request that a version becomes the champion.

        Raises:
            NotFound: there is no such version.
            BadRequest: it did not pass its gate, passed against another champion than today's, or has no digest.
            Conflict: it is the champion already, or another request for the model is open.
        """
        candidate = await asyncio.to_thread(self._registry.candidate, model, version)
        standing = await asyncio.to_thread(self._registry.standing, model)
        if standing.champion == version:
            raise Conflict(f"{model} version {version} is the champion already")
        if not candidate.waits:
            raise BadRequest(
                f"{model} version {version} does not wait for a decision: "
                f"{candidate.gate or 'it was never held against a gate'}"
            )
        try:
            return await self._open(by, model, candidate, standing.champion, "promotion", reason, within)
        except IntegrityError as error:
            raise Conflict(f"another request for {model} is open; look at it first") from error

    async def roll_back(
        self,
        by: Principal,
        model: str,
        reason: str,
        within: AsyncSession | None = None,
        *,
        champion: int,
        resumed: bool = False,
    ) -> Promotion:
        """Restore the previous champion at once: an outage does not wait for a second person.

        Args:
            champion: the champion that is rolled back; the same rollback sent again meets another one, and does not
                go back to this one.
            resumed: the same request was begun before, and its service was killed; its rollback is ended, or answered.
        Raises:
            UserError: there is no such model.
            Conflict: there was no champion before, another one is the champion, or another decision is applied.
        """
        begun = await self._begun_rollback(by, model, reason, champion) if resumed else None
        if begun is not None and begun.state == "applying":
            return await self._move(by, begun, within)
        standing = await asyncio.to_thread(self._registry.standing, model)
        if standing.champion != champion:
            if begun is not None:
                return begun
            now = "it has no champion" if standing.champion is None else f"version {standing.champion} is the champion"
            raise Conflict(f"{model} version {champion} is not rolled back: {now} now")
        if standing.previous is None or standing.previous == standing.champion:
            raise Conflict(f"{model} has no champion before version {standing.champion} to go back to")
        candidate = await asyncio.to_thread(self._registry.candidate, model, standing.previous)
        try:
            promotion = await self._open(by, model, candidate, champion, "rollback", reason)
        except IntegrityError as error:
            raise _applying(model) from error
        return await self._move(by, promotion, within)

    async def approve(
        self,
        by: Principal,
        number: int,
        reason: str,
        within: AsyncSession | None = None,
        *,
        resumed: bool = False,
    ) -> Promotion:
        """Approve a request and move the alias.

        Args:
            resumed: the same approval was begun before, and its service was killed; it is ended, or answered.
        Raises:
            NotFound: there is no such promotion.
            Problem: the caller requested it, or submitted or resumed the run that did, and another person has to decide
                (403).
            Conflict: it is decided already, another decision on the model is being applied, or the champion moved.
        """
        async with self._database.session() as session:
            promotion = await get_promotion(session, number)
            requesters = await requesters_of(session, promotion)
        if resumed and (promotion.kind, promotion.decided_by, promotion.decision) == ("promotion", by.name, reason):
            if promotion.state == "applying":
                return await self._move(by, promotion, within)
            if promotion.state in _DONE:
                return promotion
        if by.name in requesters and not self.waives_second_person(promotion.model):
            raise Problem(
                403,
                "Forbidden",
                "who requested a promotion, or submitted or resumed its run, does not approve it; ask another approver",
            )
        try:
            async with self._database.session() as session:
                await self._enter(session, number, "requested", "applying", by, reason)
                promotion = await get_promotion(session, number)
        except IntegrityError as error:
            raise _applying(promotion.model) from error
        return await self._move(by, promotion, within)

    async def reject(self, by: Principal, number: int, reason: str, within: AsyncSession | None = None) -> Promotion:
        """Reject a request; the champion stays."""
        async with self._database.session(within) as session:
            await self._enter(session, number, "requested", "rejected", by, reason)
            promotion = await get_promotion(session, number)
            record(session, by, "promotion.reject", _subject(promotion), reason=reason)
        return promotion

    async def confirm(self, by: Principal, number: int, within: AsyncSession | None = None) -> Promotion:
        """Note that the consumer serves the version; a second time changes nothing.

        Raises:
            Conflict: the alias has not moved to this version.
        """
        async with self._database.session(within) as session:
            promotion = await get_promotion(session, number)
            if promotion.state == "confirmed":
                return promotion
            changed = await session.scalar(
                update(Promotion)
                .where(Promotion.id == number, Promotion.state == "applied")
                .values(state="confirmed", confirmed_by=by.name, confirmed_at=utc_now())
                .returning(Promotion.id)
            )
            if changed is None:
                raise Conflict(f"promotion {number} is {promotion.state}; only an applied one is confirmed")
            await session.refresh(promotion)
            record(session, by, f"{promotion.kind}.confirm", _subject(promotion))
        return promotion

    async def recover(self, after: timedelta | None = None) -> None:
        """Complete promotions left in `applying`, according to the registry.

        Args:
            after: time in which the process that applies one is left alone, by default `RECOVERED_AFTER`.
        """
        async with self._database.session() as session:
            before = utc_now() - (RECOVERED_AFTER if after is None else after)
            is_left = (Promotion.state == "applying") & (Promotion.decided_at < before)
            left = (await session.scalars(select(Promotion).where(is_left))).all()
        for promotion in left:
            by = Principal(promotion.decided_by or promotion.requested_by, "approver")
            reason = "the service was stopped before the alias moved; request it again"
            try:
                await self._end_by_registry(by, promotion, reason)
            except UserError as error:
                _log.warning("promotion %d cannot be ended yet: %s", promotion.id, error)

    async def _open(
        self,
        by: Principal,
        model: str,
        candidate: Candidate,
        champion: int | None,
        kind: str,
        reason: str,
        within: AsyncSession | None = None,
    ) -> Promotion:
        """Store a request, which waits for a decision, or a rollback, which needs none.

        Raises:
            IntegrityError: another one was written at the same moment.
        """
        state: JsonObject = {"state": "requested"}
        if kind == "rollback":
            state = {"state": "applying", "decided_by": by.name, "decided_at": utc_now(), "decision": reason}
        async with self._database.session(within) as session:
            query = select(Promotion).where(Promotion.model == model, Promotion.state.in_(_OPEN)).limit(1)
            if (other := await session.scalar(query)) is not None and kind == "promotion":
                raise Conflict(f"{model} version {other.version} is {other.state} already (promotion {other.id})")
            promotion = Promotion(
                model=model,
                version=candidate.version,
                digest=candidate.digest,
                run=candidate.run[:200] or None,
                kind=kind,
                champion=champion,
                gate=candidate.gate,
                findings=[finding.model_dump(mode="json") for finding in candidate.findings],
                reason=reason,
                requested_by=by.name,
                **state,
            )
            session.add(promotion)
            await session.flush()
            record(session, by, f"{kind}.request", _subject(promotion), reason=reason)
        return promotion

    async def _begun_rollback(self, by: Principal, model: str, reason: str, champion: int) -> Promotion | None:
        """The caller's last rollback of a champion that is being applied, or was."""
        is_same = (Promotion.model == model) & (Promotion.champion == champion) & (Promotion.reason == reason)
        is_own = (Promotion.kind == "rollback") & (Promotion.requested_by == by.name)
        query = select(Promotion).where(is_same, is_own, Promotion.state.in_(("applying", *_DONE)))
        async with self._database.session() as session:
            begun: Promotion | None = await session.scalar(query.order_by(Promotion.id.desc()).limit(1))
        return begun

    async def _move(self, by: Principal, promotion: Promotion, within: AsyncSession | None) -> Promotion:
        """Move the alias of a promotion in `applying`, and complete it.

        Raises:
            Problem: the registry does not answer (503).
            Conflict: another version is the champion, or the promotion was given up meanwhile and another one decided.
        """
        asked = (promotion.model, promotion.version, promotion.champion, by.name)
        moving = asyncio.create_task(asyncio.to_thread(self._registry.move, *asked))
        try:
            while not (await asyncio.wait({moving}, timeout=_RENEWED_EVERY))[0]:
                await self._renew(promotion.id)
            moving.result()
        except UserError as error:
            # It may have failed before the alias moved, or after.
            try:
                ended = await self._end_by_registry(by, promotion, str(error), within)
            except UserError as unknown:
                raise Problem(
                    503, "Registry unavailable", f"{unknown}; promotion {promotion.id} is ended once it answers"
                ) from error
            if ended.state == "failed":
                raise Conflict(str(error)) from error
            return ended
        ended = await self._finish(by, promotion.id, within)
        if ended.state == "failed":
            if within is not None:  # the requests that it ended stay ended
                await within.commit()
            raise Conflict(
                f"promotion {ended.id} was given up while the registry did not answer, and another one was decided; "
                f"the alias of {ended.model} moved all the same: look at it"
            )
        return ended

    async def _renew(self, number: int) -> None:
        """Say that this process still waits for the registry; see `recover`."""
        is_applying = (Promotion.id == number) & (Promotion.state == "applying")
        try:
            async with self._database.session() as session:
                await session.execute(update(Promotion).where(is_applying).values(decided_at=utc_now()))
        except SQLAlchemyError as error:
            _log.warning("promotion %d is not held: %s", number, describe_fault(error))

    async def _end_by_registry(
        self, by: Principal, promotion: Promotion, reason: str, within: AsyncSession | None = None
    ) -> Promotion:
        """Complete a promotion in `applying` according to the alias.

        Raises:
            UserError: the registry does not answer.
        """
        standing = await asyncio.to_thread(self._registry.standing, promotion.model)
        if standing.champion == promotion.version:
            return await self._finish(by, promotion.id, within)
        return await self._give_up(by, promotion.id, reason)

    async def _finish(self, by: Principal, number: int, within: AsyncSession | None) -> Promotion:
        """Note that the alias has moved, also after `recover` gave the promotion up, unless a later one was decided."""
        async with self._database.session(within) as session:
            # The requests first: who approves one meanwhile locks it before it meets the promotion that is applied.
            await self._end_requests_before(session, by, number)
            later = aliased(Promotion)
            is_later = (later.model == Promotion.model) & (later.id > number)
            is_decided = later.state.in_(("applying", "applied", "confirmed"))
            is_late = (Promotion.state == "failed") & ~exists().where(is_later, is_decided)
            changed = update(Promotion).where(Promotion.id == number, (Promotion.state == "applying") | is_late)
            decision = case((Promotion.state == "failed", "the alias moved late"), else_=Promotion.decision)
            changed = changed.values(state="applied", decision=decision)
            is_changed = await session.scalar(changed.returning(Promotion.id)) is not None
            promotion = await get_promotion(session, number)
            if not is_changed:
                return promotion
            details: JsonObject = {"champion": promotion.champion}
            if promotion.kind == "promotion" and promotion.decided_by in await requesters_of(session, promotion):
                details["self_approved"] = True
            record(session, by, f"{promotion.kind}.apply", _subject(promotion), **details)
            if self._has_consumer:
                session.add(Delivery(promotion_id=number, body=json.dumps(_message(promotion), sort_keys=True)))
        return promotion

    async def _give_up(self, by: Principal, number: int, reason: str) -> Promotion:
        async with self._database.session() as session:
            # Another process may have ended it, which has written the audit log too.
            is_applying = (Promotion.id == number) & (Promotion.state == "applying")
            changed = update(Promotion).where(is_applying).values(state="failed", decision=reason)
            is_changed = await session.scalar(changed.returning(Promotion.id)) is not None
            promotion = await get_promotion(session, number)
            if is_changed:
                record(session, by, f"{promotion.kind}.fail", _subject(promotion), reason=reason)
        return promotion

    async def _end_requests_before(self, session: AsyncSession, by: Principal, number: int) -> None:
        """End the open requests that are older than a rollback: they were judged against what it takes back."""
        rollback = aliased(Promotion)
        is_before = (rollback.model == Promotion.model) & (rollback.id > Promotion.id)
        is_ending = (rollback.id == number) & (rollback.kind == "rollback") & rollback.state.in_(("applying", "failed"))
        is_open = (Promotion.state == "requested") & exists().where(is_before, is_ending)
        rolled_back = await get_promotion(session, number)
        reason = f"version {rolled_back.champion} was rolled back after this request; request it again"
        values = {"state": "failed", "decided_by": by.name, "decided_at": utc_now(), "decision": reason}
        ended = update(Promotion).where(is_open).values(values).returning(Promotion)
        for request in await session.scalars(ended, execution_options={"synchronize_session": False}):
            record(session, by, f"{request.kind}.fail", _subject(request), reason=reason)

    async def _enter(
        self, session: AsyncSession, number: int, before: str, after: str, by: Principal, reason: str
    ) -> None:
        changed = await session.scalar(
            update(Promotion)
            .where(Promotion.id == number, Promotion.state == before)
            .values(state=after, decided_by=by.name, decided_at=utc_now(), decision=reason)
            .returning(Promotion.id)
        )
        if changed is None:
            promotion = await get_promotion(session, number)
            raise Conflict(f"promotion {number} is {promotion.state} already")


async def get_promotion(session: AsyncSession, number: int) -> Promotion:
    """A promotion.

    Raises:
        NotFound: there is none of that number.
    """
    promotion = await session.get(Promotion, number, populate_existing=True)
    if promotion is None:
        raise NotFound(f"there is no promotion {number}")
    return promotion


async def requesters_of(session: AsyncSession, promotion: Promotion) -> set[str]:
    """People who may not approve a promotion as second person: its requester, and the submitters and resumers of its
    run.

    Runs on Kubeflow request with one token, so the run is known by its name, too.
    """
    people = {promotion.requested_by, *await submitters_of(session, promotion.requested_by)}
    if promotion.run is not None:
        people |= set(await session.scalars(select(Submission.submitted_by).where(Submission.run == promotion.run)))
    return people


async def list_promotions(
    session: AsyncSession, asked: PageRequest, *, model: str | None = None, state: str | None = None
) -> Page[PromotionBody]:
    """Promotions, the newest first."""
    query = select(Promotion)
    if model is not None:
        query = query.where(Promotion.model == model)
    if state is not None:
        query = query.where(Promotion.state == state)
    return await query_page(session, query, (Promotion.id,), asked, PromotionBody.model_validate)


async def open_requests(session: AsyncSession, models: Collection[str]) -> dict[str, int]:
    """Models with an undecided request → its number."""
    is_open = (Promotion.state.in_(_OPEN), Promotion.kind == "promotion", Promotion.model.in_(models))
    return {row.model: row.id for row in await session.execute(select(Promotion.model, Promotion.id).where(*is_open))}


def _applying(model: str) -> Conflict:
    return Conflict(f"another decision on {model} is being applied; look at it first")


def _subject(promotion: Promotion) -> str:
    return f"{promotion.model}/{promotion.version}"


def _message(promotion: Promotion) -> JsonObject:
    return {
        "promotion": promotion.id,
        "kind": promotion.kind,
        "model": promotion.model,
        "version": promotion.version,
        "digest": promotion.digest,
        "before": promotion.champion,
        "confirm": f"/api/v1/promotions/{promotion.id}/confirm",
    }
