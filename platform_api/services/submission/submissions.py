"""Submitted runs: a recipe is checked, started here or on Kubeflow, followed to its end, stopped and resumed on demand.

A name is taken in a transaction of its own before anything starts, so of two submissions at once one is refused; a
killed service leaves `starting`, which `follow` ends by what this machine says. Runs start here only if the service
listens on loopback alone: whoever can reach it then has this machine already.
"""

import asyncio
import logging
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import UserError
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import Submission, utc_now
from rubricworks.platform_api.limits import MAX_CHANGES, MAX_RECIPE
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import BadRequest, Conflict, NotFound, Problem
from rubricworks.platform_api.project import Project
from rubricworks.platform_api.schemas.bodies import JsonObject, Page
from rubricworks.platform_api.schemas.submissions import SubmissionBody
from rubricworks.platform_api.services.access.audit_log import list_changes, record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.access.tokens import create_run_token, revoke_run_tokens
from rubricworks.platform_api.services.project_use import check_use
from rubricworks.platform_api.services.runs import get_run
from rubricworks.platform_api.services.submission.awaited_runs import drop_awaited, show_awaited
from rubricworks.platform_api.services.submission.kubeflow_runs import KubeflowRuns, KubeflowUnavailable
from rubricworks.platform_api.services.submission.local_runs import LocalRuns
from rubricworks.platform_api.services.submission.submission_policy import SubmissionPolicy
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.files import field_places, load_recipe
from rubricworks.recipe.mistakes import Mistake, RecipeError, first_mistakes
from rubricworks.recipe.models import unpinned_models
from rubricworks.redaction import redact
from rubricworks.runs.folder_lock import is_locked
from rubricworks.runs.run_name import check_run_name
from rubricworks.tracking.installation import TOKEN_VARIABLE, VARIABLE

_POLL = 0.5
_log = logging.getLogger(__name__)
_RECIPE = "recipe.yaml"
_LINE = re.compile(rf"(?!--set ).*?{re.escape(_RECIPE)}:(\d+)")
_OTHER_SERVICE = "it runs on this machine, and this service listens beyond loopback: stop it in a terminal, with Ctrl-C"


