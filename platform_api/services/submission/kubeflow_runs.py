"""Runs on Kubeflow: a recent list beside the local ones, start and stop. Kubeflow's client is imported on first use."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from rubricworks.errors import UserError
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.redaction import redact

if TYPE_CHECKING:
    from rubricworks.kubeflow.connection import Kubeflow
    from rubricworks.kubeflow.remote_runs import RemoteRun

_FRESH, _DEADLINE = 5.0, 8.0
_LIMIT = 50


class RemoteList(NamedTuple):
    """The newest runs of Kubeflow, or what is wrong with it."""

    runs: "Sequence[RemoteRun]"
    problem: str = ""


class KubeflowRuns:
    """The runs of one installation of Kubeflow Pipelines."""

    def __init__(self, cluster: ClusterConfig | None) -> None:
        """
        Args:
            cluster: where submitted recipes run; None for the installation of the environment, to which none is sent.
        """
        self._cluster = cluster
        self._kubeflow: Kubeflow | None = None
        self._list: tuple[float, RemoteList] = (0.0, RemoteList(()))
        self._asking: asyncio.Task[RemoteList] | None = None

    @property
    def takes_recipes(self) -> bool:
        """Return True if recipes can be submitted to it."""
        return self._cluster is not None

    async def recent(self) -> RemoteList:
        """The newest runs, asked at most every few seconds; a stopped backend is a problem, with those seen last."""
        if time.monotonic() < self._list[0]:
            return self._list[1]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            return await asyncio.wait_for(asyncio.shield(self._asking), _DEADLINE)
        except TimeoutError:
            return RemoteList(self._list[1].runs, "Kubeflow does not answer; these runs may be out of date")

    async def start(self, recipe: Recipe, run: str) -> "RemoteRun":
        """Start a run of a recipe where the installation places runs.

        Raises:
            UserError: Kubeflow refuses it or does not answer.
        """
        self._list = (0.0, self._list[1])
        return await asyncio.to_thread(self._start, recipe, run)

    async def page_of(self, run: str) -> str | None:
        """Page of the newest run of a name; None if there is none.

        Raises:
            UserError: Kubeflow does not answer.
        """
        from rubricworks.kubeflow.remote_runs import list_runs

        found = await asyncio.to_thread(lambda: list_runs(self._connect(), limit=1, name=run))
        return found[0].page if found else None

    async def stop(self, run: str) -> "RemoteRun":
        """Stop a run by its name or Kubeflow's id.

        Raises:
            UserError: there is no such run, or it is not going.
        """
        from rubricworks.kubeflow.remote_runs import stop_run

        self._list = (0.0, self._list[1])
        return await asyncio.to_thread(lambda: stop_run(self._connect(), run))

    async def _ask(self) -> RemoteList:
        try:
            found = RemoteList(await asyncio.to_thread(self._recent))
        except UserError as error:
            self._kubeflow = None
            found = RemoteList(self._list[1].runs, redact(str(error)))
        self._list = (time.monotonic() + _FRESH, found)
        return found

    def _recent(self) -> "Sequence[RemoteRun]":
        from rubricworks.kubeflow.remote_runs import list_runs

        return list_runs(self._connect(), limit=_LIMIT)

    def _start(self, recipe: Recipe, run: str) -> "RemoteRun":
        from rubricworks.kubeflow.recipe_runs import start_recipe

        settings = recipe.model_dump(mode="json")
        assert self._cluster is not None
        placed = type(recipe).model_validate({**settings, "cluster": self._cluster.model_dump(mode="json")})
        with TemporaryDirectory() as folder:
            source = Path(folder) / "recipe.yaml"
            source.write_text(recipe_yaml(placed), encoding="utf-8")
            return start_recipe(self._connect(), placed, str(source), run, lambda _: None)

    def _connect(self) -> "Kubeflow":
        from rubricworks.kubeflow.connection import connect

        if self._kubeflow is None:
            config = self._cluster.kubeflow if self._cluster else KubeflowConfig()
            self._kubeflow = connect(config, self._cluster.namespace if self._cluster else None)
        return self._kubeflow
