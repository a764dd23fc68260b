"""Rubric sets: the rubrics that a stage wrote, one per sample, with figures of their criteria in the training.

A set is a table `rubrics` of a run. A rubric of it can be edited, see `rubric_versions`; the approved version then
replaces the sample's. A scorecard names criteria by their titles alone: `find_rubric` gives what each of them weighs,
and what the judge reads of it.
"""

import asyncio
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.requests import describe_target
from rubricworks.platform_api.db.tables import CriterionCredits, RubricVersion, RunTable, Shard
from rubricworks.platform_api.pagination import PageRequest, numbered_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.rollouts import RolloutBody
from rubricworks.platform_api.schemas.rubrics import CriterionUseBody, RubricEntryBody, RubricSetBody
from rubricworks.platform_api.services.runs import list_tables, open_table, table_page
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import Row, UnreadableTable, parse_cell

KIND = "rubrics"
FIRST = 1
"""Number of the version that the stage wrote."""
_ORDER = {"never": 0, "always": 0, "varies": 1, "not graded": 2}
_CREDITS = (
    select(
        CriterionCredits.criterion,
        func.sum(CriterionCredits.graded).label("graded"),
        func.sum(CriterionCredits.total).label("total"),
        func.sum(CriterionCredits.squares).label("squares"),
        func.min(CriterionCredits.lowest).label("lowest"),
        func.max(CriterionCredits.highest).label("highest"),
    )
    .join(Shard, Shard.id == CriterionCredits.shard_id)
    .group_by(CriterionCredits.criterion)
)


class StageRubric(NamedTuple):
    """A rubric as its stage wrote it."""

    rubric: Rubric
    writer: str


class Versions(NamedTuple):
    """Edited versions of the rubrics of a set."""

    standing: dict[str, tuple[int, Rubric]]
    """Sample → its approved version and that rubric."""
    waiting: dict[str, int]
    """Sample → number of versions that wait for a review."""

    def rubric(self, table: RunTable, row: Row) -> Rubric:
        """Current rubric of a sample for which the stage wrote one."""
        edited = self.standing.get(row["sample_id"])
        return edited[1] if edited else written_rubric(table, row)


class MetWeight(NamedTuple):
    """Weight that the responses of a group have met, beside their rewards."""

    total: float
    """Sum of the positive weights: all that can be met."""
    met: list[float | None]
    """Sum of weight times credit of each response; None if a criterion of it could not be judged."""
    is_reward: bool
    """True if `met / total`, at least 0, is each reward; False where the training remaps, gates or corrects it."""


def written_rubric(table: RunTable, row: Row) -> Rubric:
    """The rubric in a row as the stage wrote it. Raises UnreadableTable if it is none."""
    where = f"{table.run}/{table.path}: the rubric of sample {row['sample_id']!r}"
    return parse_cell(where, Rubric.model_validate_json, row["rubric"])


async def list_sets(session: AsyncSession, asked: PageRequest, run: str | None = None) -> Page[RubricSetBody]:
    """Rubric sets, the last written first."""
    return await table_page(session, KIND, asked, set_body, run=run)


def set_body(table: RunTable) -> RubricSetBody:
    """A set as a list shows it."""
    return RubricSetBody(run=table.run, stage=table.path, rubrics=table.rows, modified=table.modified)


async def list_entries(
    session: AsyncSession, store: RunStore, table: RunTable, asked: PageRequest
) -> Page[RubricEntryBody]:
    """Rubrics of a set in the order of its table."""
    rows = await asyncio.to_thread(open_table(store, table).rows, asked.start, asked.limit)
    versions = await _versions(session, table, [row["sample_id"] for row in rows])
    entries = []
    for row in rows:
        sample = row["sample_id"]
        rubric = versions.rubric(table, row)
        entries.append(
            RubricEntryBody(
                sample_id=sample,
                criteria=len(rubric.criteria),
                weight=sum(rubric.weights),
                version=versions.standing[sample][0] if sample in versions.standing else FIRST,
                open=versions.waiting.get(sample, 0),
            )
        )
    return numbered_page(entries, asked, table.rows)


async def list_criteria(session: AsyncSession, store: RunStore, table: RunTable) -> list[CriterionUseBody]:
    """Criteria of a set: those that give no gradient first, then by the number of rubrics."""

    def read() -> dict[str, list[float]]:
        weights: defaultdict[str, list[float]] = defaultdict(list)
        for row in open_table(store, table):
            for criterion in written_rubric(table, row).criteria:
                weights[criterion.criterion].append(criterion.weight)
        return weights

    weights = await asyncio.to_thread(read)
    uses = {
        name: CriterionUseBody(
            criterion=name,
            rubrics=len(of_rubrics),
            weight=math.fsum(of_rubrics) / len(of_rubrics),
            graded=0,
            pass_rate=None,
            variance=None,
            state="not graded",
        )
        for name, of_rubrics in weights.items()
    }
    for credits in await session.execute(_CREDITS.where(Shard.run == table.run)):
        if (use := uses.get(credits.criterion)) is not None:
            mean = credits.total / credits.graded
            use.graded, use.pass_rate = credits.graded, mean
            use.variance = max(0.0, credits.squares / credits.graded - mean * mean)
            use.state = "always" if credits.lowest == 1 else "never" if credits.highest == 0 else "varies"
    return sorted(uses.values(), key=lambda use: (_ORDER[use.state], -use.rubrics, use.criterion))


