"""Components as a catalogue of others takes them: one folder each, with its definition, its facts and a page.

The form is that of kubeflow/pipelines-components: `<category>/<component>/` with `component.py`, `metadata.yaml`,
`OWNERS` and a `README.md` of its headings, which its own generator can write again up to `<!-- custom-content -->`; and
`component.yaml`, which `kfp.components.load_component_from_file` reads where rubricworks is not installed. Where a
component runs is from the stage table; types, defaults and descriptions are the component's own.
"""

import importlib
import inspect
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_origin

import docstring_parser
import yaml
from kfp import compiler
from kfp.dsl.python_component import PythonComponent

from rubricworks.components import images
from rubricworks.runtime.stage_table import STAGES, Stage
from rubricworks.storage import write_atomic

KFP = "2.16.0"
"""The oldest Kubeflow Pipelines that runs the components."""


def export_component(stage: Stage, folder: Path, *, version: str, verified: date, owners: Sequence[str]) -> Path:
    """Write the files of a stage's component below `folder` and return their folder.

    Args:
        version: of this package, whose images hold what the component runs.
        verified: day on which the component was last seen to work.
        owners: GitHub names of those who approve changes.
    """
    component = component_of(stage)
    place = folder / stage.phase / stage.id
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "name": stage.id,
        "stability": "beta",
        "dependencies": {
            "kubeflow": [{"name": "Pipelines", "version": f">={KFP}"}],
            "external_services": [{"name": "rubricworks", "version": f">={version}"}],
        },
    }
    tags = [stage.phase, *(["models"] if stage.calls_models else [])]
    # A date-time by RFC 3339, which PyYAML would write with a space.
    last_verified = f"{verified.isoformat()}T00:00:00Z"
    written = f"{_yaml(facts)}lastVerified: {last_verified}\n{_yaml({'tags': tags})}"
    people = {"approvers": list(owners), "reviewers": list(owners)}
    shown = {**facts, "last_verified": last_verified, "tags": tags, "owners": people}
    write_atomic(place / "metadata.yaml", written.encode())
    write_atomic(place / "OWNERS", _yaml(people).encode())
    write_atomic(place / "README.md", component_page(stage, component, shown).encode())
    write_atomic(place / "component.py", component_source(stage, component).encode())
    exposed = f'from .component import {stage.id}\n\n__all__ = ["{stage.id}"]\n'
    write_atomic(place / "__init__.py", exposed.encode())
    with tempfile.TemporaryDirectory() as scratch:
        definition = Path(scratch) / "component.yaml"
        compiler.Compiler().compile(component, str(definition))
        write_atomic(place / "component.yaml", definition.read_bytes())
    return place


def component_page(stage: Stage, component: PythonComponent, metadata: Mapping[str, object]) -> str:
    """Return a component's page: what it does, what it takes and gives, and where it runs.

    Args:
        metadata: facts of `metadata.yaml` and `OWNERS`.
    """
    described = docstring_parser.parse(component.python_func.__doc__ or "")
    words = {item.arg_name: item.description or "" for item in described.params}
    signature = inspect.signature(component.python_func)
    returned = described.returns.description if described.returns else ""
    overview = [paragraph for paragraph in (described.short_description, described.long_description) if paragraph]
    return "\n".join(
        [
            f"# {_title(stage.id)} ✨",
            "",
            f"> ⚠️ **Stability: {metadata['stability']}** — This asset is not yet stable and may change.",
            "",
            "## Overview 🧾",
            "",
            "\n\n".join(overview),
            "",
            "## Inputs 📥",
            "",
            "| Parameter | Type | Default | Description |",
            "|-----------|------|---------|-------------|",
            *(
                f"| `{parameter.name}` | `{_annotation_text(parameter.annotation)}` "
                f"| {'Required' if parameter.default is Parameter.empty else f'`{parameter.default!r}`'} "
                f"| {_cell(words.get(parameter.name))} |"
                for parameter in signature.parameters.values()
            ),
            "",
            "## Outputs 📤",
            "",
            "| Name | Type | Description |",
            "|------|------|-------------|",
            f"| Output | `{_annotation_text(signature.return_annotation)}` | {_cell(returned)} |",
            "",
            "## Metadata 🗂️",
            "",
            *(line for name, value in metadata.items() for line in _listed(f"**{_title(name)}**", value, 0)),
            "",
            "<!-- custom-content -->",
            "",
            "## Where it runs",
            "",
            *(f"- {fact}" for fact in _facts(stage)),
            "",
        ]
    )


