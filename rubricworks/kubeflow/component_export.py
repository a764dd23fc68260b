"""Components as a catalogue of others takes them: one folder each, with its definition, its facts and a page.

The form is that of kubeflow/pipelines-components: `<category>/<component>/` with `component.yaml`, which
`kfp.components.load_component_from_file` reads, `metadata.yaml`, `OWNERS` and `README.md`. The facts are those of the
stage table; types, defaults and descriptions are the component's own.
"""

import importlib
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import docstring_parser
import yaml
from kfp import compiler
from kfp.dsl.python_component import PythonComponent

from rubricworks.runtime.stage_table import STAGES, Stage
from rubricworks.storage import write_atomic

KFP = "2.16.0"
"""The oldest Kubeflow Pipelines that runs the components."""


def export_component(stage: Stage, folder: Path, *, version: str, verified: date, owners: Sequence[str]) -> Path:
    """Write the four files of a stage's component below `folder` and return their folder.

    Args:
        version: of this package, whose images hold what the component runs.
        verified: day on which the component was last seen to work.
        owners: GitHub names of those who approve changes.
    """
    component: PythonComponent = getattr(importlib.import_module(stage.component), stage.id)
    place = folder / stage.phase / stage.id
    place.mkdir(parents=True, exist_ok=True)
    metadata = {
        "name": stage.id,
        "stability": "beta",
        "dependencies": {
            "kubeflow": [{"name": "Pipelines", "version": f">={KFP}"}],
            "external_services": [{"name": "rubricworks", "version": f">={version}"}],
        },
        "lastVerified": datetime.combine(verified, time(), UTC),
        "tags": [stage.phase, *(["models"] if stage.calls_models else [])],
    }
    write_atomic(place / "metadata.yaml", yaml.safe_dump(metadata, sort_keys=False).encode())
    people = "".join(f"- {name}\n" for name in owners)
    write_atomic(place / "OWNERS", f"approvers:\n{people}reviewers:\n{people}".encode())
    write_atomic(place / "README.md", component_page(stage, component).encode())
    with tempfile.TemporaryDirectory() as scratch:
        definition = Path(scratch) / "component.yaml"
        compiler.Compiler().compile(component, str(definition))
        write_atomic(place / "component.yaml", definition.read_bytes())
    return place


def component_page(stage: Stage, component: PythonComponent) -> str:
    """Return a component's page: what it does, what it takes and gives, and where it runs.

    Several returned values are described in their order, divided by semicolons.
    """
    described = docstring_parser.parse(component.python_func.__doc__ or "")
    spec = component.component_spec
    words = {item.arg_name: item.description or "" for item in described.params}
    returned = [name for name in spec.outputs or {} if name not in words]
    texts = (described.returns.description or "").split(";", len(returned) - 1) if described.returns else []
    words |= dict(zip(returned, texts, strict=False))
    return "\n".join(
        [
            f"# {stage.title or stage.id.replace('_', ' ')}",
            "",
            *[paragraph for paragraph in (described.short_description, described.long_description) if paragraph],
            "",
            "## Inputs",
            "",
            "| Parameter | Type | Default | Description |",
            "|---|---|---|---|",
            *(
                f"| `{name}` | {item.type} | {_default(item)} | {_cell(words, name)} |"
                for name, item in (spec.inputs or {}).items()
            ),
            "",
            "## Outputs",
            "",
            "| Name | Type | Description |",
            "|---|---|---|",
            *(f"| `{name}` | {item.type} | {_cell(words, name)} |" for name, item in (spec.outputs or {}).items()),
            "",
            "## Where it runs",
            "",
            *(f"- {fact}" for fact in _facts(stage)),
            "",
        ]
    )


def export_components(folder: Path, *, version: str, verified: date, owners: Sequence[str]) -> list[Path]:
    """Write every component below `folder`, and a page of each category; return the components' folders."""
    places = [
        export_component(stage, folder, version=version, verified=verified, owners=owners) for stage in STAGES.values()
    ]
    for phase in dict.fromkeys(stage.phase for stage in STAGES.values()):
        lines = [f"- [{stage.id}](./{stage.id}/README.md)" for stage in STAGES.values() if stage.phase == phase]
        page = "\n".join([f"# Components: {phase}", "", *lines, ""])
        write_atomic(folder / phase / "README.md", page.encode())
    return places


def _facts(stage: Stage) -> list[str]:
    """Sentences of the stage table that matter to whoever places the component."""
    image = "loads a model, on an accelerator or a CPU" if stage.image == "trainer" else "needs no accelerator"
    facts = [f"Image `{stage.image}`: it {image}."]
    if stage.table:
        facts.append(f"It writes a table `{stage.table}`, and resumes from the shards that it has committed.")
    if stage.calls_models:
        facts.append("It calls the models' endpoints that its configuration names.")
    if stage.multi_process:
        facts.append("On a pod with several accelerators it starts a process for each.")
    if stage.multi_node:
        facts.append("It can train on several nodes, as a TrainJob.")
    if stage.can_fan_out:
        facts.append("Its items can be divided over the pods of an Indexed Job.")
    cached = "may cache it: its output depends on its inputs alone" if stage.cacheable else "must not cache it"
    return [*facts, f"Kubeflow {cached}."]


def _default(item: Any) -> str:
    return f"`{item.default}`" if item.optional else "required"


def _cell(words: dict[str, str], name: str) -> str:
    return " ".join(words.get(name, "").split()).replace("|", "\\|")
