"""A project's quota of runs on Postgres, where submissions at once do not see each other's rows."""

import asyncio

import pytest
from test_api_postgres import Postgres
from test_api_postgres import postgres as postgres

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Submission
from rubricworks.platform_api.problems import Conflict
from rubricworks.platform_api.project import Project, Quotas
from rubricworks.platform_api.services.project_use import check_use

pytestmark = pytest.mark.cluster

PROJECT = Project(name="captions", quotas=Quotas(runs_at_once=2))


def test_of_submissions_at_once_no_more_start_than_the_quota_has(postgres: Postgres) -> None:
    async def submit(database: Database, number: int, all_written: asyncio.Barrier) -> str:
        row = Submission(
            run=f"run-{number}",
            place="kubeflow",
            state="starting",
            recipe="",
            service="s",
            submitted_by="ada",
            request=f"request-{number}",
        )
        try:
            async with database.session() as session:
                session.add(row)
                await session.flush()
                await all_written.wait()
                await check_use(session, PROJECT)
        except Conflict as refused:
            return refused.detail
        return ""

    async def storm() -> list[str]:
        database = Database(postgres.new_database("quotas"))
        try:
            await migrate(database, "captions")
            all_written = asyncio.Barrier(6)
            return await asyncio.gather(*(submit(database, number, all_written) for number in range(6)))
        finally:
            await database.close()

    refusals = [detail for detail in asyncio.run(storm()) if detail]
    assert len(refusals) == 4
    assert all("2 runs of the project captions are going, and 2 may" in detail for detail in refusals), refusals