def component_of(stage: Stage) -> PythonComponent:
    """Import and return the component of a stage."""
    component: PythonComponent = getattr(importlib.import_module(stage.component), stage.id)
    return component


def component_source(stage: Stage, component: PythonComponent) -> str:
    """Return a component as a file of its own, as the catalogue's generator reads it."""
    function = component.python_func
    head = f"from typing import NamedTuple\n\nfrom kfp import dsl\n\nfrom {images.__name__} import image_of\n\n\n"
    if function.__module__ == stage.component:
        return head + inspect.getsource(function)
    signature = inspect.signature(function)
    # A parameter with a default stands last.
    parameters = sorted(signature.parameters.values(), key=lambda parameter: parameter.default is not Parameter.empty)
    declarations = [
        f"    {parameter.name}: {_annotation_text(parameter.annotation)}"
        f"{'' if parameter.default is Parameter.empty else f' = {parameter.default!r}'},"
        for parameter in parameters
    ]
    return head + "\n".join(
        [
            f'@dsl.component(base_image=image_of("{stage.id}"), install_kfp_package=False, packages_to_install=[])',
            f"def {stage.id}(",
            *declarations,
            ") -> str:",
            textwrap.indent(f'"""{inspect.getdoc(function)}\n"""', "    "),
            f"    from {function.__module__} import stage_function",
            "",
            f'    return stage_function("{stage.id}")(',
            *(f"        {name}={name}," for name in signature.parameters),
            "    )",
            "",
        ]
    )


def export_components(folder: Path, *, version: str, verified: date, owners: Sequence[str]) -> list[Path]:
    """Write every component below `folder`, and a page of each category; return the components' folders."""
    places = [
        export_component(stage, folder, version=version, verified=verified, owners=owners) for stage in STAGES.values()
    ]
    for phase in dict.fromkeys(stage.phase for stage in STAGES.values()):
        write_atomic(folder / phase / "README.md", _category_page(phase).encode())
    return places


def _category_page(phase: str) -> str:
    stages = sorted((stage for stage in STAGES.values() if stage.phase == phase), key=lambda stage: _title(stage.id))
    lines = [
        f"# {_title(phase)} Components",
        "",
        f"This directory contains components in the **{_title(phase)}** category.",
        "",
        "## Components",
        "",
    ]
    for stage in stages:
        described = docstring_parser.parse(component_of(stage).python_func.__doc__ or "")
        link = f"[View Details](./{stage.id}/README.md)"
        lines += [f"### {_title(stage.id)}", "", described.short_description or "", "", link, "", "---", ""]
    return "\n".join(lines)


def _listed(name: str, value: Any, depth: int) -> Iterator[str]:
    """Lines of a nested list, as the catalogue shows metadata."""
    bullet = f"{'  ' * depth}- {name}:"
    if isinstance(value, dict):
        yield bullet
        for key, inner in value.items():
            yield from _listed(_title(key), inner, depth + 1)
    elif isinstance(value, list):
        yield bullet
        for item in value:
            text = ", ".join(f"{_title(key)}: {part}" for key, part in item.items()) if isinstance(item, dict) else item
            yield f"{'  ' * (depth + 1)}- {text}"
    else:
        yield f"{bullet} {value}"


def _title(name: str) -> str:
    return " ".join(word.capitalize() for word in name.split("_"))


def _yaml(value: Mapping[str, object]) -> str:
    return str(yaml.safe_dump(value, sort_keys=False))


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


def _annotation_text(annotation: Any) -> str:
    """Return an annotation as a component's source has it."""
    if hasattr(annotation, "_fields"):
        fields = ", ".join(f'("{name}", {_annotation_text(kind)})' for name, kind in annotation.__annotations__.items())
        return f'NamedTuple("{annotation.__name__}", [{fields}])'
    if get_origin(annotation) is Annotated:
        return f"dsl.Output[dsl.{annotation.__origin__.__name__}]"
    return f"dsl.{annotation.__name__}" if annotation.__module__.startswith("kfp.") else annotation.__name__


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
