"""Verdicts of single judges, read from a run's tables, so that two judges of one response can be set side by side.

A table of scorecards has one card a response, and so has the evidence of the scorer `rubric` in a table of scores. A
card of several judges has one vote of each in every verdict, and the reason of one that agrees with the result. What
another judge gave as its reason is read from its raw answer; where that is no plain judgment, the table has none.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.agreement.ratings import normalise_text
from rubricworks.grading.prompts import ContinuousJudgment
from rubricworks.llm.answers import parse_json
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.recent_values import remember
from rubricworks.platform_api.services.runs import get_table, open_table
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import parse_cell

SCORECARDS, SCORES = "scorecards", "scores"
"""Kinds of tables with verdicts."""
_COLUMNS = {SCORECARDS: ["scorecard"], SCORES: ["scorer", "evidence"]}
_SCORER = "rubric"
_JOINED = " + "
_MOST_ROWS = 20_000
"""Rows of a table that are looked at, in its order: a training has a million, and a person judges some dozens."""
_MOST_RESPONSES = 2_000
"""Responses of a table that are kept, those with the lowest digests: of two tables with the same ones, the same."""
_MAX_NAME = 300
_NAME = re.compile(r"(?P<judge>.+) in (?P<run>[^/]+)/(?P<stage>[\w-]+)", re.DOTALL)


class Card(NamedTuple):
    """A scorecard as its table has it."""

    text: str
    voter: int | None
    """Index of the judge among the voters; None for the joint decision."""


class _Verdict(BaseModel, extra="ignore", allow_inf_nan=False):
    """A verdict of a stored scorecard."""

    criterion: str
    credit: float | None = None
    reasoning: str | None = None
    error: str | None = None
    votes: list[float | None] | None = None
    """Votes of the judges, or of one judge's draws."""


class _ImageResponse(BaseModel, extra="ignore"):
    digest: str
    media_type: str


class _Scorecard(BaseModel, extra="ignore"):
    """Fields of a stored scorecard that are read."""

    sample_id: str
    response: str | _ImageResponse
    judge: str
    verdicts: list[_Verdict]
    raw: list[str] | None = None

    @property
    def response_text(self) -> str:
        """The response, or the digest of an image."""
        return self.response if isinstance(self.response, str) else self.response.digest


class JudgeVerdict(NamedTuple):
    """A judge's verdict on one criterion."""

    credit: float | None
    """None if the judge failed."""
    reason: str
    """The judge's words, or the error; empty where the table has none."""


class JudgedResponse(NamedTuple):
    """A response with a judge's verdict on each criterion."""

    sample_id: str
    response: str
    """The text, or an image's digest."""
    response_type: str | None
    verdicts: Mapping[str, JudgeVerdict]


class Judge(NamedTuple):
    """A judge of a table, with its scorecards by the keys of their responses."""

    name: str
    table: RunTable
    cards: Mapping[str, Card]

    @property
    def stage(self) -> str:
        """Stage that wrote the table."""
        return self.table.path.partition("/")[0]


def response_key(sample_id: str, response: str) -> str:
    """Digest of sample and text (or image), by which two tables have the same response."""
    return hashlib.sha256(json.dumps([normalise_text(sample_id), normalise_text(response)]).encode()).hexdigest()


async def find_judge(session: AsyncSession, store: RunStore, name: str) -> Judge:
    """A judge by its name, `JUDGE in RUN/STAGE`.

    Raises:
        NotFound: there is no such table, or it has no verdict of such a judge.
    """
    match = _NAME.fullmatch(name)
    table = await find_table(session, match["run"], match["stage"]) if match else None
    if match is None or table is None:
        raise NotFound(f"there is no judge {name!r}; name it as `JUDGE in RUN/STAGE`, with a stage that graded")
    judges = await judges_of(store, table)
    if match["judge"] not in judges:
        raise NotFound(f"{match['run']}/{match['stage']} has no judge {match['judge']!r}; it has {', '.join(judges)}")
    return Judge(name, table, judges[match["judge"]])


async def list_judges(store: RunStore, tables: list[RunTable]) -> dict[str, int]:
    """Name of each judge of some tables, and the number of its responses."""
    judges = {}
    for table in tables:
        stage = table.path.partition("/")[0]
        for judge, cards in (await judges_of(store, table)).items():
            name = f"{judge} in {table.run}/{stage}"
            if len(name) <= _MAX_NAME:
                judges[name] = len(cards)
    return judges


def has_verdicts(table: RunTable) -> bool:
    """Return True if a table may have verdicts of judges, where `find_judge` looks for them."""
    stage, _, rest = table.path.partition("/")
    return bool(stage) and (table.kind, rest) in ((SCORECARDS, "scorecards"), (SCORES, ""))


