"""Labels of people in place: credits for the criteria of a response, given without the judge's verdicts in sight.

They are the labels of `rubricworks agreement`: its CSV goes in and out, and its table compares them with the judges.
"""

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.grading.agreement.labels import human_ratings, read_labels
from rubricworks.grading.agreement.ratings import Item, Ratings, normalise_text, read_judges
from rubricworks.grading.agreement.report import AgreementReport, report_agreement
from rubricworks.platform_api.db.tables import Label, Rollout, RunTable
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.judgements import LabelBody
from rubricworks.platform_api.services import rollouts
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.judgements.blind_choices import imported_rater, item_digest, write_csv
from rubricworks.platform_api.services.run_storage import CopiedTable, run_folder
from rubricworks.runs.store import RunStore

COLUMNS = ("sample_id", "criterion", "label", "response", "rater")
_MIN_COUNT = 10
_SPREAD = (7919, 10_007)
"""Multiplier and modulus by which the groups to label are drawn from the whole training."""


async def list_labels(session: AsyncSession, run: str, stage: str, asked: PageRequest) -> Page[LabelBody]:
    """Labels of a training's responses, the newest first."""
    query = select(Label).where(Label.run == run, Label.stage == stage)
    return await query_page(session, query, (Label.id,), asked, LabelBody.model_validate)


async def _all_labels(session: AsyncSession, run: str, stage: str) -> Sequence[Label]:
    query = select(Label).where(Label.run == run, Label.stage == stage).order_by(Label.id)
    return (await session.scalars(query)).all()


async def count_labels(session: AsyncSession, run: str, stage: str) -> dict[str, int]:
    """Number of labels of each person."""
    query = select(Label.rater, func.count()).where(Label.run == run, Label.stage == stage).group_by(Label.rater)
    return {rater: count for rater, count in await session.execute(query)}


async def next_group(session: AsyncSession, run: str, stage: str, rater: str) -> tuple[int, str] | None:
    """Step and sample of a random group whose sample this person has not labelled yet."""
    of_rater = (
        select(Label.id)
        .where(Label.run == run, Label.stage == stage, Label.rater == rater)
        .where(Label.sample_id == Rollout.sample_id)
    )
    multiplier, modulus = _SPREAD
    query = (
        select(Rollout.step, Rollout.sample_id)
        .where(Rollout.run == run, Rollout.stage == stage, Rollout.criteria.is_not(None), ~of_rater.exists())
        .order_by((Rollout.id % modulus * multiplier) % modulus, Rollout.id)  # no product beyond 32 bits
        .limit(1)
    )
    row = (await session.execute(query)).first()
    return (row[0], row[1]) if row else None


def response_digest(response: str) -> str:
    """Name of a response in an address, independent of its rank."""
    return hashlib.sha256(response.encode()).hexdigest()[:16]


async def put_labels(
    session: AsyncSession,
    store: RunStore,
    by: Principal,
    run: str,
    stage: str,
    step: int,
    sample_id: str,
    response: str,
    credits: Mapping[str, float],
) -> list[Label]:
    """Store a person's labels of a response; earlier ones of the same items are replaced.

    Args:
        response: the text, or an image's digest.
    Raises:
        NotFound: there is no such group.
        BadRequest: the group has no such response, or it was not graded by such a criterion.
    """
    members = (await rollouts.get_group(session, store, run, stage, step, sample_id)).rollouts
    if response not in {member.response for member in members}:
        raise BadRequest(f"response: the group of sample {sample_id!r} in step {step} has no such response")
    known = {verdict.criterion for member in members for verdict in member.verdicts}
    if unknown := sorted(credits.keys() - known):
        raise BadRequest(f"credits: the response was not graded by {unknown[0]!r}")
    if not credits:
        raise BadRequest("credits: label at least one criterion")
    items = {Item(sample_id, response, criterion): credit for criterion, credit in credits.items()}
    labels = await _store(session, run, stage, by.name, items, step)
    record(session, by, "label.set", f"{run}/{stage}/{sample_id}"[:300], step=step, labels=len(labels))
    return labels


async def export_csv(session: AsyncSession, run: str, stage: str) -> str:
    """All labels as `rubricworks agreement` reads them."""
    labels = await _all_labels(session, run, stage)
    rows = ([label.sample_id, label.criterion, f"{label.credit:g}", label.response, label.rater] for label in labels)
    return await write_csv(session, run, COLUMNS, rows)


