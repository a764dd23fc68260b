"""Pods of the Kubeflow stand-in: forked processes, each with its own environment and an empty workspace."""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

from kfp.dsl import executor_main
from kubeflow_driver import Pod

from rubricworks.recipe.cluster import WORKSPACE

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["kubeflow_pods", "kfp.dsl.executor_main", "mlflow", "rubricworks.runtime.launch", "rubricworks.reports.stage_page"]
)
_OF_THE_MACHINE = ("PATH", "HOME", "LANG", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")


class ForkedPods:
    """Runner of pods; every pod starts with an empty workspace, as an emptyDir is."""

    def __init__(self, folder: Path, prepare: str = "", environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            folder: logs and workspaces.
            prepare: module whose import replaces stages in the pod.
            environment: further variables of every pod.
        """
        self._folder, self._prepare, self._environment = folder, prepare, dict(environment or {})
        folder.mkdir(parents=True, exist_ok=True)
        self.started: list[Pod] = []

    def __call__(self, pod: Pod) -> int | None:
        self.started.append(pod)
        work = Path(tempfile.mkdtemp(prefix=f"{pod.task}-{pod.attempt}-", dir=self._folder))
        machine = {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}
        environment = {**machine, "TMPDIR": str(work), **pod.environment, **self._environment}
        environment = {
            name: value.replace(WORKSPACE, str(work / "workspace"), 1) for name, value in environment.items()
        }
        process = _CONTEXT.Process(target=_main, args=(pod.command, environment, str(work), self._prepare))
        process.start()
        process.join()
        assert process.exitcode is not None
        # What is killed from outside is lost, with its node.
        return None if process.exitcode == -signal.SIGKILL else process.exitcode

    def log_of(self, task: str) -> str:
        """Output of the last attempt of a task."""
        return max(self._folder.glob(f"{task}-[0-9]*/log"), key=lambda path: path.stat().st_mtime).read_text()


def _main(command: list[str], environment: dict[str, str], work: str, prepare: str) -> None:
    """The component's own command: `sh -ec PROGRAM SOURCE ARGUMENTS` runs kfp's executor on the source."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    with (Path(work) / "log").open("w", buffering=1) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    if prepare:
        importlib.import_module(prepare)
    shell, _, _, source, *arguments = command
    assert shell == "sh"
    program = Path(work) / "ephemeral_component.py"
    program.write_text(source)
    sys.argv = ["executor_main", "--component_module_path", str(program), *arguments]
    try:
        executor_main.executor_main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
