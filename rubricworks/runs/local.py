"""Runner of a pipeline on this machine: the same DAG as on a cluster, through `kfp.local`, one stage after another.

    run_local(rubicap, {"run": "runs/today", "prepare_config": "{…}", …}, run=Path("runs/today"))

Kubeflow's local runner decides the order and passes the outputs on; `StageTask` starts the process of a stage with
Kubeflow's executor and reads its output. A run's folder gets `logs/` (one file for each stage, and `kfp.log`) and
`kfp/` (each stage's program and what it returned, in the last attempt).
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kfp import local
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.component_factory import EXECUTOR_MODULE
from kfp.local import config as kfp_config
from kfp.local import subprocess_task_handler
from kfp.local.status import Status

from rubricworks.errors import UserError
from rubricworks.kubeflow.compile import drop_tasks
from rubricworks.runs import stage_executor
from rubricworks.runs.stage_process import SpawnedStage, StageExit, StageProcess, run_stage_process
from rubricworks.runs.stage_server import IS_SAFE, StageServer
from rubricworks.runtime.guard import Guard
from rubricworks.runtime.serving.run_socket import RunServers
from rubricworks.runtime.stage_table import STAGES
from rubricworks.runtime.store.workspace import workspace_uri
from rubricworks.terminal import say

_SCRIPT = re.compile(
    r"\s*program_path=\$\(mktemp -d\)"
    r'\s*printf "%s" "\$0" > "\$program_path/ephemeral_component.py"'
    rf"\s*_KFP_RUNTIME=true python3 -m {re.escape(EXECUTOR_MODULE)}"
    r'\s*--component_module_path\s*"\$program_path/ephemeral_component.py"\s*"\$@"\s*'
)
"""The part of Kubeflow's component script that runs it, without installing anything."""