async def import_csv(session: AsyncSession, store: RunStore, by: Principal, scorecards: RunTable, text: bytes) -> int:
    """Store the labels of a CSV file; rows without a rater are the caller's, others' as `imported_rater` names them.

    Raises:
        BadRequest: a column or a cell is missing, a label is no credit, or there is no such response.
    """
    stage = scorecards.path.partition("/")[0]
    try:
        people, known = await asyncio.to_thread(_read_csv, store, scorecards, text)
    except TransientError:
        raise
    except UserError as error:
        raise BadRequest(str(error)) from error
    counts: Counter[str] = Counter()
    for rater in people:
        if unknown := next((item for item in rater.credits if item not in known), None):
            raise BadRequest(
                f"no response of sample {unknown.sample_id!r} was graded by {unknown.criterion!r} as the file has it"
            )
        name = by.name if rater.name == "people" else imported_rater(by, rater.name)
        counts[name] += len(await _store(session, scorecards.run, stage, name, rater.credits, None))
    subject = f"{scorecards.run}/{stage}"[:300]
    record(session, by, "label.import", subject, labels=counts.total(), raters=dict(counts))
    return counts.total()


async def agreement(
    session: AsyncSession, store: RunStore, scorecards: RunTable, others: Sequence[RunTable] = ()
) -> AgreementReport:
    """Agreement of the people and the judges of a training, and with the judges of other runs on the same responses.

    Raises:
        BadRequest: there are no labels, and only one judge, or two have no response in common.
    """
    stage = scorecards.path.partition("/")[0]
    people: dict[str, Ratings] = {}
    for label in reversed(await _all_labels(session, scorecards.run, stage)):
        item = Item(*map(normalise_text, (label.sample_id, label.response, label.criterion)))
        people.setdefault(label.rater, Ratings(label.rater, "labels")).credits[item] = label.credit
    try:
        return await asyncio.to_thread(_agreement, list(people.values()), store, [scorecards, *others])
    except TransientError:
        raise
    except UserError as error:
        raise BadRequest(str(error)) from error


def _agreement(people: list[Ratings], store: RunStore, tables: Sequence[RunTable]) -> AgreementReport:
    judges = []
    for table in tables:
        of_table = _judges(store, table)
        for judge in of_table if len(tables) > 1 else ():
            judge.name = f"{judge.name} in {table.run}"
        judges += of_table
    if not people and len(judges) < 2:
        raise UserError("nobody has labelled yet, and there is one judge: there is nothing to compare")
    return report_agreement(people, judges, min_count=_MIN_COUNT)[0]


def _read_csv(store: RunStore, scorecards: RunTable, text: bytes) -> tuple[list[Ratings], set[Item]]:
    judges = _judges(store, scorecards)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.csv"
        file.write_bytes(text)
        try:
            people = human_ratings(read_labels(str(file)), judges)
        except TransientError:
            raise
        except UserError as error:
            raise UserError(str(error).replace(str(file), "labels.csv")) from error
    return people, {item for judge in judges for item in judge}


def _judges(store: RunStore, scorecards: RunTable) -> list[Ratings]:
    with run_folder(store, scorecards.run, {scorecards.path: CopiedTable(scorecards.kind)}) as folder:
        judges = read_judges([str(folder / scorecards.path)])
    for judge in judges:
        judge.source = f"{scorecards.run}/{scorecards.path}"  # and not a path of this machine
    return judges


async def _store(
    session: AsyncSession, run: str, stage: str, rater: str, items: Mapping[Item, float], step: int | None
) -> list[Label]:
    digests = {item: item_digest(item) for item in items}
    for some in _parts(list(digests.values())):
        await session.execute(
            delete(Label).where(Label.run == run, Label.stage == stage, Label.rater == rater, Label.item.in_(some))
        )
    labels = [
        Label(
            run=run,
            stage=stage,
            step=step,
            sample_id=item.sample_id,
            response=item.response,
            item=digests[item],
            criterion=item.criterion,
            credit=credit,
            rater=rater,
        )
        for item, credit in items.items()
    ]
    session.add_all(labels)
    await session.flush()
    return labels


def _parts(values: list[str], size: int = 500) -> Iterable[list[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))