class BadRecipe(Problem):
    """A recipe that does not validate, or reaches what is not admitted; `fields` has the problem of each field."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        fields = [
            {
                "field": mistake.field,
                "line": _line(mistake.where),
                "problem": redact(mistake.text.removeprefix(f"{mistake.field}: ")),
            }
            for mistake in mistakes
        ]
        listed = "; ".join(
            f"line {_line(mistake.where)}: {mistake.text}" if _line(mistake.where) else mistake.text
            for mistake in mistakes
        )
        super().__init__(422, "The recipe has mistakes", listed, fields=fields)


def _check_length(text: str, overrides: Sequence[str]) -> None:
    """Check that a recipe is short enough to be checked within a second.

    Raises:
        BadRecipe: it or its changes are too long.
    """
    if len(text) > MAX_RECIPE:
        problem = f"the recipe has {len(text):,} characters; write at most {MAX_RECIPE:,}"
        raise BadRecipe([Mistake("", problem, "recipe")])
    length = sum(map(len, overrides))
    if len(overrides) > MAX_CHANGES or length > MAX_RECIPE:
        problem = f"there are {len(overrides):,} changes of {length:,} characters together"
        most = f"write at most {MAX_CHANGES} of {MAX_RECIPE:,}, and the others into the recipe"
        raise BadRecipe([Mistake("", f"{problem}; {most}", "overrides")])


def _bad_name(status: int, title: str, text: str) -> Problem:
    """A name that no run can have, as a problem of its field."""
    return Problem(status, title, text, fields=[{"field": "run", "line": None, "problem": text}])


class Submissions:
    """Submitted runs of one installation."""

    def __init__(
        self,
        database: Database,
        policy: SubmissionPolicy,
        runs: Path | None,
        kubeflow: KubeflowRuns | None,
        *,
        own_url: str | None,
        project: Project | None = None,
    ) -> None:
        """
        Args:
            runs: folder of all runs, if they may run on this machine.
            kubeflow: the installation of Kubeflow, if there is one.
            own_url: address of this service, at which a run here requests its promotion; it moves no alias itself.
            project: project whose budget and quotas a new run must fit.
        """
        self._database, self._policy, self._kubeflow = database, policy, kubeflow
        self._runs, self._own_url, self._project = runs, own_url, project
        self._local = LocalRuns(runs) if runs else None
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def places(self) -> list[str]:
        """Places that a recipe can be submitted to, the first by default."""
        on_cluster = ["kubeflow"] if self._kubeflow and self._kubeflow.takes_recipes else []
        return [*(["here"] if self._local else []), *on_cluster]

    async def submit(
        self,
        by: Principal,
        text: str,
        *,
        session: AsyncSession,
        request: str,
        run: str | None = None,
        overrides: Sequence[str] = (),
        arm: str | None = None,
        place: str | None = None,
    ) -> Submission:
        """Check a recipe and start a run of it.

        Args:
            session: the request's, in which the last step is written.
            request: name of the request; if it was killed before, its run is taken up, and started if it never began.
        Raises:
            BadRecipe: it has mistakes, or reaches what no admin admitted.
            Conflict: the name is taken, another run is going here, there is no place to run it, or the project's budget
                or a quota is used up.
            KubeflowUnavailable: it goes to Kubeflow, which does not answer.
        """
        recipe = await asyncio.to_thread(self._check, text, overrides, arm)
        async with self._database.session() as looking:
            before: Submission | None = await looking.scalar(select(Submission).where(Submission.request == request))
        if before is not None:
            name, chosen, page = before.run, before.place, await self._page_of_begun(before)
        else:
            chosen, page = self._choose_place(place), None
            name = await self._choose_name(run, recipe, chosen)
        if page is None:
            values = {
                "recipe": text,
                "overrides": list(map(redact, overrides)),
                "arm": arm,
                "place": chosen,
                "request": request,
            }
            await self._take_name(by, name, values, recipe)
            try:
                page = await self._start(by, name, recipe, chosen)
            except BaseException:
                async with self._database.session() as undoing:
                    await revoke_run_tokens(undoing, name)
                    await drop_awaited(undoing, name)
                    await undoing.execute(delete(Submission).where(Submission.run == name))
                raise
        submission = await get_submission(session, name)
        if submission.state == "starting":
            submission.state, submission.page = "going", page
        if not (await list_changes(session, PageRequest(limit=1), action="run.submit", subject=name)).items:
            record(session, by, "run.submit", name, place=chosen, recipe=recipe.name)
        return submission

    async def stop(self, by: Principal, run: str, within: AsyncSession) -> str:
        """Stop a run; committed results stay. Returns the place where it was running.

        Args:
            within: the request's session, in which the stop is written.
        Raises:
            Conflict: it is not going, is being stopped, or was started or resumed in a terminal.
            NotFound: there is none of that name.
            KubeflowUnavailable: it is none of this machine, and Kubeflow does not answer.
        """
        async with self._database.session() as session:
            submission = await _find(session, run)
        if submission is None or submission.place == "kubeflow":
            return await self._stop_on_kubeflow(by, run, within)
        if self._local is None:
            raise Conflict(f"{run}: {_OTHER_SERVICE}")
        going = update(Submission).where(Submission.run == run, Submission.state == "going")
        stopping = await within.scalar(going.values(state="stopping").returning(Submission.run))
        if stopping is None:
            assert self._runs is not None
            if submission.state == "ended" and await asyncio.to_thread(is_locked, self._runs / run):
                raise Conflict(f"{run} goes on in a terminal, where it was resumed: stop it there, with Ctrl-C")
            state = "has ended" if submission.state == "ended" else f"is {submission.state}"
            raise Conflict(f"{run} {state} already; only a run that is going is stopped")
        record(within, by, "run.stop", run, place="here")
        await asyncio.to_thread(self._local.stop, run)
        return "here"

    async def stop_problem(self, run: str, *, in_bucket: bool) -> str:
        """Reason why `stop` would refuse a run that is going, and the way that works; empty if it would stop it.

        Args:
            in_bucket: its folder is in a bucket, to which any machine may write.
        """
        async with self._database.session() as session:
            submission = await _find(session, run)
        if submission is not None and submission.place == "here" and submission.state != "ended":
            if self._local is None:
                return _OTHER_SERVICE
            return "" if submission.state == "going" else f"it is {submission.state}"
        if not in_bucket:
            return "it was started in a terminal: stop it there, with Ctrl-C"
        if self._kubeflow is None:
            return "this service starts no runs in this bucket and knows no Kubeflow: stop it where it was started"
        return await self._kubeflow.stop_problem(run)

    async def is_here(self, run: str) -> bool:
        """Return True for a run that was submitted to this machine."""
        async with self._database.session() as session:
            submission = await _find(session, run)
        return self._local is not None and submission is not None and submission.place == "here"

    async def resume_problem(self, run: str) -> str:
        """Reason why `resume` would refuse a finished run, with the remedy; empty if it would not."""
        async with self._database.session() as session:
            submission = await _find(session, run)
        if submission is not None and submission.place == "kubeflow":
            return f"it ran on Kubeflow: rubricworks runs retry {run}"
        if self._local is None or submission is None:
            return f"it was started elsewhere: rubricworks run --resume {run}"
        assert self._runs is not None
        if not await asyncio.to_thread((self._runs / run / _RECIPE).is_file):
            return "it wrote no file that it could go on from; clone it"
        return "" if submission.state == "ended" else f"it is {submission.state}"

    async def resume_by(self, by: Principal, run: str, within: AsyncSession) -> None:
        """Resume a run that ended before its work was done.

        Raises:
            Conflict: it cannot be resumed here, or needs no resuming.
            BadRecipe: its recipe reaches what no admin admits by now.
        """
        stored = await get_run(within, run)
        if stored.state == "done":
            raise Conflict(f"{run} is done; clone it to run it again")
        if reason := await self.resume_problem(run):
            raise Conflict(f"{run} cannot be resumed here: {reason}")
        await self.resume(by, run, lambda: None)
        record(within, by, "run.resume", run)

    async def resume(self, by: Principal, run: str, prepare: Callable[[], None]) -> None:
        """Resume a run of this machine that has ended.

        Args:
            prepare: called before the run is resumed, while no other run can start here; it blocks. If it raises, or
                anything else is in the way, nothing has changed.
        Raises:
            BadRecipe: its recipe reaches what no admin admits by now.
            Conflict: it is going, another run is, or the project's budget or a quota is used up.
        """
        assert self._local is not None
        assert self._runs is not None
        text = await asyncio.to_thread((self._runs / run / _RECIPE).read_text, encoding="utf-8")
        await asyncio.to_thread(self._check, text, (), None)
        async with self._database.session() as session:
            before = await get_submission(session, run)
            ended = update(Submission).where(Submission.run == run, Submission.state == "ended")
            values = {"state": "starting", "service": _SERVICE, "ended_at": None, "message": ""}
            if await session.scalar(ended.values(values).returning(Submission.run)) is None:
                raise Conflict(f"{run} is {before.state} already; only a run that has ended is resumed")
            await check_use(session, self._project)
        state, ended_at, message = "ended", before.ended_at, before.message
        try:
            environment = await self._environment(by, run)
            child = await asyncio.to_thread(self._local.resume, run, environment, prepare)
            if child is None:
                raise await self._busy()
            self._children[run] = child
            state, ended_at, message = "going", None, ""
        finally:
            async with self._database.session() as session:
                row = await get_submission(session, run)
                row.state, row.ended_at, row.message = state, ended_at, message
                if state == "ended":
                    await revoke_run_tokens(session, run)

    def output(self, run: str) -> str:
        """End of a local run's output."""
        return redact(self._local.output(run)) if self._local else ""

    async def follow(self) -> None:
        """Record the end of local runs until cancelled, also of an earlier service's runs."""
        is_quiet = False
        while True:
            if self._children or not is_quiet:
                try:
                    is_quiet = await self._note_ends()
                except (OSError, SQLAlchemyError) as error:
                    _log.warning("the end of runs could not be noted: %s", describe_fault(error))
            await asyncio.sleep(_POLL)

    async def _note_ends(self) -> bool:
        """Note the runs that have ended; return True if none is left that may."""
        if self._local is None:
            return True
        codes = {run: child.returncode for run, child in self._children.items() if child.poll() is not None}
        current = await asyncio.to_thread(self._local.current)
        left = 0
        async with self._database.session() as session:
            query = select(Submission).where(Submission.place == "here", Submission.state != "ended")
            for submission in await session.scalars(query):
                name = submission.run
                is_starting = submission.state == "starting" and submission.service == _SERVICE
                is_going = name in self._children and name not in codes
                if is_starting or is_going or (current is not None and current.run == name):
                    left += 1
                    continue
                submission.state, submission.ended_at = "ended", utc_now()
                await revoke_run_tokens(session, name)
                if codes.get(name) != 0:
                    lines = self.output(name).strip().splitlines()
                    submission.message = lines[-1] if lines else "it never began: the service was stopped"
                await show_awaited(session, submission)
                self._children.pop(name, None)
        return not left

    def _check(self, text: str, overrides: Sequence[str], arm: str | None) -> Recipe:
        _check_length(text, overrides)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / _RECIPE
            path.write_text(text, encoding="utf-8", errors="replace")
            try:
                recipe = load_recipe(path, overrides, arm=arm)
            except RecipeError as error:
                raise BadRecipe(error.mistakes) from error
            except UserError as error:
                raise BadRecipe([Mistake("", str(error).replace(str(path), _RECIPE))]) from error
            # The service reaches nothing that a recipe names, so it asks no Hub for today's commits.
            unpinned = unpinned_models(recipe, ask=False).items()
            violations = self._policy.violations(recipe) or [
                Mistake("", f"{field}: {problem}", field) for field, problem in unpinned
            ]
            if violations:
                place_of = field_places(path, overrides, arm)
                placed = [partial(_placed, violation, place_of) for violation in violations]
                raise BadRecipe(first_mistakes("", placed))
        return recipe

    def _choose_place(self, place: str | None) -> str:
        places = self.places
        if place is not None and place not in places:
            raise Conflict(
                "runs start here only on a service that listens on loopback alone"
                if place == "here"
                else "this service has no cluster: section to place runs by; see RUBRICWORKS_SUBMISSIONS"
            )
        if not places:
            raise Conflict(
                "this service listens beyond loopback, so nothing runs on its machine, and it has no cluster: section "
                "to place runs on Kubeflow by; see RUBRICWORKS_SUBMISSIONS",
            )
        return place or places[0]

    async def _choose_name(self, run: str | None, recipe: Recipe, place: str) -> str:
        """Name of a new run, which no run has at its place: one that is there later is this request's."""
        name = run or f"{recipe.run_prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
        try:
            check_run_name(name, "run")
        except UserError as error:
            raise _bad_name(422, "Invalid request", str(error)) from error
        if self._runs is not None and (self._runs / name).exists():
            raise _bad_name(409, "Conflict", f"there is a run {name} already; choose another name")
        if place == "kubeflow" and self._kubeflow and await self._kubeflow.page_of(name) is not None:
            raise _bad_name(409, "Conflict", f"Kubeflow has a run {name} already; choose another name")
        return name

    async def _page_of_begun(self, submission: Submission) -> str | None:
        """Page of a run whose request was killed, empty for a local run; None if it never began."""
        if submission.place == "kubeflow":
            return await self._kubeflow.page_of(submission.run) if self._kubeflow else None
        has_begun = self._local is not None and await asyncio.to_thread(self._local.has_begun, submission.run)
        return "" if has_begun else None

    async def _take_name(self, by: Principal, name: str, submitted: JsonObject, recipe: Recipe) -> None:
        """Reserve the name of a run; a request whose run never began reserves it again."""
        values = {"state": "starting", "service": _SERVICE, "ended_at": None, "message": ""}
        try:
            async with self._database.session() as session:
                await session.execute(delete(Submission).where(Submission.request == submitted["request"]))
                session.add(taken := Submission(run=name, submitted_by=by.name, **submitted, **values))
                await session.flush()
                await check_use(session, self._project)
                await show_awaited(session, taken, recipe=recipe.name, pipeline=recipe.pipeline)
        except IntegrityError as error:
            reason = f"a run {name} was submitted already; choose another name"
            raise _bad_name(409, "Conflict", reason) from error

    async def _start(self, by: Principal, name: str, recipe: Recipe, place: str) -> str:
        if place == "kubeflow":
            assert self._kubeflow is not None
            try:
                return (await self._kubeflow.start(recipe, name)).page
            except (UserError, KubeflowUnavailable) as error:
                if (page := await self._kubeflow.page_of(name)) is not None:
                    return page  # it was made, and the answer was lost
                if isinstance(error, KubeflowUnavailable):
                    raise
                raise BadRequest(redact(str(error))) from error
        assert self._local is not None
        environment = await self._environment(by, name)
        try:
            child = await asyncio.to_thread(self._local.start, name, recipe_yaml(recipe), environment)
        except FileExistsError as error:
            raise Conflict(f"a run {name} was submitted already; choose another name") from error
        if child is None:
            raise await self._busy()
        self._children[name] = child
        return ""

    async def _environment(self, by: Principal, run: str) -> dict[str, str]:
        """Environment of a local run: admitted variables, and this service, which moves its models' aliases."""
        environment = self._policy.environment(os.environ)
        if self._own_url is not None:
            async with self._database.session() as session:
                secret = await create_run_token(session, by, run)
            environment |= {VARIABLE: self._own_url, TOKEN_VARIABLE: secret}
        return environment

    async def _busy(self) -> Conflict:
        assert self._local is not None
        going = await asyncio.to_thread(self._local.current)
        return Conflict(
            f"{going.run if going else 'another run'} is going on this machine, where one runs at a time; stop it, or "
            "wait for its end"
        )

    async def _stop_on_kubeflow(self, by: Principal, run: str, within: AsyncSession) -> str:
        if self._kubeflow is None:
            if await _find(within, run) is None:
                await get_run(within, run)
            raise Conflict(f"{run} was not started by this service; stop it where it was started")
        try:
            stopped = await self._kubeflow.stop(run)
        except UserError as error:
            raise Conflict(redact(str(error))) from error
        row = await _find(within, stopped.name)
        if row is not None and row.place == "kubeflow" and row.page == stopped.page:
            row.state = "stopping"
            await show_awaited(within, row)
        record(within, by, "run.stop", stopped.name, place="kubeflow")
        return "kubeflow"


