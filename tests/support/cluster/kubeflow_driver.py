"""Kubeflow Pipelines without a cluster: compiled YAML run as the drivers of its backends 2.16 and 2.17 run it.

    backend = KubeflowBackend("2.16", folder, pods)
    run = backend.run(package, {"run": "s3://runs/weekly-${KUBEFLOW_RUN_ID}", …})

Sources are files of kubeflow/pipelines below `backend/src/v2`:

inputs           `driver/resolve.go`: a constant that *equals* a placeholder is replaced; one inside a text is not.
conditions       `driver/dag.go`, `expression`: a false one skips the group, whose DAG execution is CANCELED.
cache            `cacheutils/cache.go` GenerateCacheKey, `driver/cache.go`: values of the inputs, types of the outputs,
                 image, command, claims. Nothing that a pod reads for itself is in the key.
environment      `driver/k8s.go` extendPodSpecPatch: constants, field paths, keys of Secrets and ConfigMaps.
exit handler     `driver/resolve.go` TaskFinalStatus: the last known state of the DAG execution before it, without a
                 message. `metadata/client.go` UpdateDAGExecutionsState: that state changes only when a container in the
                 group itself ends; 2.17 goes on to the groups around it (issues #11979 and #13321).
retries          `compiler/argocompiler/container.go` getTaskRetryStrategyFromInput: a limit and a pause, no policy, no
                 expression. Argo's policy is then OnFailure: a container that ends badly is started again, whatever its
                 exit code; a pod that is lost (deleted, or its node gone) is not. `templateDefaults` of Argo's own
                 ConfigMap may say otherwise, for every template: groups have their tasks run again, too, all of them
                 (argo-workflows #13990). An expression of Argo's knows a group by its exit code, -1
                 (`workflow/controller/operator.go` buildRetryStrategyLocalScope); the launcher's own is 1 whatever the
                 stage's. PR #13386, for a policy in the pipeline, is open; #13485 has the manifests say OnError.
                 Retrying a run starts its failed tasks from their first attempt
                 (`backend/src/common/util/workflow.go`).
MLflow           2.17, `common/plugins/mlflow/handler.go`: a nested run for every group and task, and its id in the
                 task's environment as MLFLOW_RUN_ID.

Tasks run one after the other. Not here: loops, artifacts as inputs, importers, dynamic Kubernetes settings.
"""

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from google.protobuf import json_format
from kfp import dsl
from kfp.pipeline_spec.pipeline_spec_pb2 import ComponentSpec, PipelineSpec, PipelineTaskSpec, PlatformSpec

from rubricworks.kubeflow.compile import read_package

Phase = Literal["Succeeded", "Failed", "Error", "Skipped", "Omitted"]
"""Argo's phase of a node; `Error` is a pod that was lost."""
_NO_EXIT_CODE = -1
_RETRY_CLAUSE = re.compile(r"\s*(?:lastRetry\.status == '(\w+)'|asInt\(lastRetry\.exitCode\) > (-?\d+))\s*")

_ENDS_ALWAYS = PipelineTaskSpec.TriggerPolicy.ALL_UPSTREAM_TASKS_COMPLETED
_CONDITION = re.compile(r"inputs\.parameter_values\['([^']+)'\] (==|!=) '([^']*)'")


@dataclass(frozen=True)
class Pod:
    """One attempt of a task, as it is started."""

    task: str
    attempt: int
    command: list[str]
    """Command and arguments, the executor's input filled in."""
    environment: dict[str, str]
    accelerators: int


Pods = Callable[[Pod], int | None]
"""Runner of a pod; returns its exit code, or None if the pod was lost."""


