"""Runs on Kubeflow: list, show, start and stop. Its client is imported on first use.

Kubeflow says that a task failed, and not why. The stage has written why into the run's folder, which the index follows.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import UserError
from rubricworks.kubeflow.backend import KubeflowAway
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.pagination import FOREIGN_CURSOR, PageRequest, decode_cursor, encode_cursor
from rubricworks.platform_api.problems import BadRequest, NotFound, Problem
from rubricworks.platform_api.schemas.submissions import (
    RemoteRunBody,
    RemoteRunDetailBody,
    RemoteRunPage,
    RemoteStageBody,
)
from rubricworks.platform_api.services.runs import outside_links
from rubricworks.platform_api.services.submission.awaited_runs import AWAITED
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.redaction import redact
from rubricworks.runs.store import RunStore

if TYPE_CHECKING:
    from rubricworks.kubeflow.connection import Kubeflow
    from rubricworks.kubeflow.remote_runs import RemoteRun

T = TypeVar("T")

_FRESH, _DEADLINE, _MOMENT = 5.0, 8.0, 1.0
_CACHED = 64
"""Answers that are remembered."""
_NEVER = float("-inf")
_NO_REASON = "Kubeflow gives no reason; the stage's log has it"
STATES: dict[str, tuple[str, ...]] = {
    "going": ("PENDING", "RUNNING", "CANCELING", "PAUSED"),
    "done": ("SUCCEEDED", "SKIPPED"),
    "failed": ("FAILED",),
    "stopped": ("CANCELED",),
}
"""Kubeflow's states by the words that runs here have for them."""


class RemoteFilter(NamedTuple):
    """Filters of Kubeflow's runs; empty takes all."""

    state: str = ""
    pipeline: str = ""
    search: str = ""


class RemoteQuery(NamedTuple):
    """A page of Kubeflow's runs; a token continues after the page that returned it."""

    wanted: RemoteFilter = RemoteFilter()
    token: str = ""
    limit: int = 50


class RemoteList(NamedTuple):
    """Runs of Kubeflow, the newest first, or those seen last and what is wrong with it."""

    runs: "Sequence[RemoteRun]"
    problem: str = ""
    token: str = ""
    """Kubeflow's token of the next page."""


class RemoteAnswer(NamedTuple):
    """A run of Kubeflow, or None if it does not answer, and what is wrong with it."""

    run: "RemoteRun | None"
    problem: str = ""


class KubeflowUnavailable(Problem):
    """Kubeflow does not answer, or refuses this service: nothing that the caller can mend."""

    def __init__(self, detail: str) -> None:
        super().__init__(503, "Kubeflow unavailable", detail)


def state_word(state: str) -> str:
    """Word for a state of Kubeflow's."""
    return next((word for word, states in STATES.items() if state in states), state.lower())


