"""The files of a trained model that are published: weights, configuration, tokenizer and card.

The weights are safetensors, the rest are texts. Pickled weights, checkpoints, code and tables stay where they are.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.evaluation.hub_results import HubBenchmark, Scale, result_files
from rubricworks.redaction import find_secret, redact
from rubricworks.reports.run_folder import is_simulated
from rubricworks.runs.trained_model import TrainedModel
from rubricworks.training.model_card import CARD

_WEIGHTS = ".safetensors"
_PUBLISHED = {_WEIGHTS, ".json", ".txt", ".jinja", ".model", ".tiktoken"}
_NAMED = {"LICENSE", "LICENSE.md", "NOTICE", "NOTICE.md"}
_VOCABULARIES = {"tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json"}
"""Lists of word pieces, among which anything may look like a key."""
_TEXTS = {".json", ".txt", ".jinja", ".md", ""}


class PublishedFiles(NamedTuple):
    """Files of a model's folder, by their paths in it."""

    chosen: tuple[str, ...]
    left_out: tuple[str, ...]


def published_files(model: TrainedModel) -> PublishedFiles:
    """Choose the files to publish.

    Raises:
        UserError: there are no weights in safetensors, or a text shows a key or a password.
    """
    chosen, left_out = [], []
    for path in sorted(model.folder.rglob("*")):
        name = path.relative_to(model.folder).as_posix()
        if not path.is_file() or name == CARD:
            continue
        if any(part.startswith((".", "checkpoint-")) for part in Path(name).parts) or not (
            path.suffix in _PUBLISHED or path.name in _NAMED
        ):
            left_out.append(name)
            continue
        if path.suffix in _TEXTS and path.name not in _VOCABULARIES:
            secret = find_secret(path.read_text(encoding="utf-8", errors="replace"))
            if secret:
                raise UserError(f"{path}: it shows {secret}; take that out, and push again")
        chosen.append(name)
    if not any(name.endswith(_WEIGHTS) for name in chosen):
        raise UserError(f"{model.folder}: it holds no weights in safetensors, and no others are published")
    return PublishedFiles(tuple(chosen), tuple(left_out))


def write_published(
    model: TrainedModel, files: Sequence[str], folder: Path, *, texts: Mapping[str, str], copy: bool
) -> None:
    """Write the files into a new folder, with the card and further texts.

    Args:
        texts: path → content.
        copy: copy the files, instead of linking to them.
    """
    for name in files:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copyfile(model.folder / name, place)
        else:
            place.symlink_to((model.folder / name).absolute())
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def published_results(model: TrainedModel, benchmarks: Sequence[HubBenchmark], scale: Scale) -> dict[str, str]:
    """Files of `.eval_results`: path → YAML.

    Raises:
        UserError: the model was not scored, the scores are simulated, or a benchmark was not measured whole.
    """
    if not benchmarks:
        return {}
    scored = model.scores()
    if scored is None:
        raise UserError(f"{model.run.name}: the model of {model.stage} was not scored, so there is no result of it")
    if is_simulated(model.run):
        raise UserError(
            f"{model.run.name}: its scores are simulated by the scene world; they are no results of a benchmark"
        )
    versions = model.scorer_versions()
    return result_files(benchmarks, scored[1], versions, date=model.scored_at(), scale=scale)


def published_card(model: TrainedModel, benchmarks: Sequence[str] = ()) -> str:
    """The model's card, with the meaning and limits of its scores.

    Args:
        benchmarks: those whose results go along in `.eval_results`.
    """
    card = redact(model.card()).rstrip()
    return f"{card}\n\n{scores_note(model, benchmarks)}" if model.scores() else f"{card}\n"


def scores_note(model: TrainedModel, benchmarks: Sequence[str]) -> str:
    """Section that says by what the scores were measured."""
    if is_simulated(model.run):
        return (
            "## What the scores are\n\n"
            "**Simulated.** Images, teachers and judges were those of Rubricworks' scene world: the scores show that a "
            "mechanism works, not how well the model does on photographs. They are no results of any benchmark, and "
            "`.eval_results` holds none of them.\n"
        )
    along = f"`.eval_results` holds those of {', '.join(benchmarks)}. " if benchmarks else ""
    others = "The others" if benchmarks else "They"
    return (
        "## What the scores are\n\n"
        f"{along}{others} were measured on the run's own held-out samples, by its own judges and rules. No benchmark "
        "of the Hub defines them, so they stand here alone, and compare with nothing that another run measured.\n"
    )
