"""A registered model as MLflow's `python_function`: rows of image and prompt in, responses out.

A generator's responses are images, as base64 of PNG files.

    model = mlflow.pyfunc.load_model("models:/captioner@champion")
    model.predict(pandas.DataFrame([{"image": base64_of_a_file, "prompt": "Describe the image."}]))

`MLmodel` names this module, so its name stays.
"""

import base64
import binascii
import importlib.util
from pathlib import Path
from typing import Any

from rubricworks.data.images import png_bytes
from rubricworks.errors import UserError


class ResponseModel:
    """A model that responds greedily, or as the parameters say."""

    def __init__(self, path: str) -> None:
        from rubricworks.training.generate import load_model

        self.model, self.processor = load_model(path)

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> list[str]:
        """Return one response per row.

        Args:
            data: table with the columns `image` (base64 of a picture's file; empty for none) and `prompt`.
            params: `max_new_tokens` and `temperature`.
        Raises:
            UserError: an image is not base64.
        """
        from rubricworks.training.generate import generate_captions

        images = [_decode(row, image) for row, image in enumerate(data["image"])]
        responses = generate_captions(self.model, self.processor, images, [*data["prompt"]], **(params or {}))
        return [text for text, _ in responses]


class ImageModel:
    """A generator that draws one image for each prompt."""

    def __init__(self, path: str) -> None:
        from rubricworks.training.generators.loading import load_generator

        self.generator = load_generator(Path(path))

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> list[str]:
        """Return one image per row, empty for codes that are none.

        Args:
            data: table with the column `prompt`.
            params: `temperature`; 0 takes the likeliest code each time.
        """
        temperature = float((params or {}).get("temperature", 0.0))
        images = self.generator.generate([*data["prompt"]], temperature=temperature)
        return ["" if pixels is None else base64.b64encode(png_bytes(pixels)).decode() for pixels in images]


def _load_pyfunc(path: str) -> ResponseModel | ImageModel:
    """Load the model; MLflow calls this by name.

    Raises:
        UserError: PyTorch or Transformers is not installed, or the environment's signing key did not sign the model.
    """
    if missing := [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]:
        raise UserError(f"the model runs on {' and '.join(missing)}: pip install 'rubricworks[train]'")
    from rubricworks.tracking.signatures import SIGNATURE_FILE, verify
    from rubricworks.training.generators.loading import is_code_generator

    verify(Path(path), Path(path).parent / SIGNATURE_FILE, f"{path}: this model")
    return ImageModel(path) if is_code_generator(Path(path)) else ResponseModel(path)


def _decode(row: int, image: Any) -> bytes | None:
    if not image:
        return None
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"row {row}: the image is not base64 of a picture's file ({error})") from error
