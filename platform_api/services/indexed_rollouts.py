"""Rollouts of a shard as the index has them: numbers and credits, without texts."""

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.platform_api.schemas.rollouts import StoredCard
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.runs.tables import TableFile, UnreadableTable, parse_cell
from rubricworks.storage.plain_json import plain_text

if TYPE_CHECKING:
    import pyarrow as pa

_ROLLOUT_COLUMNS = ["step", "sample_id", "response", "reward", "advantage", "tokens"]
_log = logging.getLogger(__name__)


class Credits(NamedTuple):
    """Criteria of a scorecard, and the credit of each."""

    names: list[str]
    credits: list[float | None]


class IndexedRollout(NamedTuple):
    step: int
    sample_id: str
    reward: float | None
    advantage: float | None
    tokens: int
    card: Credits | None
    """None if nothing was graded."""


def read_shard(
    store: RunStore, run: str, stage: str, number: int, file: StoredFile, *, is_graded: bool
) -> list[IndexedRollout] | None:
    """Numbers of a shard's rollouts with the credits of their scorecards; None if it is gone or no Parquet."""
    try:
        rollouts = TableFile(store, run, shard_path(stage, "rollouts", number), file, kind="rollouts").columns(
            _ROLLOUT_COLUMNS
        )
    except UnreadableTable as error:
        _log.warning("%s", error)
        return None
    graded: defaultdict[tuple[int, str, str], list[Credits]] = defaultdict(list)
    try:
        for place, credits in _scorecards(store, run, stage, number, file) if is_graded else ():
            graded[place].append(credits)
    except UnreadableTable as error:
        _log.warning("%s", error)
        graded.clear()
    rows = []
    for step, sample_id, response, reward, advantage, tokens in _values(rollouts, _ROLLOUT_COLUMNS):
        cards = graded[step, sample_id, response]
        # Equal responses of a group have a scorecard each, in their order.
        card = (cards.pop(0) if len(cards) > 1 else cards[0]) if cards else None
        rows.append(IndexedRollout(step, sample_id, reward, advantage, tokens, card))
    return rows


def _scorecards(
    store: RunStore, run: str, stage: str, number: int, file: StoredFile
) -> Iterator[tuple[tuple[int, str, str], Credits]]:
    columns = ["step", "sample_id", "response", "scorecard"]
    table = TableFile(store, run, shard_path(stage, "scorecards", number), file, kind="scorecards")
    for step, sample_id, response, written in _values(table.columns(columns), columns):
        card = parse_cell(f"{table.name}: sample {sample_id!r}", StoredCard.model_validate_json, written)
        names = [plain_text(verdict.criterion) for verdict in card.verdicts]
        yield (step, sample_id, response), Credits(names, [verdict.credit for verdict in card.verdicts])


def _values(table: "pa.Table", columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def shard_path(stage: str, table: str, number: int) -> str:
    return f"{stage}/{table}/part-{number:05}.parquet"


def names_digest(names: list[str]) -> str:
    """Digest of criteria, as in the index."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