async def stage_rubric(store: RunStore, table: RunTable, sample_id: str) -> StageRubric:
    """The rubric that the stage wrote for a sample.

    Raises:
        NotFound: the set has none for it.
    """
    row = await asyncio.to_thread(open_table(store, table).first_where, "sample_id", sample_id)
    if row is None:
        raise NotFound(f"{table.path} of {table.run} has no rubric of sample {sample_id!r}")
    return StageRubric(written_rubric(table, row), row["writer"])


async def export(session: AsyncSession, store: RunStore, table: RunTable) -> bytes:
    """The set as one Parquet file with current versions; `rubricworks grade` reads it."""
    versions = await _versions(session, table, None)

    def write() -> bytes:
        import pyarrow.parquet as pq

        from rubricworks.data.schemas import table_from_rows

        rows = list(open_table(store, table))
        for row in rows:
            if row["sample_id"] in versions.standing:
                row["rubric"] = versions.rubric(table, row).model_dump_json()
        buffer = io.BytesIO()
        pq.write_table(table_from_rows(KIND, rows), buffer)
        return buffer.getvalue()

    return await asyncio.to_thread(write)


async def standing_rubrics(session: AsyncSession, store: RunStore, table: RunTable) -> dict[str, Rubric]:
    """Sample → current rubric, in the order of the set."""
    versions = await _versions(session, table, None)

    def read() -> dict[str, Rubric]:
        return {row["sample_id"]: versions.rubric(table, row) for row in open_table(store, table)}

    return await asyncio.to_thread(read)


async def find_rubric(
    session: AsyncSession, store: RunStore, run: str, sample_id: str, titles: Sequence[str]
) -> Rubric | None:
    """Find the rubric of a run that has a sample's criteria in this order; None if no table of the run holds it."""
    for table in await list_tables(session, KIND, run=run):
        try:
            rubric = (await stage_rubric(store, table, sample_id)).rubric
        except (NotFound, UnreadableTable):  # a file that somebody wrote may hold what none may
            continue
        if [criterion.criterion for criterion in rubric.criteria] == list(titles):
            return rubric
    return None


def met_weight(rubric: Rubric, members: Sequence[RolloutBody]) -> MetWeight:
    """Weigh the credits of a group's responses."""
    total = math.fsum(weight for weight in rubric.weights if weight > 0)
    met: list[float | None] = []
    is_reward = True
    for member in members:
        credits = [verdict.credit for verdict in member.verdicts if verdict.credit is not None]
        if len(credits) != len(rubric.weights):
            met.append(None)
            continue
        met.append(math.fsum(weight * credit for weight, credit in zip(rubric.weights, credits, strict=True)))
        reward = signed_reward(credits, rubric.weights)
        is_reward &= member.reward is not None and math.isclose(member.reward, reward or 0.0, abs_tol=1e-5)
    return MetWeight(total, met, is_reward)


def judged_words(rubric: Rubric | None) -> dict[str, list[str]]:
    """Title → rule or reference that decides the criterion, as shown to the judge or verifier."""
    return {criterion.criterion: _words(criterion) for criterion in rubric.criteria} if rubric else {}


def _words(criterion: Criterion) -> list[str]:
    if criterion.verifier:
        return [f"Met if the response's value is this, by {criterion.verifier}: {describe_target(criterion.reference)}"]
    if criterion.reference:  # RLR³'s judge reads it in place of description and rule
        return [criterion.reference]
    return [text for text in (criterion.description, criterion.evaluation_rule) if text]


async def _versions(session: AsyncSession, table: RunTable, samples: Iterable[str] | None) -> Versions:
    query = (
        select(RubricVersion)
        .where(RubricVersion.run == table.run, RubricVersion.stage == table.path)
        .where(RubricVersion.state.in_(("approved", "proposed")))
        .order_by(RubricVersion.number)
    )
    if samples is not None:
        query = query.where(RubricVersion.sample_id.in_(list(samples)))
    versions = Versions({}, defaultdict(int))
    for version in await session.scalars(query):
        if version.state == "approved":
            versions.standing[version.sample_id] = (version.number, Rubric.model_validate(version.rubric))
        else:
            versions.waiting[version.sample_id] += 1
    return versions