class KubeflowRuns:
    """The runs of one installation of Kubeflow Pipelines."""

    def __init__(self, cluster: ClusterConfig | None) -> None:
        """
        Args:
            cluster: where submitted recipes run; None for the installation of the environment, to which none is sent.
        """
        self._cluster = cluster
        self._kubeflow: Kubeflow | None = None
        self._lists: dict[RemoteQuery, tuple[float, RemoteList]] = {}
        """Query → time until which its answer holds, and the answer; the last used one last."""
        self._shown: dict[str, tuple[float, RemoteAnswer]] = {}
        self._asking: dict[object, asyncio.Task[Any]] = {}

    @property
    def takes_recipes(self) -> bool:
        """Return True if recipes can be submitted to it."""
        return self._cluster is not None

    async def list_page(self, wanted: RemoteFilter, asked: PageRequest) -> RemoteRunPage:
        """A page of runs for callers; a cursor holds Kubeflow's own token, and the filters that it was given for.

        Raises:
            BadRequest: the cursor is of another filter, or Kubeflow does not know its token.
        """
        token = ""
        if asked.cursor is not None:
            token, *filters = decode_cursor(asked.cursor, str, str, str, str)
            if not token or filters != [*wanted]:
                raise BadRequest("cursor: one of another filter; leave it out to begin anew")
        answer = await self.page(RemoteQuery(wanted, token, asked.limit))
        return RemoteRunPage(
            items=[RemoteRunBody.model_validate(run) for run in answer.runs],
            next_cursor=encode_cursor(answer.token, *wanted) if answer.token else None,
            problem=answer.problem,
        )

    async def page(self, query: RemoteQuery | None = None) -> RemoteList:
        """A page of runs, asked at most every few seconds; an unavailable backend is a problem, with the runs seen
        last.

        Raises:
            BadRequest: Kubeflow does not know the token.
        """
        query = query or RemoteQuery()
        until, known = self._lists.get(query, (_NEVER, RemoteList(())))
        if time.monotonic() < until:
            return known
        try:
            return await self._ask(query, partial(self._ask_list, query))
        except TimeoutError:
            return known._replace(problem="Kubeflow does not answer; these runs may be out of date")

    async def show(self, run: str) -> RemoteAnswer:
        """A run with its stages, by its name or Kubeflow's id; an unavailable backend is a problem, with the state seen
        last.

        Raises:
            NotFound: Kubeflow has no such run, or several.
        """
        until, known = self._shown.get(run, (_NEVER, RemoteAnswer(None)))
        if time.monotonic() < until:
            return known
        try:
            return await self._ask(run, partial(self._ask_run, run))
        except TimeoutError:
            return known._replace(problem="Kubeflow does not answer; what is shown may be out of date")

    async def stop_problem(self, run: str) -> str:
        """Reason why no run of a name can be stopped there; empty if one is going. Waits a moment at most."""
        query = RemoteQuery(RemoteFilter(search=run, state="going"))
        try:
            going = await asyncio.wait_for(self.page(query), _MOMENT)
        except TimeoutError:
            return "Kubeflow does not answer, so the run cannot be stopped from here now"
        if any(remote.name == run and remote.state != "CANCELING" for remote in going.runs):
            return ""
        return going.problem or "no run of this name is going on Kubeflow: stop it where it was started"

    async def start(self, recipe: Recipe, run: str) -> "RemoteRun":
        """Start a run of a recipe where the installation places runs.

        Raises:
            KubeflowUnavailable: Kubeflow does not answer; the run may have been made all the same.
            UserError: it refuses the run, or no cluster can run the recipe.
        """
        self._expire()
        return await self._call(partial(self._start, recipe, run))

    async def page_of(self, run: str) -> str | None:
        """Page of the newest run of a name; None if there is none.

        Raises:
            KubeflowUnavailable: Kubeflow does not answer.
            UserError: it refuses the request.
        """
        from rubricworks.kubeflow.remote_runs import list_runs

        runs = await self._call(lambda: list_runs(self._connect(), limit=1, name=run))
        return runs[0].page if runs else None

    async def stop(self, run: str) -> "RemoteRun":
        """Stop a run by its name or Kubeflow's id.

        Raises:
            KubeflowUnavailable: Kubeflow does not answer.
            UserError: there is no such run, or it is not going.
        """
        from rubricworks.kubeflow.remote_runs import stop_run

        try:
            return await self._call(lambda: stop_run(self._connect(), run))
        finally:
            self._expire()

    async def _call(self, work: Callable[[], T]) -> T:
        """Do work at Kubeflow in a thread; connect anew the next time if it is away."""
        try:
            return await asyncio.to_thread(work)
        except KubeflowAway as error:
            self._kubeflow = None
            raise KubeflowUnavailable(redact(str(error))) from error

    async def _ask(self, key: object, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask Kubeflow once for all who wait for the same, and no longer than callers wait."""
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(ask())
            self._asking[key].add_done_callback(lambda _: self._asking.pop(key, None))
        answer: T = await asyncio.wait_for(asyncio.shield(self._asking[key]), _DEADLINE)
        return answer

    async def _ask_list(self, query: RemoteQuery) -> RemoteList:
        _, known = self._lists.pop(query, (_NEVER, RemoteList(())))
        try:
            answer = await asyncio.to_thread(self._list, query)
        except UserError as error:
            if query.token and "token" in str(error) and "(HTTP 400)" in str(error):
                raise BadRequest(FOREIGN_CURSOR) from error
            self._kubeflow = None
            answer = known._replace(problem=redact(str(error)))
        self._lists[query] = (time.monotonic() + _FRESH, answer)
        _forget_oldest(self._lists)
        return answer

    async def _ask_run(self, run: str) -> RemoteAnswer:
        from rubricworks.kubeflow.remote_runs import UnknownRun, show_run

        _, known = self._shown.pop(run, (_NEVER, RemoteAnswer(None)))
        try:
            answer = RemoteAnswer(await asyncio.to_thread(lambda: show_run(self._connect(), run)))
        except UnknownRun as error:
            raise NotFound(redact(str(error))) from error
        except UserError as error:
            self._kubeflow = None
            answer = known._replace(problem=redact(str(error)))
        self._shown[run] = (time.monotonic() + _FRESH, answer)
        _forget_oldest(self._shown)
        return answer

    def _list(self, query: RemoteQuery) -> RemoteList:
        from rubricworks.kubeflow.remote_runs import list_page

        page = list_page(
            self._connect(),
            limit=query.limit,
            token=query.token,
            states=STATES.get(query.wanted.state, ()),
            pipeline=query.wanted.pipeline,
            name_part=query.wanted.search,
        )
        return RemoteList(page.runs, token=page.token)

    def _expire(self) -> None:
        """Have everything asked again, and keep it for when Kubeflow does not answer."""
        self._lists = {query: (_NEVER, known) for query, (_, known) in self._lists.items()}
        self._shown = {run: (_NEVER, known) for run, (_, known) in self._shown.items()}

    def _start(self, recipe: Recipe, run: str) -> "RemoteRun":
        from rubricworks.kubeflow.recipe_runs import start_recipe

        settings = recipe.model_dump(mode="json")
        assert self._cluster is not None
        placed = type(recipe).model_validate({**settings, "cluster": self._cluster.model_dump(mode="json")})
        with TemporaryDirectory() as folder:
            source = Path(folder) / "recipe.yaml"
            source.write_text(recipe_yaml(placed), encoding="utf-8")
            kubeflow = self._connect()
            try:
                return start_recipe(kubeflow, placed, str(source), run, lambda _: None)
            except KubeflowAway:
                raise
            except UserError as error:
                raise UserError(str(error).replace(str(source), source.name)) from error

    def _connect(self) -> "Kubeflow":
        """Raises KubeflowAway for whatever is wrong: who calls the service can mend none of it."""
        from rubricworks.kubeflow.connection import connect

        if self._kubeflow is None:
            config = self._cluster.kubeflow if self._cluster else KubeflowConfig()
            try:
                self._kubeflow = connect(config, self._cluster.namespace if self._cluster else None)
            except UserError as error:
                raise KubeflowAway(str(error)) from error
        return self._kubeflow


def _forget_oldest(answers: dict[Any, Any]) -> None:
    while len(answers) > _CACHED:
        answers.pop(next(iter(answers)))


async def show_details(session: AsyncSession, store: RunStore | None, answer: RemoteAnswer) -> RemoteRunDetailBody:
    """A run with the reason of each failure, its name here, and its pages elsewhere.

    Raises:
        KubeflowUnavailable: Kubeflow does not answer, and the run was not seen before.
    """
    run = answer.run
    if run is None:
        raise KubeflowUnavailable(answer.problem)
    place, _, folder = run.uri.rstrip("/").rpartition("/")
    # A run of the same name may lie elsewhere.
    record = await session.get(Run, folder) if store is not None and place == store.uri else None
    if record is not None and record.state in AWAITED:
        record = None  # its folder is not there yet
    failed, _, reason = record.message.partition(": ") if record and record.state == "failed" else ("", "", "")
    stages = []
    for stage in run.stages:
        error = redact(stage.error) or (reason if stage.stage == failed else "")
        if state_word(stage.state) == "failed" and not error:
            error = _NO_REASON
        stages.append(RemoteStageBody.model_validate(stage.model_copy(update={"error": error})))
    links = {"Kubeflow": run.page}
    if record is not None and store is not None:
        links = await outside_links(session, store, folder) | links
    return RemoteRunDetailBody.model_validate(
        {
            **run.model_dump(),
            "stages": stages,
            "run": folder if record is not None else "",
            "links": links,
            "problem": answer.problem,
        }
    )