async def get_submission(session: AsyncSession, run: str) -> Submission:
    """A submitted run.

    Raises:
        NotFound: none of that name was submitted.
    """
    submission = await _find(session, run)
    if submission is None:
        raise NotFound(f"no run {run!r} was submitted here")
    return submission


async def find_submission(session: AsyncSession, run: str) -> Submission | None:
    """A submitted run; None if none of that name was submitted."""
    return await _find(session, run)


async def list_submissions(session: AsyncSession, asked: PageRequest) -> Page[SubmissionBody]:
    """Submitted runs, the newest first."""
    return await query_page(session, select(Submission), (Submission.number,), asked, SubmissionBody.model_validate)


async def _find(session: AsyncSession, run: str) -> Submission | None:
    submission: Submission | None = await session.scalar(select(Submission).where(Submission.run == run))
    return submission


def _placed(mistake: Mistake, place_of: Callable[[str], str]) -> Mistake:
    return mistake._replace(where=place_of(mistake.field))


def _line(where: str) -> int | None:
    """Line of a mistake's place, `recipe.yaml:12`; an override has none, whatever port it names."""
    match = _LINE.match(where)
    return int(match[1]) if match else None


_SERVICE = f"{os.getpid()}-{time.time_ns()}"
"""This process: a name that another one took and never started is free to be ended."""
