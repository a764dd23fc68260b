"""Registered models load as MLflow promises, and in plain transformers: real models, a real registry."""

import base64
import importlib.util
import json
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from tiny_generator import TINY, captioned_pictures

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking import registry, stage_connection
from rubricworks.tracking.artifacts import fetch_artifacts

mlflow = pytest.importorskip("mlflow")

pytestmark = pytest.mark.slow
URI = "models:/captioner@champion"
PROMPT = "describe the image"


@pytest.fixture
def register(tmp_path, monkeypatch):
    """Registers a folder as the champion, and points MLflow's own functions at the registry."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)

    def register(folder: Path) -> tuple[object, registry.ModelVersion]:
        connection, run = stage_connection(tmp_path / "runs" / "demo", "promote")
        version = registry.register(connection, folder, "captioner", run=run, tags={}, prompt=PROMPT)
        registry.promote(connection, "captioner", version.version, expected=None)
        mlflow.set_tracking_uri(connection.uri)
        mlflow.set_registry_uri(connection.uri)
        return connection, version

    yield register
    mlflow.set_tracking_uri(None)
    mlflow.set_registry_uri(None)


def picture(colour: tuple[int, int, int]) -> bytes:
    content = BytesIO()
    Image.new("RGB", (96, 96), colour).save(content, "PNG")
    return content.getvalue()


@pytest.fixture(scope="module")
def student(tmp_path_factory) -> Path:
    from rubricworks.training.tiny.student import build_student

    return build_student([f"{PROMPT} a red square on a blue ground ."], tmp_path_factory.mktemp("tiny") / "student")


@pytest.fixture(scope="module")
def llava(tmp_path_factory) -> Path:
    """A tiny LLaVA, whose processor needs no torchvision."""
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    from rubricworks.training.tiny.student import word_tokenizer

    tokenizer = word_tokenizer([f"{PROMPT} a red square on a blue ground ."])
    image_token = "<|image_pad|>"
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=32, patch_size=16, projection_dim=16),
        text_config=LlamaConfig(**sizes, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id),
        image_token_index=tokenizer.convert_tokens_to_ids(image_token),
        image_seq_length=4,
    )
    folder = tmp_path_factory.mktemp("llava") / "model"
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    LlavaProcessor(
        images, tokenizer, patch_size=16, num_additional_image_tokens=1, vision_feature_select_strategy="default",
        image_token=image_token, chat_template=f"{image_token} {PROMPT}",
    ).save_pretrained(folder)  # fmt: skip
    return folder


def test_python_function_answers_rows_as_the_model_itself_does(register, student):
    import pandas

    from rubricworks.training.generate import generate_captions, load_model

    register(student)
    loaded = mlflow.pyfunc.load_model(URI)
    pictures = [picture((200, 10, 10)), picture((10, 10, 200)), None]
    rows = [{"image": base64.b64encode(picture).decode() if picture else "", "prompt": PROMPT} for picture in pictures]
    answers = loaded.predict(pandas.DataFrame(rows), params={"max_new_tokens": 6, "temperature": 1.0})
    expected = generate_captions(*load_model(student), pictures, [PROMPT] * 3, max_new_tokens=6, temperature=1.0)
    assert answers == [text for text, _ in expected]
    assert len(set(answers)) == 3
    assert len(loaded.predict(loaded.input_example)) == 1
    with pytest.raises(ValueError, match="row 0: the image is not base64"):
        loaded.predict(pandas.DataFrame([{"image": "http://x/y.png", "prompt": PROMPT}]))


def test_description_has_signature_example_size_and_the_logged_model(register, student):
    connection, version = register(student)
    info = mlflow.models.get_model_info(URI)
    assert info.signature.inputs.input_names() == ["image", "prompt"]
    assert [param.name for param in info.signature.params] == ["max_new_tokens", "temperature"]
    assert {"transformers", "python_function"} <= info.flavors.keys()
    logged = connection.client.get_logged_model(info.model_id)
    assert (logged.source_run_id, str(logged.status)) == (version.run, "READY")
    outputs = connection.client.get_run(version.run).outputs.model_outputs
    assert [output.model_id for output in outputs] == [info.model_id]
    example = mlflow.pyfunc.load_model(URI).input_example
    assert example["prompt"].tolist() == [PROMPT]
    assert Image.open(BytesIO(base64.b64decode(example["image"][0]))).size == (96, 96)


def test_transformers_flavour_gives_the_parts_of_a_pipeline(register, llava):
    import torch
    from transformers import AutoProcessor, LlavaForConditionalGeneration, pipeline

    register(llava)
    parts = mlflow.transformers.load_model(URI, return_type="components")
    assert parts.keys() >= {"task", "model", "tokenizer", "processor"}
    assert pipeline(**parts).task == "image-text-to-text"
    model, processor = LlavaForConditionalGeneration.from_pretrained(llava), AutoProcessor.from_pretrained(llava)
    image = Image.new("RGB", (32, 32), (200, 10, 10))
    inputs = processor(images=image, text=f"<|image_pad|> {PROMPT}", return_tensors="pt")
    again = parts["processor"](images=image, text=f"<|image_pad|> {PROMPT}", return_tensors="pt")
    assert all(torch.equal(inputs[name], again[name]) for name in inputs)
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, parts["model"](**again).logits)


@pytest.mark.parametrize("kind", ["student", "llava"])
def test_downloaded_folder_is_the_registered_one_and_loads_in_transformers(register, request, tmp_path, kind):
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    folder = request.getfixturevalue(kind)
    connection, version = register(folder)
    plain = registry.model_files(fetch_artifacts(connection, version.source, tmp_path, "the model"))
    digest = files_digest(plain.rglob("*"), plain)
    assert digest == files_digest(folder.rglob("*"), folder) == version.tags[registry.DIGEST_TAG]
    model = AutoModelForImageTextToText.from_pretrained(plain)
    assert type(model).__name__ == json.loads((folder / "config.json").read_text())["architectures"][0]
    assert AutoTokenizer.from_pretrained(plain)(PROMPT)["input_ids"]


def test_without_a_processor_the_flavour_is_that_of_a_text_model(register, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    from rubricworks.training.tiny.student import word_tokenizer

    tokenizer = word_tokenizer([PROMPT])
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer))).save_pretrained(tmp_path / "text")
    tokenizer.save_pretrained(tmp_path / "text")
    register(tmp_path / "text")
    assert mlflow.transformers.load_model(URI).task == "text-generation"


def test_a_generator_draws_the_images_that_it_draws_itself(register, tmp_path):
    import pandas

    from rubricworks.data.images import png_bytes
    from rubricworks.training.generators.autoregressive import VocabularyGenerator
    from rubricworks.training.generators.tiny_ar import pretrain_tiny_ar

    settings = TINY.model_copy(update={"steps": 2})
    folder = pretrain_tiny_ar(*captioned_pictures(32), tmp_path / "tiny", settings, seed=1)
    register(folder)
    prompts = ["a red circle", "a blue circle"]
    rows = pandas.DataFrame([{"image": "", "prompt": prompt} for prompt in prompts])
    drawn = [base64.b64decode(image) for image in mlflow.pyfunc.load_model(URI).predict(rows)]
    generator = VocabularyGenerator.load(folder)
    assert drawn == [png_bytes(pixels) for pixels in generator.generate(prompts, temperature=0.0)]
    assert Image.open(BytesIO(drawn[0])).size == (36, 36)
    with pytest.raises(mlflow.MlflowException, match='does not have the "transformers" flavor'):
        mlflow.transformers.load_model(URI)


def test_by_default_a_model_that_sees_is_refused_with_what_to_write(register, llava):
    """MLflow's own sentence; where it goes, the flavour can give a pipeline and the docs can say so."""
    register(llava)
    with pytest.raises(mlflow.MlflowException, match="specifying the 'return_type'='components'"):
        mlflow.transformers.load_model(URI)


def test_without_a_processor_type_transformers_cannot_build_the_pipeline_either(llava):
    from transformers import AutoTokenizer, LlavaForConditionalGeneration, pipeline

    model, tokenizer = LlavaForConditionalGeneration.from_pretrained(llava), AutoTokenizer.from_pretrained(llava)
    with pytest.raises(Exception, match="Impossible to guess which processor to use"):
        pipeline("image-text-to-text", model=model, tokenizer=tokenizer)


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_python_function_names_what_is_not_installed(register, student, monkeypatch, missing):
    register(student)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    with pytest.raises(UserError, match=rf"^the model runs on {missing}: pip install 'rubricworks\[train\]'$"):
        mlflow.pyfunc.load_model(URI)
