"""Model card of a trained model: `README.md` in its folder, with the prompt and the length that it was trained with.

A model trained on one prompt answers another one badly. The prompt stands in the card's metadata as `instance_prompt`,
the Hub's field for it, and the length as `max_new_tokens` in `generation_config.json`, which both engines read. A
generator of images has neither: it is asked with any prompt, and its images have one size.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from rubricworks.errors import UserError
from rubricworks.redaction import redact
from rubricworks.storage import write_atomic
from rubricworks.training.generators.files import ADAPTER_WEIGHTS, BASE_FILE, INDEX_FILE

CARD = "README.md"
_GENERATION = "generation_config.json"
_FENCE = "---\n"
_Kind = Literal["codes", "flow", "pipeline", "adapter"]
_GENERATORS: dict[_Kind, str] = {
    "codes": "It draws images: codes after the prompt, which its codec turns into pixels.",
    "flow": "It draws images: from noise, along a velocity that it predicts. Rubricworks loads the folder.",
    "pipeline": "It draws images: `diffusers.DiffusionPipeline.from_pretrained` loads the folder.",
    "adapter": "It is an adapter for a generator of images: load the pipeline that it adapts, and give this folder to "
    "its `load_lora_weights`.",
}


class Usage(NamedTuple):
    """Prompt and length of a model's training; None if it was trained with several prompts or the card does not state
    them.
    """

    prompt: str | None = None
    max_new_tokens: int | None = None


def only_prompt(prompts: Iterable[Any]) -> str | None:
    """Return the prompt if all are the same text, else None."""
    distinct = {prompt if isinstance(prompt, str) else None for prompt in prompts}
    return distinct.pop() if len(distinct) == 1 else None


def write_card(
    model_dir: Path, usage: Usage, *, trained_by: str, data: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Write the card and the length into a model's folder; what was there of them is replaced.

    Args:
        trained_by: stage that trained the model.
        data: input of the training → digest.
        config: configuration of the training.
    """
    kind = _generator_kind(model_dir)
    library = "diffusers" if kind in ("pipeline", "adapter") else "transformers"
    metadata: dict[str, Any] = {"library_name": library, "tags": ["rubricworks", trained_by]}
    if kind is not None:
        usage = Usage()
        metadata["pipeline_tag"] = "text-to-image"
    if usage.prompt is not None:
        metadata["instance_prompt"] = usage.prompt
    lines = [f"# Model trained by Rubricworks, stage `{trained_by}`", ""]
    if kind is not None:
        lines += [_GENERATORS[kind], ""]
    if usage.prompt is not None:
        lines += ["Ask it with the prompt of its training:", "", *_quoted(usage.prompt), ""]
    if usage.max_new_tokens is not None:
        lines += [f"Its answers had at most {usage.max_new_tokens} tokens (`{_GENERATION}`).", ""]
    lines += ["## Data", "", *(f"- {name}: sha256 {digest}" for name, digest in sorted(data.items())), ""]
    if kind == "adapter":
        base = json.loads((model_dir / BASE_FILE).read_bytes())
        metadata |= {"base_model": base["model"], "base_model_relation": "adapter"}
        lines += ["## Base", "", f"{base['model']}: sha256 {base['sha256']} of its files", ""]
    recipe = redact(yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True, width=120))
    lines += ["## Recipe", "", "```yaml", recipe.rstrip(), "```", ""]
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    write_atomic(model_dir / CARD, f"{_FENCE}{front}{_FENCE}\n{chr(10).join(lines)}".encode())
    if usage.max_new_tokens is not None:
        file = model_dir / _GENERATION
        fields = json.loads(file.read_text()) if file.is_file() else {}
        fields["max_new_tokens"] = usage.max_new_tokens
        write_atomic(file, (json.dumps(fields, indent=2, sort_keys=True) + "\n").encode())


def card_with_scores(
    model_dir: Path, figures: Mapping[str, Mapping[str, float | None]], reasons: Sequence[str] = ()
) -> str:
    """Return a model's card with its evaluation (`score_lines`)."""
    file = model_dir / CARD
    card = file.read_text() if file.is_file() else "# Model\n"
    return "\n".join([card.rstrip(), "", *score_lines(figures, reasons)])


def score_lines(figures: Mapping[str, Mapping[str, float | None]], reasons: Sequence[str] = ()) -> list[str]:
    """Lines of Markdown of an evaluation: what the gate decided, and the figures that it was given.

    Args:
        figures: figure → its parts (`base`, `policy`, `low`, …) → value.
        reasons: sentences of the gate.
    """
    rows = [
        f"| {name} | {part} | {value:.4g} |"
        for name, parts in figures.items()
        for part, value in parts.items()
        if value is not None
    ]
    gate = ["## Gate", "", *(f"- {reason}" for reason in reasons), ""] if reasons else []
    return [*gate, "## Scores", "", "| figure | part | value |", "|---|---|---|", *rows, ""]


def read_usage(model_dir: Path) -> Usage:
    """Read prompt and length from a model's folder.

    Raises:
        UserError: one of the files is damaged.
    """
    try:
        card = (model_dir / CARD).read_text() if (model_dir / CARD).is_file() else ""
        metadata = yaml.safe_load(card.split(_FENCE)[1]) if card.startswith(_FENCE) else None
        file = model_dir / _GENERATION
        fields = json.loads(file.read_text()) if file.is_file() else {}
    except (ValueError, IndexError, yaml.YAMLError) as error:
        raise UserError(f"{model_dir}: {CARD} or {_GENERATION} cannot be read: {error}") from error
    prompt = metadata.get("instance_prompt") if isinstance(metadata, dict) else None
    length = fields.get("max_new_tokens") if isinstance(fields, dict) else None
    return Usage(prompt if isinstance(prompt, str) else None, length if isinstance(length, int) else None)


def _generator_kind(model_dir: Path) -> _Kind | None:
    """Kind of a generator of images; None for a model that writes text."""
    if (model_dir / ADAPTER_WEIGHTS).is_file():
        return "adapter"
    if (model_dir / INDEX_FILE).is_file():
        return "pipeline"
    if not (model_dir / "config.json").is_file():
        return None
    from rubricworks.training.generators.image_generators import is_flow_generator
    from rubricworks.training.generators.loading import is_code_generator

    if is_flow_generator(model_dir):
        return "flow"
    return "codes" if is_code_generator(model_dir) else None


def _quoted(text: str) -> list[str]:
    return [f"> {line}".rstrip() for line in text.splitlines()]


def _plain(config: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(config, default=str))
