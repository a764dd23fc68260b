"""The trained model of a run: its folder, the stage that made it, its card and its scores."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.ledger import read_ledger, stage_ends
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard, figure_name, read_scoreboard
from rubricworks.runtime.job import DONE, MADE_FROM, model_dir
from rubricworks.runtime.stage_table import STAGES
from rubricworks.stages.evaluation.scored_models import CARDS
from rubricworks.training.generators.files import ADAPTER
from rubricworks.training.model_card import CARD

_SCORE = "score"
_RELEASES = ("promote", "challenge", _SCORE)
"""Stages whose input `policy` is the model that the run is about."""


class TrainedModel(NamedTuple):
    """A model that a run trained."""

    run: Path
    stage: str
    """Stage that produced it: its training, or `score` for the best milestone."""
    folder: Path
    """Files of the model; for LoRA-trained pipelines, of the adapter."""

    def scores(self) -> tuple[Scoreboard, ModelScores] | None:
        """The run's scoreboard and this model's line on it; None if it was not scored."""
        board = read_scoreboard(self.run / _SCORE)
        if board is None:
            return None
        if self.stage == _SCORE:
            name = next((name for name in board.best if name == board.candidate), None)
        else:
            name = self._scored_name()
        scores = board.scores(name) if name else None
        # A training's last model is not the milestone that stands for it on the board.
        return None if scores is None or (scores.step is not None and self.stage != _SCORE) else (board, scores)

    def scorer_versions(self) -> dict[str, str]:
        """Figure → version of the scorer that gave it."""
        table = self.run / _SCORE
        rows = read_rows(table, columns=["scorer", "part", "version"]) if (table / MANIFEST).is_file() else iter(())
        return {figure_name(row["scorer"], row["part"]): row["version"] for row in rows}

    def scored_at(self) -> str:
        """Time at which the evaluation ended, ISO 8601 in UTC."""
        ended = stage_ends(read_ledger(self.run)).get(_SCORE)
        ended = ended or datetime.fromtimestamp((self.run / _SCORE / DONE).stat().st_mtime, UTC)
        return ended.strftime("%Y-%m-%dT%H:%M:%SZ")

    def card(self) -> str:
        """Markdown of its card: with gate and scores if it was held against a gate, with scores if it has some."""
        files = [self.folder / CARD]
        if scored := self.scores():
            files.insert(0, self.run / _SCORE / CARDS / f"{scored[1].model.replace('/', '_')}.md")
        for stage in _RELEASES:
            if _input_digest(self.run / stage, "policy") == _output_digest(self.run / self.stage):
                files.insert(0, self.run / stage / CARD)
        return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "# Model\n")

    def _scored_name(self) -> str | None:
        """Name on the scoreboard of the model with the same weights."""
        table, digest = self.run / _SCORE, _output_digest(self.run / self.stage)
        rows = read_rows(table, columns=["model", "revision"]) if (table / MANIFEST).is_file() else iter(())
        return next((str(row["model"]) for row in rows if row["revision"] == digest), None)


def trained_model(run: Path, stage: str | None = None) -> TrainedModel:
    """Find the model of a run: that of a stage, or by default the one that was evaluated, or the only policy.

    Raises:
        UserError: there is no such run, none of its stages finished a model, or it is not clear which one is meant.
    """
    if not (run / "recipe.yaml").is_file():
        raise UserError(f"{run}: there is no such run; `rubricworks runs list` shows those of a folder")
    stages = [
        stage for stage in STAGES if (run / stage / DONE).is_file() and any(_model_folder(run / stage).glob("*.json"))
    ]
    if not stages:
        raise UserError(f"{run.name}: no stage of it has finished a model; continue it with run --resume {run.name}")
    chosen = stage or _evaluated(run, stages) or _only_policy(stages)
    if chosen is None:
        raise UserError(f"{run.name}: it trained {' and '.join(stages)}; name one with --stage")
    if chosen not in stages:
        raise UserError(f"{run.name}: {chosen} has no finished model; those that have: {', '.join(stages)}")
    return TrainedModel(run, chosen, _model_folder(run / chosen))


def _model_folder(output: Path) -> Path:
    adapter = output / ADAPTER
    return adapter if adapter.is_dir() else model_dir(output).resolve()


def _evaluated(run: Path, stages: list[str]) -> str | None:
    wanted = [digest for stage in _RELEASES if (digest := _input_digest(run / stage, "policy"))]
    return next((stage for digest in wanted for stage in stages if _output_digest(run / stage) == digest), None)


def _only_policy(stages: list[str]) -> str | None:
    policies = [stage for stage in stages if STAGES[stage].table == "rollouts"]
    return policies[0] if len(policies) == 1 else stages[0] if len(stages) == 1 else None


def _output_digest(output: Path) -> str | None:
    return _field(output / DONE, "digest")


def _input_digest(output: Path, name: str) -> str | None:
    inputs: Any = _field(output / MADE_FROM, "inputs")
    return inputs.get(name) if isinstance(inputs, dict) else None


def _field(path: Path, name: str) -> Any:
    """Field of a JSON object; None if the file or field does not exist."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value.get(name) if isinstance(value, dict) else None
