"""A registered model as MLflow's `python_function`: rows of image and prompt in, responses out.

    model = mlflow.pyfunc.load_model("models:/captioner@champion")
    model.predict(pandas.DataFrame([{"image": base64_of_a_file, "prompt": "Describe the image."}]))

`MLmodel` names this module, so its name stays.
"""

import base64
import binascii
from typing import Any

from rubricworks.errors import UserError
from rubricworks.training.generate import generate_captions, load_model


class ResponseModel:
    """A model that responds greedily, or as the parameters say."""

    def __init__(self, path: str) -> None:
        self.model, self.processor = load_model(path)

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> list[str]:
        """Return one response per row.

        Args:
            data: table with the columns `image` (base64 of a picture's file; empty for none) and `prompt`.
            params: `max_new_tokens` and `temperature`.
        Raises:
            UserError: an image is not base64.
        """
        images = [_decode(row, image) for row, image in enumerate(data["image"])]
        responses = generate_captions(self.model, self.processor, images, [*data["prompt"]], **(params or {}))
        return [text for text, _ in responses]


def _load_pyfunc(path: str) -> ResponseModel:
    """Load the model; MLflow calls this by name."""
    return ResponseModel(path)


def _decode(row: int, image: Any) -> bytes | None:
    if not image:
        return None
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"row {row}: the image is not base64 of a picture's file ({error})") from error
