"""Encoders that scorers embed images and texts with: any model in transformers' form, on a GPU or on CPU cores."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from rubricworks.data.hub import UNPINNED_DEFAULTS, model_place, model_source
from rubricworks.errors import UserError

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def missing_model(name: str) -> str | None:
    """Reason why a model cannot be loaded here, or None: packages, its directory, or the Hub's cache when offline."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return "torch and transformers are not installed; pip install 'rubricworks[train]'"
    path = Path(name)
    if path.is_dir():
        return None if (path / "config.json").is_file() else f"{name} has no config.json"
    if name not in UNPINNED_DEFAULTS and (path.is_absolute() or path.exists() or name.startswith((".", "~"))):
        return f"{name}: there is no such model directory"
    try:
        source = model_source(name)
    except UserError as error:
        return str(error)
    repository, revision = (source.name, source.revision) if source else (name, None)
    from huggingface_hub import try_to_load_from_cache

    offline = any(os.environ.get(variable, "").lower() in ("1", "true", "yes", "on") for variable in _OFFLINE)
    if offline and not isinstance(try_to_load_from_cache(repository, "config.json", revision=revision), str):
        return f"{name} is not in the Hub's cache, and the Hub is switched off (HF_HUB_OFFLINE)"
    return None


class ClipEncoder:
    """Embeddings of images and texts by a model of CLIP's form."""

    def __init__(self, name: str, field: str) -> None:
        self._model, self._processor = _load(name, field, "AutoProcessor")
        if not hasattr(self._model, "get_image_features") or not hasattr(self._model, "get_text_features"):
            raise UserError(f"{field}: {name} is no CLIP model: it does not embed images and texts")

    def encode(self, images: Sequence[bytes], texts: Sequence[str]) -> tuple[Any, Any]:
        """Embeddings of images and of texts, arrays of shape [N, D]."""
        import torch
        from PIL import Image

        pictures = [Image.open(BytesIO(image)).convert("RGB") for image in images]
        inputs = self._processor(images=pictures, text=list(texts), padding=True, truncation=True, return_tensors="pt")
        inputs = inputs.to(self._model.device)
        with torch.no_grad():
            image = self._model.get_image_features(pixel_values=inputs["pixel_values"])
            text = self._model.get_text_features(
                input_ids=inputs["input_ids"], attention_mask=inputs.get("attention_mask")
            )
        return _array(image), _array(text)


class SentenceEncoder:
    """Embeddings of texts: the mean of a model's last states over the tokens, as sentence-transformers' models use."""

    def __init__(self, name: str, field: str) -> None:
        self._model, self._tokenizer = _load(name, field, "AutoTokenizer")

    def encode(self, texts: Sequence[str]) -> Any:
        """Embeddings, an array of shape [N, D]."""
        import torch

        inputs = self._tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        inputs = inputs.to(self._model.device)
        with torch.no_grad():
            states_NTD = self._model(**inputs).last_hidden_state
        mask_NT1 = inputs["attention_mask"].unsqueeze(-1)
        return _array((states_NTD * mask_NT1).sum(dim=1) / mask_NT1.sum(dim=1).clamp(min=1))


def _load(name: str, field: str, processor: str) -> tuple[Any, Any]:
    import torch
    import transformers
    from safetensors import SafetensorError

    try:
        place = model_place(name)
        model = transformers.AutoModel.from_pretrained(place)
        other = getattr(transformers, processor).from_pretrained(place)
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(
            f"{field}: {name} cannot be loaded: {str(error).splitlines()[0]}; give the directory of a copy"
        ) from error
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), other


def _array(features: Any) -> Any:
    """Features as an array; newer versions of transformers wrap them in an output with `pooler_output`."""
    tensor = features if hasattr(features, "cpu") else features.pooler_output
    return tensor.double().cpu().numpy()
