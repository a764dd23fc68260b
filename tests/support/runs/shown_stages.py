"""Finished stages as the Kubeflow UI shows them, and folders of stages to show."""

from pathlib import Path

import synthetic_run as folder
from report_page import Page, text_of

from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.stage_page import show_stage
from rubricworks.runtime.stage_table import STAGES, Stage


def shown(run: Path, stage: str, **inputs: str) -> tuple[str, dict[str, float]]:
    """The page's HTML and the figures of a stage; an input is named by the stage that made it."""
    metrics: dict[str, float] = {}
    view = run / "kfp" / stage / "view"
    of_stage = STAGES.get(stage, Stage(stage, "stages", "data", "cpu"))
    paths = {name: run / maker for name, maker in inputs.items()}
    finished = RunFolder(run, stage, paths)
    show_stage(finished, of_stage.load_sections, str(view), metrics.__setitem__, title=of_stage.title)
    html = view.read_text()
    assert "could not be made" not in html, text_of(html)[:600]
    return html, metrics


def pictures(html: str) -> list[str]:
    return [attributes["src"] or "" for tag, attributes in Page(html).tags if tag == "img"]


def caption(sample_id: str, captioner: str, text: str) -> dict[str, object]:
    return {
        **{"sample_id": sample_id, "captioner": captioner, "model": captioner, "revision": "", "prompt_version": "1"},
        **{"endpoint": "", "seed": 0, "caption": text, "prompt_tokens": 1, "completion_tokens": 1, "cost": 0.0},
    }


def write_samples(run: Path, stage: str = "prepare", **more: object) -> None:
    splits = {"a": "train", "b": "train", "c": "held_out", "d": "warm_up"}
    rows = [
        {**folder.sample(key, folder.picture("red", 600), split), "references": [f"a red square {key}"], **more}
        for key, split in splits.items()
    ]
    folder.write_table(run / stage, "samples", rows)


def write_training(run: Path) -> None:
    write_samples(run)
    rows = [
        folder.rollout(
            step, f"said {number} at step {step}", 10 + step, None if number == 3 else number / 4 + step / 20
        )
        for step in range(1, 6)
        for number in range(4)
    ]
    folder.write_table(run / "train_policy" / "rollouts", "rollouts", rows)