@dataclass
class TaskRun:
    """A task with a pod, after its end."""

    name: str
    phase: Phase
    attempts: int = 0
    cached: bool = False
    outputs: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Artifact → its type, URI and metadata."""


@dataclass
class BackendRun:
    """A run after its end."""

    id: str
    name: str
    package: Path
    arguments: dict[str, str]
    tasks: list[TaskRun] = field(default_factory=list)
    state: str = "RUNNING"
    told: str = ""
    """State that the exit handler was told."""
    pods: Counter[str] = field(default_factory=Counter)
    """Task → pods that were started for it."""

    @property
    def phases(self) -> dict[str, str]:
        return {task.name: task.phase for task in self.tasks}

    def task(self, name: str) -> TaskRun:
        (named,) = (task for task in self.tasks if task.name == name)
        return named


@dataclass
class _Dag:
    """A group of tasks: the root, the exit handler's group, a branch."""

    component: ComponentSpec
    inputs: dict[str, Any]
    parent: "_Dag | None" = None
    state: str = "RUNNING"
    """Last known state of its execution in ML Metadata."""
    phases: dict[str, Phase] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    children: dict[str, "str | _Dag"] = field(default_factory=dict)
    """Task → last known state of a container, or the group that it is."""
    mlflow_run: str = ""

    def state_of(self, task: str) -> str:
        child = self.children[task]
        return child.state if isinstance(child, _Dag) else child


class KubeflowBackend:
    """An installation: its version, its cache and its runs."""

    def __init__(
        self,
        version: Literal["2.16", "2.17"],
        folder: Path,
        pods: Pods,
        *,
        secrets: Mapping[str, Mapping[str, str]] | None = None,
        template_defaults: Mapping[str, str] | None = None,
        mlflow: "MlflowPlugin | None" = None,
    ) -> None:
        """
        Args:
            folder: the pipeline root.
            secrets: Secret or ConfigMap → key → value.
            template_defaults: `retryStrategy` of Argo's `templateDefaults`: limit, retryPolicy, expression.
            mlflow: the plugin, which 2.16 does not have.
        """
        assert mlflow is None or version != "2.16"
        self.version, self.folder, self.pods, self.mlflow = version, folder, pods, mlflow
        self.secrets = secrets if secrets is not None else {}
        self.template_defaults = template_defaults or {}
        self.cache: dict[str, TaskRun] = {}
        self.runs: list[BackendRun] = []

    def run(self, package: Path, arguments: Mapping[str, str], *, name: str = "run") -> BackendRun:
        """Run a compiled pipeline to its end, at once or as a schedule does: both are `CreateRun` of the API server."""
        run = BackendRun(str(uuid.uuid4()), name, package, dict(arguments))
        self.runs.append(run)
        return self._execute(run)

    def is_retried(self, phase: Phase, exit_code: int) -> bool:
        """Return True if Argo starts a node again that ended so."""
        policy = self.template_defaults.get("retryPolicy", "OnFailure")
        if phase not in {"OnFailure": ("Failed",), "OnError": ("Error",), "Always": ("Failed", "Error")}[policy]:
            return False
        expression = self.template_defaults.get("expression")
        return expression is None or any(_holds_retry(part, phase, exit_code) for part in expression.split("||"))

    def retry(self, run: BackendRun) -> BackendRun:
        """Run the tasks again that did not succeed, each from its first attempt, and the exit task."""
        run.tasks = [task for task in run.tasks if task.phase == "Succeeded" and task.name != "outcome"]
        return self._execute(run)

    def _execute(self, run: BackendRun) -> BackendRun:
        spec, platform = read_package(run.package)
        assert set(run.arguments) == set(spec.root.input_definitions.parameters)
        root = _Dag(spec.root, run.arguments)
        if self.mlflow:
            root.mlflow_run = self.mlflow.start(run.name, "")
        failed = _Workflow(self, spec, platform, run).run_dag(root) != "Succeeded"
        run.state = "FAILED" if failed else "SUCCEEDED"
        if self.mlflow:
            self.mlflow.end(root.mlflow_run, run.state)
        return run


