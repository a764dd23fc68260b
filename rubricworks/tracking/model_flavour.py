"""MLflow's description of a model folder: `MLmodel` with two flavours, the signature, an example and the packages.

The folder itself lies beside it, in `model/`, as training wrote it, and loads in plain transformers. MLflow loads the
flavour `transformers` as parts (`mlflow.transformers.load_model(uri, return_type="components")`): its `load_model`
refuses a pipeline where `processor_type` is set, builds one from the loaded model and the listed components otherwise
(3.17), and Transformers' pipeline for images has to be given a processor, which it finds by itself only where the model
is a name. `python_function` answers rows of image and prompt. A generator of images has this flavour alone.
"""

import base64
import json
import platform
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

MODEL_FOLDER = "model"
MLMODEL_FILE = "MLmodel"
_PYFUNC_LOADER = "rubricworks.training.mlflow_model"
_REQUIREMENTS = "requirements.txt"
_PYTHON_ENV = "python_env.yaml"
_EXAMPLE = "input_example.json"
_FIRST_CODE = "first_image_code"
"""Field of the `config.json` of a generator for laptops."""
_GENERATORS = {"janus", "emu3"}
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf"}


def write_flavour(folder: Path, model_dir: Path, *, model_id: str, run: str, prompt: str) -> None:
    """Write the description of a model folder, without the folder itself.

    Args:
        folder: an empty folder, the root of the model's artifacts.
        model_id: id of MLflow's logged model.
        run: id of the MLflow run that registers it.
        prompt: prompt of the example.
    """
    from mlflow import pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import ColSpec, DataType, ParamSchema, ParamSpec, Schema

    inputs = Schema([ColSpec(DataType.string, "image"), ColSpec(DataType.string, "prompt")])
    outputs = Schema([ColSpec(DataType.string, "response")])
    params = ParamSchema(
        [ParamSpec("max_new_tokens", DataType.integer, 256), ParamSpec("temperature", DataType.double, 0.0)]
    )
    model = Model(
        run_id=run,
        model_id=model_id,
        signature=ModelSignature(inputs, outputs, params),
        saved_input_example_info={"artifact_path": _EXAMPLE, "type": "dataframe", "pandas_orient": "split"},
        model_size_bytes=sum(path.stat().st_size for path in model_dir.rglob("*") if path.is_file()),
    )
    config = _config(model_dir)
    if architectures := config.get("architectures"):
        # The codes of a generator's vocabulary are no text for a pipeline of Transformers.
        if not _draws_images(config):
            components = _write_components(folder, model_dir)
            model.add_flavor("transformers", **_transformers_flavour(config, architectures[0], components))
        pyfunc.add_to_model(model, loader_module=_PYFUNC_LOADER, data=MODEL_FOLDER, python_env=_PYTHON_ENV)
    model.save(str(folder / MLMODEL_FILE))
    _write_example(folder / _EXAMPLE, prompt)
    _write_packages(folder, str(config.get("transformers_version") or ""))


def _config(model_dir: Path) -> dict[str, Any]:
    path = model_dir / "config.json"
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def _draws_images(config: dict[str, Any]) -> bool:
    return _FIRST_CODE in config or config.get("model_type") in _GENERATORS


def _transformers_flavour(config: dict[str, Any], architecture: str, components: list[str]) -> dict[str, Any]:
    reads_images = "processor" in components
    return {
        "transformers_version": config.get("transformers_version"),
        "task": "image-text-to-text" if reads_images else "text-generation",
        "instance_type": "ImageTextToTextPipeline" if reads_images else "TextGenerationPipeline",
        "pipeline_model_type": architecture,
        "source_model_name": MODEL_FOLDER,
        "model_binary": MODEL_FOLDER,
        # MLflow lists the processor by its type alone.
        "components": ["tokenizer"],
        "tokenizer_type": "AutoTokenizer",
        **({"processor_type": "AutoProcessor"} if reads_images else {}),
    }


def _write_components(folder: Path, model_dir: Path) -> list[str]:
    """Copy the small files of tokenizer and processor to where MLflow's flavour reads them; return what there is."""
    small = [path for path in model_dir.iterdir() if path.is_file() and path.suffix not in _WEIGHTS]
    names = {path.name for path in small}
    processor = {"processor_config.json", "preprocessor_config.json"} & names
    components = ["tokenizer", *(["processor"] if processor else [])]
    for component in components:
        target = folder / "components" / component
        target.mkdir(parents=True)
        for path in small:
            shutil.copyfile(path, target / path.name)
    return components


def _write_example(path: Path, prompt: str) -> None:
    from PIL import Image

    content = BytesIO()
    Image.new("RGB", (96, 96), (200, 60, 40)).save(content, "PNG")
    row = [base64.b64encode(content.getvalue()).decode(), prompt]
    path.write_text(json.dumps({"columns": ["image", "prompt"], "data": [row]}))


def _write_packages(folder: Path, transformers: str) -> None:
    import mlflow

    import rubricworks

    packages = [
        f"rubricworks[train]=={rubricworks.__version__}",
        f"mlflow=={mlflow.__version__}",
        f"transformers=={transformers}" if transformers else "transformers",
        "torchvision",
    ]
    (folder / _REQUIREMENTS).write_text("\n".join(packages) + "\n")
    (folder / _PYTHON_ENV).write_text(
        f"python: {platform.python_version()}\nbuild_dependencies: [pip]\ndependencies: [-r {_REQUIREMENTS}]\n"
    )
