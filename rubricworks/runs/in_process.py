"""Run a pipeline in this process, one stage after another, without Kubeflow's runner.

    run_in_process("balcaprl", recipe.stage_json(), run=Path("work/seed-1/full"), without=NOT_REUSABLE)

For many short runs of one recipe, whose libraries are then imported once. A run's folder is the one that `run_local`
makes, so that it can be resumed, and its stages reused.
"""

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path

from rubricworks.kubeflow.compile import load_pipeline
from rubricworks.runtime.config import parameter_json
from rubricworks.runtime.launch import launch
from rubricworks.runtime.stage_table import STAGES


def run_in_process(
    method: str,
    configs: Mapping[str, str],
    *,
    run: Path,
    without: Collection[str] = (),
    on_stage: Callable[[str], None] = lambda stage: None,
) -> None:
    """Run every stage of a method's pipeline to its end.

    Args:
        configs: stage → its configuration as JSON.
        run: the run's folder; `log` in it gets the output of all stages.
        without: stages to leave out, whose outputs no other stage may take.
        on_stage: called with the id of each stage before it starts.
    Raises:
        ValueError: the pipeline has a step that is no stage.
    """
    inputs = stage_inputs(method, without)
    outputs: dict[str, str] = {}
    for stage in TopologicalSorter({stage: of.values() for stage, of in inputs.items()}).static_order():
        on_stage(stage)
        given = {name: outputs[producer] for name, producer in inputs[stage].items()}
        with _output_to(run / "log"):
            outputs[stage] = launch(stage, parameter_json(configs[stage]), str(run), given)
        gc.collect()  # a trainer and its model refer to each other; hundreds of them must not pile up


def stage_inputs(method: str, without: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """Stage → its inputs, each with the stage that produces it."""
    tasks = load_pipeline(method).pipeline_spec.root.dag.tasks
    stages = {name: name.replace("-", "_") for name in sorted(tasks)}
    if others := sorted(set(stages.values()) - STAGES.keys()):
        raise ValueError(f"{method}: {others[0]} is no stage, and runs in this process have stages alone")
    return {
        stages[name]: {
            parameter: stages[value.task_output_parameter.producer_task]
            for parameter, value in task.inputs.parameters.items()
            if value.task_output_parameter.producer_task
        }
        for name, task in sorted(tasks.items())
        if stages[name] not in without
    }


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Append standard output and error to a file, also those of handlers that hold the streams, and of children."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptors = {number: os.dup(number) for number in (1, 2)}
    try:
        with log.open("ab") as file:
            _point(dict.fromkeys(descriptors, file.fileno()))
        yield
    finally:
        _point(descriptors)
        for copy in descriptors.values():
            os.close(copy)


def _point(descriptors: Mapping[int, int]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for number, target in descriptors.items():
        os.dup2(target, number)