class _Workflow:
    def __init__(self, backend: KubeflowBackend, spec: PipelineSpec, platform: PlatformSpec, run: BackendRun) -> None:
        self._backend, self._spec, self._run = backend, spec, run
        self._executors = json_format.MessageToDict(spec.deployment_spec)["executors"]
        self._settings: dict[str, Any] = {}
        if "kubernetes" in platform.platforms:
            deployment = json_format.MessageToDict(platform.platforms["kubernetes"].deployment_spec)
            self._settings = deployment["executors"]

    def run_dag(self, dag: _Dag) -> Phase:
        for _ in range(int(self._backend.template_defaults.get("limit", 0))):
            before = len(self._run.tasks)
            phase = self._run_dag_once(dag)
            if phase == "Succeeded" or not self._backend.is_retried(phase, _NO_EXIT_CODE):
                return phase
            del self._run.tasks[before:]
            for record in (dag.phases, dag.children, dag.outputs):
                record.clear()
        return self._run_dag_once(dag)

    def _run_dag_once(self, dag: _Dag) -> Phase:
        waiting = dict(sorted(dag.component.dag.tasks.items()))
        while waiting:
            ready = [name for name, task in waiting.items() if not _dependencies(task) & waiting.keys()]
            # The drivers of all that is ready run at once: a branch is known to be skipped before another one ends.
            name = next((name for name in ready if self._is_skipped(name, waiting[name], dag)), ready[0])
            task = waiting.pop(name)
            is_exit_task = task.trigger_policy.strategy == _ENDS_ALWAYS
            phases = dag.phases.values()
            # Argo starts no further task of a group once one has failed.
            if is_exit_task or (_all_succeeded(task, dag) and not {"Failed", "Error"} & {*phases}):
                dag.phases[name] = self._run_task(name, task, dag)
            else:
                dag.phases[name] = "Omitted"
        failures = [phase for phase in dag.phases.values() if phase in ("Failed", "Error")]
        return failures[0] if failures else "Succeeded"

    def _is_skipped(self, name: str, task: PipelineTaskSpec, dag: _Dag) -> bool:
        if not task.trigger_policy.condition or not _all_succeeded(task, dag):
            return False
        inputs = {key: self._resolve(parameter, name, task, dag) for key, parameter in task.inputs.parameters.items()}
        return not _holds(task.trigger_policy.condition, inputs)

    def _run_task(self, name: str, task: PipelineTaskSpec, dag: _Dag) -> Phase:
        component = self._spec.components[task.component_ref.name]
        inputs = {key: self._resolve(parameter, name, task, dag) for key, parameter in task.inputs.parameters.items()}
        if component.executor_label:
            return self._run_container(name, task, component, inputs, dag)
        group = dag.children[name] = _Dag(component, inputs, dag)
        if task.trigger_policy.condition and not _holds(task.trigger_policy.condition, inputs):
            group.state = "CANCELED"
            return "Skipped"
        if self._backend.mlflow:
            group.mlflow_run = self._backend.mlflow.start(name, dag.mlflow_run)
        return self.run_dag(group)

    def _resolve(self, spec: Any, name: str, task: PipelineTaskSpec, dag: _Dag) -> Any:
        assert not spec.parameter_expression_selector
        kind = spec.WhichOneof("kind")
        if kind == "component_input_parameter":
            return dag.inputs[spec.component_input_parameter]
        if kind == "task_output_parameter":
            output = spec.task_output_parameter
            return dag.outputs[output.producer_task][output.output_parameter_key]
        if kind == "task_final_status":
            producer = task.dependent_tasks[0]
            self._run.told = dag.state_of(producer)
            status = {"state": self._run.told, "pipelineTaskName": producer, "error": {}}
            return {**status, "pipelineJobResourceName": self._run.name}
        constant = json_format.MessageToDict(spec.runtime_value.constant)
        return {
            dsl.PIPELINE_JOB_ID_PLACEHOLDER: self._run.id,
            dsl.PIPELINE_JOB_NAME_PLACEHOLDER: self._run.name,
            dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER: self._run.name,
            dsl.PIPELINE_TASK_NAME_PLACEHOLDER: name,
        }.get(constant, constant)

    def _run_container(
        self, name: str, task: PipelineTaskSpec, component: ComponentSpec, inputs: dict[str, Any], dag: _Dag
    ) -> Phase:
        if earlier_attempt := next((done for done in self._run.tasks if done.name == name), None):
            dag.outputs[name], dag.children[name] = earlier_attempt.outputs, "COMPLETE"
            return "Succeeded"
        result = TaskRun(name, "Succeeded")
        self._run.tasks.append(result)
        key = _fingerprint(component, self._executors[component.executor_label]["container"], inputs)
        if task.caching_options.enable_cache and (earlier := self._backend.cache.get(key)):
            result.cached, result.outputs, result.artifacts = True, earlier.outputs, earlier.artifacts
            dag.outputs[name], dag.children[name] = result.outputs, "CACHED"
            return "Succeeded"
        dag.children[name] = "RUNNING"
        self._run_attempts(result, task, component, inputs, dag)
        dag.outputs[name] = result.outputs
        dag.children[name] = "COMPLETE" if result.phase == "Succeeded" else "FAILED"
        # A lost pod has no launcher that could tell ML Metadata.
        if result.phase == "Error":
            dag.children[name] = "RUNNING"
        else:
            self._update(dag)
        if result.phase == "Succeeded":
            self._backend.cache[key] = result
        return result.phase

    def _run_attempts(
        self, result: TaskRun, task: PipelineTaskSpec, component: ComponentSpec, inputs: dict[str, Any], dag: _Dag
    ) -> None:
        for attempt in range(1 + task.retry_policy.max_retry_count):
            result.attempts += 1
            self._run.pods[result.name] += 1
            result.phase = self._run_pod(result, attempt, component, inputs, dag)
            if not self._backend.is_retried(result.phase, _NO_EXIT_CODE if result.phase == "Error" else 1):
                return

    def _run_pod(
        self, result: TaskRun, attempt: int, component: ComponentSpec, inputs: dict[str, Any], dag: _Dag
    ) -> Phase:
        folder = self._backend.folder / self._run.id / result.name / str(uuid.uuid4())
        folder.mkdir(parents=True)
        container = self._executors[component.executor_label]["container"]
        executor_input = _executor_input(component, inputs, folder)
        command = [
            part.replace("{{$}}", json.dumps(executor_input)) for part in (*container["command"], *container["args"])
        ]
        environment = self._environment(result.name, attempt, component.executor_label, container)
        plugin, mlflow_run = self._backend.mlflow, ""
        if plugin:
            mlflow_run = plugin.start(result.name, dag.mlflow_run)
            environment |= plugin.environment(mlflow_run)
        count = container["resources"].get("accelerator", {}).get("resourceCount", 0)
        code = self._backend.pods(Pod(result.name, attempt, command, environment, int(count)))
        phase: Phase = "Succeeded" if code == 0 else "Error" if code is None else "Failed"
        if plugin:
            plugin.end(mlflow_run, "SUCCEEDED" if code == 0 else "FAILED")
        if phase == "Succeeded":
            written = json.loads((folder / "executor_output.json").read_text())
            result.outputs = written["parameterValues"]
            result.artifacts = {
                name: {
                    "type": component.output_definitions.artifacts[name].artifact_type.schema_title,
                    **{key: of["artifacts"][0].get(key) for key in ("uri", "metadata", "name")},
                }
                for name, of in written["artifacts"].items()
            }
        return phase

    def _environment(self, task: str, attempt: int, label: str, container: dict[str, Any]) -> dict[str, str]:
        settings = self._settings.get(label, {})
        pod = f"{self._run.name}-{task}-{attempt}"
        labels = {**settings.get("podMetadata", {}).get("labels", {}), "pipeline/runid": self._run.id}
        # Argo numbers the attempts of a template that has a retry strategy.
        node_name = f"{self._run.name}.root.{task}.executor({attempt})"
        fields = {
            "metadata.name": pod,
            "spec.nodeName": "node-1",
            **{f"metadata.labels['{name}']": value for name, value in labels.items()},
            "metadata.annotations['workflows.argoproj.io/node-name']": node_name,
        }
        environment = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        environment |= {
            variable["name"]: fields[variable["fieldPath"]] for variable in settings.get("fieldPathAsEnv", [])
        }
        for kind in ("secret", "configMap"):
            for variable in settings.get(f"{kind}AsEnv", []):
                values = self._backend.secrets[variable[f"{kind}Name"]]
                environment |= {pair["envVar"]: values[pair[f"{kind}Key"]] for pair in variable["keyToEnv"]}
        return environment

    def _update(self, dag: _Dag) -> None:
        """The launcher's last call: recompute the state of the container's group, in 2.17 of those around it too."""
        if dag.parent is None:
            return
        states = [dag.state_of(task) for task in dag.children]
        if sum(state in ("COMPLETE", "CACHED", "CANCELED") for state in states) == len(dag.component.dag.tasks):
            dag.state = "COMPLETE"
        elif "FAILED" in states:
            dag.state = "FAILED"
        if self._backend.version != "2.16":
            self._update(dag.parent)