def run_local(
    pipeline_func: BaseComponent,
    arguments: dict[str, str],
    *,
    run: Path,
    without: Collection[str] = (),
    served: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Run every stage to its end, with progress on standard error, each line under the name of its stage.

    Call it once at a time in a process: `kfp.local` keeps its settings in globals.

    Args:
        pipeline_func: a function decorated with `dsl.pipeline`.
        arguments: the pipeline's parameters.
        run: the run's folder; its name is the run's id.
        without: stages to leave out, whose outputs no other stage may take.
        served: name of each model that the run serves → stages that call it.
    Raises:
        UserError: a stage failed; names the stage, the reason and the command to continue.
    """
    pipeline_func = drop_tasks(pipeline_func, without)
    (run / "logs").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(run / "kfp", ignore_errors=True)
    # Branches are components of their own.
    stages = [name.removeprefix("comp-") for name in pipeline_func.pipeline_spec.components]
    with (
        Guard() as guard,
        (run / "logs" / "kfp.log").open("a") as kfp_log,
        StageServer(kfp_log) if IS_SAFE else contextlib.nullcontext() as server,
        RunServers(run, {name: set(callers) - set(without) for name, callers in served.items()}) as models,
    ):
        session = _Session(run=run, guard=guard, server=server, models=models, stages=stages)
        with contextlib.redirect_stdout(kfp_log), _kfp_settings(session):
            try:
                pipeline_func(**arguments)
            except RuntimeError as error:
                if session.failed is None:
                    raise
                raise UserError(session.explain(*session.failed)) from error


@dataclass
class _Session:
    """One run in progress."""

    run: Path
    guard: Guard
    server: StageServer | None
    models: RunServers
    stages: Sequence[str]
    failed: tuple[str, StageExit] | None = None

    def run_stage(self, stage: str, start: Callable[[int, int], StageProcess]) -> bool:
        """Run a stage; return True if it succeeded."""
        (self.run / "error.json").unlink(missing_ok=True)
        say = partial(self.say, stage)
        try:
            end = run_stage_process(start, log=self.log(stage), say=say, guard=self.guard)
        finally:
            self.models.stage_ended(stage)
        if end.code:
            self.failed = (stage, end)
        return not end.code

    def trains(self, stage: str) -> bool:
        """Return True for a stage that will load a model; a finished stage loads nothing."""
        is_done = (self.run / stage / "done.json").exists()
        return stage in STAGES and STAGES[stage].image == "trainer" and not is_done

    def say(self, stage: str, line: str) -> None:
        say(f"{stage:<{max(map(len, self.stages))}} | {line}")

    def log(self, stage: str) -> Path:
        return self.run / "logs" / f"{stage}.log"

    def explain(self, stage: str, end: StageExit) -> str:
        try:
            report = json.loads((self.run / "error.json").read_text())
            message = str(report["message"])
        except (OSError, ValueError, KeyError, TypeError):
            report, message = {}, f"{end.reason} (log: {self.log(stage)})"
        message = " ".join(message.split()).rstrip(".")
        if more := report.get("more"):
            return f"stage {stage} {message}; raise the cap and go on: {resume_command(self.run)} {more}"
        return f"stage {stage} failed: {message}; fix it and continue with: {resume_command(self.run)}"


def resume_command(run: Path) -> str:
    """Command that continues a run; it names the folder of all runs unless that is `runs`."""
    run = run.resolve()
    runs = workspace_uri(run.parent) or str(run.parent)
    runs_option = "" if run.parent == Path("runs").resolve() else f" --runs {shlex.quote(runs)}"
    return f"rubricworks run --resume {shlex.quote(run.name)}{runs_option}"


class StageTask(subprocess_task_handler.SubprocessTaskHandler):
    """Handler of one task of `kfp.local`.

    Kubeflow's own handler replaces "python3" by the interpreter's path in every argument, configurations included,
    merges the two output streams, leaves its program in a temporary folder, and the process running when interrupted.
    The script of a component that installs nothing does no more than the server's forked process (`StageServer`).
    """

    def __init__(self, session: _Session, **task: Any) -> None:
        super().__init__(**task)
        self.session = session

    def run(self) -> Status:
        shell, flags, script, source, *arguments = self.full_command
        stage = arguments[arguments.index("--function_to_execute") + 1]
        program = self.session.run.resolve() / "kfp" / "programs" / stage
        program.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **self.session.models.environment(), **self.env_vars}

        def start(stdout: int, stderr: int) -> StageProcess:
            if (server := self.session.server) and _SCRIPT.fullmatch(script):
                file = program / "ephemeral_component.py"
                file.write_text(source)
                own = ["--component_module_path", str(file), *arguments]
                trains, others_train = self.session.trains(stage), any(map(self.session.trains, self.session.stages))
                return server.fork(own, environment, stdout, stderr, trains=trains, others_train=others_train)
            quiet = script.replace(EXECUTOR_MODULE, stage_executor.__name__)
            here = quiet.replace("python3", shlex.quote(sys.executable))
            here = here.replace("$(mktemp -d)", shlex.quote(str(program)))
            return SpawnedStage([shell, flags, here, source, *arguments], environment, stdout, stderr)

        return Status.SUCCESS if self.session.run_stage(stage, start) else Status.FAILURE

    def validate_image(self, image: str) -> None:
        """Accept any image: locally a stage runs in this Python."""


@contextlib.contextmanager
def _kfp_settings(session: _Session) -> Iterator[None]:
    # The map from runner to handler is inside a function of kfp; the name that it reads can be replaced (tested).
    original = subprocess_task_handler.SubprocessTaskHandler
    settings = kfp_config.LocalExecutionConfig.instance
    local.init(
        local.SubprocessRunner(use_venv=False),
        pipeline_root=str(session.run / "kfp"),
        workspace_root=str(session.run / "kfp" / "workspace"),
    )
    subprocess_task_handler.SubprocessTaskHandler = partial(StageTask, session)
    try:
        yield
    finally:
        subprocess_task_handler.SubprocessTaskHandler = original
        kfp_config.LocalExecutionConfig.instance = settings
