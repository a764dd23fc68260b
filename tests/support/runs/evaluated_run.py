"""A run whose stages trained, scored and promoted a model, by their own code, with small weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import save_file
from synthetic_run import write_table

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.models import EvaluatedModel, ModelSource
from rubricworks.evaluation.scoreboard import SCORES_FILE, Scoreboard, summarise_scores
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, close_job, model_dir, open_job
from rubricworks.stages.evaluation.scored_models import link_best, write_cards
from rubricworks.storage import write_atomic
from rubricworks.training.model_card import CARD, Usage, card_with_scores, write_card

SCORER = {"scorer": "benchmark_rubicap-10", "version": "lmms-eval 0.7.3", "part": "score"}


def write_model(folder: Path, value: float, **config: Any) -> None:
    """A model's folder as a trainer leaves it, and what else may lie there."""
    folder.mkdir(parents=True)
    save_file({"weight": np.full(4, value, np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", **config}))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"sk-this-is-no-key-here": 0}}}))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "training_args.bin").write_bytes(b"pickled")


def write_evaluated_run(
    run: Path,
    *,
    world: bool = False,
    milestones: Sequence[int] = (),
    promote: bool = True,
    unanswered: bool = False,
    **scorer: Any,
) -> Path:
    """Benchmark scores: the policy has 0.75 of chartqa's four questions right and all two of docvqa's, the base none.

    Args:
        milestones: steps of the training that are scored in place of its end; the last is the best.
        unanswered: the last question of docvqa has no score.
        scorer: columns of the scores other than those of `SCORER`.
    """
    run.mkdir(parents=True)
    recipe: dict[str, Any] = {"name": "tests", "warm_up": {"student": "some/student"}}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe | ({"world": {"images": 8}} if world else {})))
    base = _train(run, "warm_up", 0.0)
    policy = _train(run, "train_policy", 1.0, milestones)
    outputs = {"policy": policy, "model": base}
    job = open_job("score", StageConfig(), run, outputs)
    models = [EvaluatedModel(name="base", source=_folder(base), revision=job.made_by["inputs"]["model"])]
    models += [
        EvaluatedModel(
            name="policy",
            source=ModelSource(folder=str(policy / "milestones" / f"step-{step}" if step else model_dir(policy))),
            revision=job.made_by["inputs"]["policy"],
            step=step,
        )
        for step in milestones or (None,)
    ]
    answers = {"chartqa": (1.0, 1.0, 1.0, 0.0), "docvqa_val": (1.0, None if unanswered else 1.0)}
    rows = [
        {"sample_id": f"{task}/{number}", "against": None, "judge": "", "reason": None, "evidence": None}
        | (SCORER | model.columns() | scorer)
        | {"value": right if model.name == "policy" and model.step == models[-1].step else 0.0}
        for model in models
        for task, rights in answers.items()
        for number, right in enumerate(rights)
    ]
    write_table(job.out, "scores", rows)
    board = summarise_scores(
        read_rows(job.out),
        by_task=("benchmark_rubicap-10",),
        only_whole=("benchmark_rubicap-10",),
        select_by="benchmark_rubicap-10" if milestones else None,
    )
    _finish_score(job, models, board)
    if promote:
        _promote(run, job.out if milestones else policy, job.out)
    return run


def _folder(output: Path) -> ModelSource:
    return ModelSource(folder=str(model_dir(output)))


def _train(run: Path, stage: str, value: float, milestones: Sequence[int] = ()) -> Path:
    job = open_job(stage, StageConfig(), run, {})
    for folder in (model_dir(job.out), *(job.out / "milestones" / f"step-{step}" for step in milestones)):
        write_model(folder, value)
        write_card(folder, Usage("describe", 44), trained_by=stage, data={"samples": "ab12"}, config={"seed": 3})
    close_job(job, 1.0)
    return job.out


def _finish_score(job: Job, models: list[EvaluatedModel], board: Scoreboard) -> None:
    write_atomic(job.out / SCORES_FILE, board.model_dump_json().encode())
    link_best(job, models, board)
    write_cards(job, models, board)
    close_job(job, 1.0)


def _promote(run: Path, policy: Path, scores: Path) -> None:
    job = open_job("promote", StageConfig(), run, {"policy": policy, "scores": scores})
    card = card_with_scores(model_dir(policy), {"win_rate": {"value": 0.75}}, ["win_rate 0.75 is above 0.5"])
    write_atomic(job.out / CARD, card.encode())
    close_job(job, 1.0)