class MlflowPlugin:
    """The MLflow plugin of 2.17: what it creates on a server, and what a pod finds in its environment."""

    def __init__(self, uri: str, experiment: str = "kubeflow") -> None:
        from mlflow import MlflowClient

        self.uri, self.client = uri, MlflowClient(uri)
        artifacts = Path(uri.removeprefix("sqlite:///")).parent / "artifacts"
        self.experiment_id = self.client.create_experiment(experiment, artifact_location=artifacts.as_uri())

    def start(self, name: str, parent: str) -> str:
        tags = {"mlflow.parentRunId": parent} if parent else {}
        return str(self.client.create_run(self.experiment_id, run_name=name, tags=tags).info.run_id)

    def end(self, run_id: str, state: str) -> None:
        self.client.set_terminated(run_id, "FINISHED" if state == "SUCCEEDED" else "FAILED")

    def environment(self, run_id: str) -> dict[str, str]:
        return {
            "MLFLOW_RUN_ID": run_id,
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_EXPERIMENT_ID": self.experiment_id,
        }


def _dependencies(task: PipelineTaskSpec) -> set[str]:
    """Tasks that must be done before: the named ones and those whose outputs it takes."""
    inputs = task.inputs.parameters.values()
    producers = {
        parameter.task_output_parameter.producer_task
        for parameter in inputs
        if parameter.HasField("task_output_parameter")
    }
    return {*task.dependent_tasks, *producers}