def read_card(card: Card) -> JudgedResponse:
    """A judge's part of a scorecard."""
    content = _Scorecard.model_validate_json(card.text)
    reasons = _own_reasons(content, card.voter) if card.voter is not None else {}
    return JudgedResponse(
        content.sample_id,
        content.response_text,
        None if isinstance(content.response, str) else content.response.media_type,
        {
            verdict.criterion: JudgeVerdict(verdict.credit, verdict.reasoning or verdict.error or "")
            if card.voter is None
            else _vote(verdict, card.voter, reasons.get(at))
            for at, verdict in enumerate(content.verdicts)
        },
    )


async def find_table(session: AsyncSession, run: str, stage: str) -> RunTable | None:
    """The table in which a stage's judges left their verdicts; None if it has none."""
    for path, kind in ((f"{stage}/scorecards", SCORECARDS), (stage, SCORES)):
        table = await session.get(RunTable, (run, path))
        if table is not None and table.kind == kind:
            return table
    return None


async def verdict_table(session: AsyncSession, run: str, stage: str) -> RunTable:
    """As `find_table`.

    Raises:
        NotFound: the stage has none.
    """
    table = await find_table(session, run, stage)
    return table or await get_table(session, run, f"{stage}/scorecards", SCORECARDS)


async def judges_of(store: RunStore, table: RunTable) -> dict[str, dict[str, Card]]:
    """Judge → key of a response → its first scorecard."""
    return await remember(_read, (store.uri, table.run, table.path, table.modified), store, table)


def _read(store: RunStore, table: RunTable) -> dict[str, dict[str, Card]]:
    texts: dict[str, dict[str, Card]] = {}
    for text in _card_texts(store, table):
        content = parse_cell(f"{table.run}/{table.path}: a scorecard", _Scorecard.model_validate_json, text)
        key = response_key(content.sample_id, content.response_text)
        cards = texts.setdefault(key, {})
        places: list[tuple[int | None, str]] = [*enumerate(_voters(content)), (None, content.judge)]
        for voter, name in places:
            cards.setdefault(name, Card(text, voter))
        if len(texts) >= 2 * _MOST_RESPONSES:
            texts = _lowest(texts)
    judges: dict[str, dict[str, Card]] = {}
    for key, cards in _lowest(texts).items():
        for name, card in cards.items():
            judges.setdefault(name, {})[key] = card
    return judges


def _lowest(texts: dict[str, dict[str, Card]]) -> dict[str, dict[str, Card]]:
    return {key: texts[key] for key in sorted(texts)[:_MOST_RESPONSES]}


def _card_texts(store: RunStore, table: RunTable) -> Iterator[str]:
    stored, rows = open_table(store, table), 0
    for shard, file in zip(stored.shards, stored.files(), strict=True):
        if rows >= _MOST_ROWS:
            return
        columns = file.columns(_COLUMNS[table.kind]).to_pydict()
        if table.kind == SCORES:
            of_rubrics = zip(columns["scorer"], columns["evidence"], strict=True)
            yield from (text for scorer, text in of_rubrics if scorer == _SCORER and text)
        else:
            yield from columns["scorecard"]
        rows += shard.rows


def _voters(content: _Scorecard) -> list[str]:
    """Names of the judges that voted on a card; empty for one judge, whose votes are repeated draws."""
    names = content.judge.split(_JOINED)
    votes = {len(verdict.votes or ()) for verdict in content.verdicts}
    if len(names) < 2 or votes != {len(names)} or len(content.raw or ()) % len(names):
        return []
    return [f"{name} #{at}" if names.count(name) > 1 else name for at, name in enumerate(names, 1)]


def _vote(verdict: _Verdict, voter: int, own: str | None) -> JudgeVerdict:
    votes = verdict.votes or []
    if votes[voter] is None:
        return JudgeVerdict(None, "the judge failed")
    if own is None and verdict.credit is not None and verdict.credit in votes and votes.index(verdict.credit) == voter:
        own = verdict.reasoning  # the result has the words of the first who gave it
    return JudgeVerdict(votes[voter], own or "")


def _own_reasons(content: _Scorecard, voter: int) -> dict[int, str]:
    """Reasons in a judge's raw answers, by the number of their criterion; none where they are no plain judgments."""
    raw, count = content.raw or [], len(content.verdicts)
    calls = len(raw) // len(content.judge.split(_JOINED))
    reasons: dict[int, str] = {}
    for at, text in enumerate(raw[voter * calls : (voter + 1) * calls]):
        try:
            told = {verdict.id - 1: verdict.reasoning for verdict in parse_json(text, ContinuousJudgment).verdicts}
        except (ValueError, TypeError):
            continue
        if calls == 1:
            reasons |= told
        elif calls == count and 0 in told:  # a call for each criterion
            reasons[at] = told[0]
    return reasons
