"""A component as Kubeflow runs it, by its real executor: the page and the figures are outputs of the task."""

import json
from collections import Counter
from pathlib import Path

import pytest
from kfp import dsl
from PIL import Image

from rubricworks.components.data import prepare
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.runs.local import run_local
from rubricworks.runtime.launch import launch


@dsl.pipeline(name="images")
def images(run: str, prepare_config: str) -> None:
    prepare(config=prepare_config, run=run)


def outputs(run: Path, task: str) -> tuple[str, dict[str, float], dict[str, object], str]:
    """The page, the figures, the table's lineage and the URI that a task handed over."""
    (path,) = (run / "kfp").glob(f"*/{task}/executor_output.json")
    content = json.loads(path.read_text())
    artifacts = {name: of["artifacts"][0] for name, of in content["artifacts"].items()}
    assert artifacts.keys() == {"view", "metrics", "dataset"}
    return (
        Path(artifacts["view"]["uri"]).read_text(),
        artifacts["metrics"]["metadata"],
        artifacts["dataset"]["metadata"],
        content["parameterValues"]["Output"],
    )


@pytest.mark.slow
def test_executor_hands_over_page_and_figures_also_of_a_finished_stage(tmp_path, capfd):
    source, run = tmp_path / "images", tmp_path / "run"
    source.mkdir()
    for number in range(6):
        Image.new("RGB", (12, 12), (40 * number, 90, 90)).save(source / f"{number}.png")
    (source / "broken.png").write_text("no image")
    configs = {"prepare": json.dumps({"source": str(source), "held_out": 2})}
    for attempt in range(2):
        run_local(images, pipeline_arguments(str(run), configs), run=run)
        view, metrics, lineage, uri = outputs(run, "prepare")
        splits = Counter(row["split"] for row in read_rows(run / "prepare", columns=["split"]))
        assert (metrics["train"], metrics["held_out"], metrics["rejected"]) == (splits["train"], splits["held_out"], 1)
        assert splits.total() == 6
        assert "6 samples, 1 could not be used" in view
        assert view.count("<img src=") == 4
        assert Path(uri) == run / "prepare"
        digest = json.loads((run / "prepare" / "done.json").read_text())["digest"]
        assert (lineage["uri"], lineage["digest"]) == (uri, digest)
        assert (lineage["table"], lineage["rows"], lineage["stage"]) == ("samples", 6, "prepare")
        assert ("done in an earlier run" in capfd.readouterr().err) == bool(attempt)


@pytest.mark.slow
def test_a_stage_that_fails_hands_nothing_over(tmp_path):
    configs = {"prepare": json.dumps({"source": str(tmp_path / "nowhere")})}
    with pytest.raises(UserError, match="nowhere"):
        run_local(images, pipeline_arguments(str(tmp_path / "run"), configs), run=tmp_path / "run")
    assert not list((tmp_path / "run" / "kfp").glob("*/*/executor_output.json"))


def test_figures_have_names_that_a_database_without_emoji_stores(tmp_path, monkeypatch):
    monkeypatch.setattr("rubricworks.reports.stage_page.metrics_of", lambda *_: {"win/\N{ROCKET} é": 0.5})
    (tmp_path / "images").mkdir()
    for number in range(2):
        Image.new("RGB", (12, 12), (90 * number, 0, 0)).save(tmp_path / "images" / f"{number}.png")
    logged: dict[str, float] = {}
    config = json.dumps({"source": str(tmp_path / "images"), "held_out": 1})
    launch("prepare", config, str(tmp_path / "run"), {}, metrics=logged.__setitem__)
    assert logged == {"win/U+1F680 é": 0.5}