def _all_succeeded(task: PipelineTaskSpec, dag: _Dag) -> bool:
    return all(dag.phases[dependency] == "Succeeded" for dependency in _dependencies(task))


def _holds_retry(clause: str, phase: Phase, exit_code: int) -> bool:
    """Evaluate one part of a retry expression."""
    match = _RETRY_CLAUSE.fullmatch(clause)
    assert match, clause
    return phase == match[1] if match[1] else exit_code > int(match[2])


def _holds(condition: str, inputs: Mapping[str, Any]) -> bool:
    match = _CONDITION.fullmatch(condition)
    assert match, f"a condition of another form: {condition}"
    return (inputs[match[1]] == match[3]) == (match[2] == "==")


def _fingerprint(component: ComponentSpec, container: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    outputs = component.output_definitions
    key = {
        "inputParameterValues": inputs,
        "outputArtifactsSpec": {
            name: artifact.artifact_type.schema_title for name, artifact in outputs.artifacts.items()
        },
        "outputParametersSpec": {name: parameter.parameter_type for name, parameter in outputs.parameters.items()},
        "containerSpec": [container["image"], container["command"], container["args"]],
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def _executor_input(component: ComponentSpec, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    outputs = component.output_definitions
    artifacts = {
        name: {
            "artifacts": [
                {
                    "name": name,
                    "type": json_format.MessageToDict(artifact.artifact_type),
                    "uri": str(folder / name),
                    "metadata": {},
                }
            ]
        }
        for name, artifact in outputs.artifacts.items()
    }
    return {
        "inputs": {"parameterValues": dict(inputs)},
        "outputs": {
            "parameters": {name: {"outputFile": str(folder / name)} for name in outputs.parameters},
            "artifacts": artifacts,
            "outputFile": str(folder / "executor_output.json"),
        },
    }
