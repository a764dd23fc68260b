"""The catalogue of components against the rules of kubeflow/pipelines-components (scripts/validate_metadata)."""

import importlib.util
import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from kfp import dsl
from kfp.components import load_component_from_file

from rubricworks.cli import cli
from rubricworks.kubeflow.component_export import component_of, component_page, export_component
from rubricworks.runtime.stage_table import STAGES

# The catalogue's required fields in their order, then its optional ones; its versions are semantic ones.
FIELDS = ["name", "stability", "dependencies", "lastVerified", "tags"]
VERSION = re.compile(r"(>=|<=|==)?\d+\.\d+\.\d+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogue")
    for name in ("train_policy", "prepare", "outcome", "score"):
        export_component(STAGES[name], folder, version="0.1.0", verified=date(2026, 5, 4), owners=["octocat"])
    return folder


def test_metadata_has_the_fields_of_the_catalogue_in_its_order(folder):
    text = (folder / "training/train_policy/metadata.yaml").read_text()
    metadata = yaml.safe_load(text)
    assert list(metadata) == FIELDS
    assert metadata["name"] == "train_policy"
    assert metadata["stability"] in {"alpha", "beta", "stable"}
    assert metadata["lastVerified"] == datetime(2026, 5, 4, tzinfo=UTC)
    assert "\nlastVerified: 2026-05-04T00:00:00Z\n" in text
    assert set(metadata["dependencies"]) == {"kubeflow", "external_services"}
    assert any(item["name"] == "Pipelines" for item in metadata["dependencies"]["kubeflow"])
    for item in (*metadata["dependencies"]["kubeflow"], *metadata["dependencies"]["external_services"]):
        assert VERSION.fullmatch(item["version"])


def test_owners_name_an_approver_in_the_line_after_the_heading(folder):
    assert (folder / "training/train_policy/OWNERS").read_text().startswith("approvers:\n- octocat\n")


def test_pages_have_the_headings_of_the_catalogue_and_keep_our_own_after_its_mark(folder):
    page = (folder / "training/train_policy/README.md").read_text()
    generated, _, own = page.partition("<!-- custom-content -->")
    assert re.findall("^#.*", generated, re.M) == [
        "# Train Policy ✨", "## Overview 🧾", "## Inputs 📥", "## Outputs 📤", "## Metadata 🗂️"
    ]  # fmt: skip
    assert "> ⚠️ **Stability: beta**" in generated
    assert "- **Dependencies**:\n  - Kubeflow:\n    - Name: Pipelines, Version: >=2.16.0\n" in generated
    assert "- **Owners**:\n  - Approvers:\n    - octocat\n" in generated
    assert re.findall("^#.*", own, re.M) == ["## Where it runs"]


@pytest.mark.parametrize("place", ["training/train_policy", "data/prepare", "cluster/outcome", "evaluation/score"])
def test_the_source_that_the_catalogue_reads_compiles_to_the_same_interface(folder, place):
    stage = Path(place).name
    spec = importlib.util.spec_from_file_location(stage, folder / place / "component.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = getattr(module, stage).component_spec
    expected = component_of(STAGES[stage]).component_spec
    assert (written.name, written.description) == (expected.name, expected.description)
    assert (written.inputs, written.outputs) == (expected.inputs, expected.outputs)
    assert (folder / place / "__init__.py").read_text().startswith(f"from .component import {stage}\n")


def test_the_source_that_the_catalogue_reads_starts_the_stage(folder, monkeypatch):
    launched = []
    monkeypatch.setattr("rubricworks.runtime.launch.launch", lambda *call, **_: launched.append(call) or "file:///out")
    spec = importlib.util.spec_from_file_location("written", folder / "evaluation/score/component.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    artifacts = {"dataset": dsl.Dataset(), "view": dsl.HTML(uri="gs://a/view"), "metrics": dsl.Metrics()}
    uris = {name: f"uri of {name}" for name in STAGES["score"].inputs}
    assert module.score.python_func(config="{}", run="r", **uris, **artifacts) == "file:///out"
    assert launched == [("score", "{}", "r", uris)]


def test_kfp_loads_each_definition_with_the_inputs_of_its_page(folder):
    for place in (folder / "training/train_policy", folder / "data/prepare", folder / "cluster/outcome"):
        component = load_component_from_file(str(place / "component.yaml"))
        page = (place / "README.md").read_text()
        inputs, _, outputs = page.partition("## Outputs")
        spec = component.component_spec
        artifacts = {name for name in spec.outputs or {} if f"`{name}`" in inputs}
        assert set(re.findall(r"^\| `(\w+)`", inputs, re.M)) == {*(spec.inputs or {}), *artifacts}
        assert len(re.findall(r"^\| Output \| `", outputs, re.M)) == bool(set(spec.outputs or {}) - artifacts)


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.id)
def test_every_input_and_output_is_described(stage):
    page = component_page(stage, component_of(stage), {"stability": "beta"})
    rows = re.findall(r"^\| (?:`|Output).*\|$", page, re.M)
    assert len(rows) >= 3
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


def test_what_is_returned_is_described_by_the_component_itself(folder):
    assert (
        "URI of the folder that holds the trained policy." in (folder / "training/train_policy/README.md").read_text()
    )


def test_the_facts_are_those_of_the_stage_table(folder):
    policy = (folder / "training/train_policy/README.md").read_text()
    prepare = (folder / "data/prepare/README.md").read_text()
    assert "Image `trainer`" in policy
    assert "TrainJob" in policy
    assert "Image `cpu`" in prepare
    assert "TrainJob" not in prepare


def test_the_command_needs_somebody_who_approves():
    result = CliRunner().invoke(cli, ["pipelines", "components"])
    assert result.exit_code == 2
    assert "--owner" in result.output
