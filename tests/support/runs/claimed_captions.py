"""Folders of BalCapRL runs and arms as their stages leave them, with figures chosen by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from synthetic_run import write_table

from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.recipe.files import load_recipe, recipe_path

BASE = {
    **{"dc_score": 0.40, "caption_qa": 0.50, "length_tokens": 30.0, "b_capscore": 0.45},
    **{"b_capscore_precision": 0.60, "b_capscore_recall": 0.40, "b_capscore_linguistic": 0.70},
    **{"oracle_f1": 0.55, "visual_questions_right": 0.30},
}
REFERENCE = "at top a big red circle . the word CAT is written at the bottom ."
PLAIN = "at top a small red circle ."
REMARK = "at bottom a big circle . it adds depth to the picture ."
RUNS: dict[str | None, tuple[float, float, float, float, float, float]] = {
    None: (0.50, 0.56, 0.70, 32.0, 0.55, 0.70),
    "full": (0.52, 0.55, 0.65, 36.0, 0.56, 0.72),
    "no_cgdpo": (0.42, 0.51, 0.45, 28.0, 0.47, 0.60),
    "no_precision": (0.44, 0.54, 0.64, 38.0, 0.48, 0.57),
    "no_recall": (0.51, 0.53, 0.60, 29.0, 0.52, 0.69),
    "no_linguistic": (0.53, 0.58, 0.30, 60.0, 0.44, 0.71),
    "no_pointability": (0.41, 0.49, 0.35, 41.0, 0.43, 0.56),
    "weak_references": (0.47, 0.52, 0.55, 30.0, 0.50, 0.66),
    "no_length": (0.43, 0.505, 0.52, 22.0, 0.46, 0.61),
    "linear": (0.525, 0.54, 0.50, 27.0, 0.53, 0.68),
    "gate_0_3": (0.435, 0.515, 0.51, 23.0, 0.465, 0.62),
    "gate_05_1": (0.48, 0.545, 0.66, 26.0, 0.54, 0.67),
    "gate_05_3": (0.54, 0.57, 0.50, 44.0, 0.545, 0.73),
    "judge_mini": (0.49, 0.53, 0.62, 33.0, 0.51, 0.65),
    "judge_strong": (0.505, 0.57, 0.72, 31.0, 0.57, 0.74),
    "sft": (0.515, 0.535, 0.58, 33.5, 0.535, 0.675),
}
"""Arm (None: the recipe's own run) → DCScore, CaptionQA, share won, tokens, b-CapScore and oracle F1 of its policy."""

SETTINGS = ("world.scenes=2800", "data.held_out=192", "warm_up.sft.steps=400", "policy.algorithm.steps=45")


def write_captions(
    folder: Path,
    arm: str | None = None,
    *,
    seed: int = 1,
    settings: Sequence[str] = (),
    base: Mapping[str, float] = BASE,
    policy: Mapping[str, float | None] | None = None,
    captions: Sequence[str] = (PLAIN, PLAIN, PLAIN, REMARK),
) -> Path:
    """A finished run.

    Args:
        policy: its figures where they differ from those in `RUNS`.
        captions: the policy's on four held-out images; the base model remarks on none.
    """
    recipe = load_recipe(recipe_path("balcaprl-laptop"), [*settings, f"seed={seed}"], arm=arm)
    saved = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
    write(folder / "recipe.yaml", yaml.safe_dump(saved, allow_unicode=True))
    names = ("dc_score", "caption_qa", "arena_win", "length_tokens", "b_capscore", "oracle_f1")
    figures = dict(zip(names, RUNS.get(arm, RUNS[None]), strict=True))
    figures |= {"visual_questions_right": 0.11 if arm == "sft" else 0.32} | dict(policy or {})
    board = Scoreboard(base="base", models=(_scores("base", base), _scores("policy", figures)))
    pairs = [(f"s{n}", texts) for n, caption in enumerate(captions) for texts in (("base", PLAIN), ("policy", caption))]
    scores = [_row(sample, *texts) for sample, texts in pairs]
    responses = [_response(sample, *texts) for sample, texts in pairs]
    # What was said to a visual question is no caption.
    responses += [_response("a-question", model, REMARK) for model in ("base", "policy")]
    write_table(folder / "score", "scores", scores)
    write_table(folder / "score" / "responses", "responses", responses)
    write(folder / "score" / "scores.json", board.model_dump_json())
    write(folder / "score" / "done.json", "{}")
    return folder


def write_seed(runs: Path, seed: int = 1, **changed: Mapping[str, float | None]) -> Path:
    """A seed's own run (`own=`) and its arms beside it; returns the folder of its own."""
    for arm in RUNS:
        name = f"seed-{seed}" if arm is None else f"seed-{seed}-{arm}"
        captions = (REMARK, REMARK, PLAIN, REMARK) if arm == "no_pointability" else (PLAIN, PLAIN, PLAIN, REMARK)
        write_captions(
            runs / name,
            arm,
            seed=seed,
            settings=[setting for setting in SETTINGS if arm != "sft" or "algorithm" not in setting],
            policy=changed.get(arm or "own"),
            captions=captions,
        )
    return runs / f"seed-{seed}"


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _scores(model: str, values: Mapping[str, float | None]) -> ModelScores:
    means = {name: _figure(value) for name, value in values.items() if value is not None}
    return ModelScores(model=model, decoding="greedy", means=means)


def _figure(value: float) -> Interval:
    return Interval(value=value, low=value * 0.9, high=value * 1.1, samples=4)


def _response(sample_id: str, model: str, caption: str) -> dict[str, Any]:
    row = {"sample_id": sample_id, "model": model, "revision": "", "decoding": "greedy"}
    return {**row, "response": caption, "tokens": 9}


def _row(sample_id: str, model: str, caption: str) -> dict[str, Any]:
    row = {"sample_id": sample_id, "model": model, "revision": "", "decoding": "greedy", "version": "1", "judge": "j"}
    evidence = json.dumps({"caption": caption, "reference": REFERENCE})
    return {**row, "scorer": "b_capscore", "part": "score", "value": 0.5, "evidence": evidence}
