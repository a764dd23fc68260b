"""Models of an evaluation: which are scored, the cards that they get, and the link to the best milestone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from rubricworks.data.alarm import ALARM_FILE
from rubricworks.errors import UserError
from rubricworks.evaluation.models import EvaluatedModel, ModelSource
from rubricworks.evaluation.scoreboard import BASE, Scoreboard
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.evaluation.score_config import BEST_OF_N, Evaluation, ImageEvaluation, TextEvaluation
from rubricworks.storage import link, write_atomic
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.training.model_card import CARD, card_with_scores

CARDS = "cards"
"""Folder of the models' cards with their scores."""


def scored_models(config: Evaluation, job: Job) -> Iterator[EvaluatedModel]:
    """Models in the order of the board: base, peer, policy, then the further ones."""
    peer, policy = config.trained_names()
    for name, key in ((BASE, "model"), (peer, "peer"), (policy, "policy")):
        if key not in job.inputs:
            continue
        revision, folder = job.made_by["inputs"][key], job.inputs[key]
        steps: Mapping[int | None, Path] = {None: model_dir(folder)}
        if name != BASE and selecting_figure(config):
            steps = cast(Mapping[int | None, Path], milestone_dirs(folder))
            if not steps:
                raise UserError(f"{folder} kept no milestones; set policy.algorithm.milestone_every")
        for step, path in steps.items():
            for decoding in config.decodings:
                source = ModelSource(folder=str(path))
                yield EvaluatedModel(name=name, source=source, revision=revision, step=step, decoding=decoding)
        if name == BASE and isinstance(config, ImageEvaluation) and config.best_of:
            yield EvaluatedModel(
                name=BEST_OF_N, source=ModelSource(folder=str(model_dir(folder))), revision=revision, decoding="sampled"
            )
    for name, source in config.models.items():
        endpoint = source.endpoint
        decodings = (
            config.decodings if source.folder else ("sampled" if endpoint and endpoint.temperature else "greedy",)
        )
        for decoding in decodings:
            revision = source.revision or (endpoint.revision if endpoint else "")
            yield EvaluatedModel(name=name, source=source, revision=revision, decoding=decoding)


def selecting_figure(config: Evaluation) -> str | None:
    """Figure that chooses the best milestone; None if no milestones are scored."""
    return config.select_by if isinstance(config, TextEvaluation) else None


def model_label(model: EvaluatedModel) -> str:
    """Name of a model among all of an evaluation, with its milestone."""
    return model.name if model.step is None else f"{model.name} at {model.step}"


def model_key(model: EvaluatedModel) -> tuple[str, int | None, str]:
    return model.name, model.step, model.decoding


def write_cards(job: Job, models: list[EvaluatedModel], board: Scoreboard) -> None:
    """Write the card of every model directory that has one, with its scores: `cards/NAME.md`."""
    for model in models:
        scores = board.scores(model.name)
        if scores is None or model.folder is None or model.step != scores.step:
            continue
        if not (model.folder / CARD).is_file():
            continue
        parts = {
            figure: {part: getattr(mean, part) for part in ("value", "low", "high", "samples")}
            for figure, mean in scores.means.items()
        }
        figures = {board.title(figure): values for figure, values in parts.items()}
        file = job.out / CARDS / f"{model.name.replace('/', '_')}.md"
        write_atomic(file, card_with_scores(model.folder, figures).encode())


def link_best(job: Job, models: list[EvaluatedModel], board: Scoreboard) -> None:
    """Link `model` to the best milestone of the candidate, and keep the alarm record of its training."""
    candidate = board.candidate
    if candidate not in board.best:
        return
    folder = next(model.folder for model in models if (model.name, model.step) == (candidate, board.best[candidate]))
    assert folder is not None
    link(model_dir(job.out), folder.resolve())
    training = next(output for output in job.inputs.values() if folder.is_relative_to(output))
    if (alarm := training / ALARM_FILE).is_file():
        write_atomic(job.out / ALARM_FILE, alarm.read_bytes())
