"""SPECS by a model of CLIP's form: a tiny one from a configuration, on CPU cores."""

import json

import pytest
import torch
import yaml
from caption_suite import captions, world, write_responses
from cli_fixtures import run_cli
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    CLIPProcessor,
    CLIPTextConfig,
    CLIPVisionConfig,
    PreTrainedTokenizerFast,
)

from rubricworks.data.tables import read_rows

pytestmark = pytest.mark.slow

WORDS = ["<pad>", "<eos>", "a", "small", "large", "red", "green", "blue", "circle", "square", "at", "top", "left"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(WORDS), "max_position_embeddings": 24, "eos_token_id": 1, "pad_token_id": 0}
    config = CLIPConfig(
        text_config=CLIPTextConfig(**text).to_dict(),
        vision_config=CLIPVisionConfig(**sizes, image_size=32, patch_size=8).to_dict(),
        projection_dim=16,
    )
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<pad>",
                                   model_max_length=24)  # fmt: skip
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    folder = tmp_path_factory.mktemp("clip")
    CLIPModel(config).save_pretrained(folder)
    CLIPProcessor(image_processor=images, tokenizer=fast).save_pretrained(folder)
    return folder


def test_scores_are_those_of_the_models_embeddings(clip, tmp_path):
    with world(tmp_path / "world", 3):
        images = tmp_path / "world" / "images"
        names = sorted(path.name for path in images.glob("*.png"))
        files = write_responses(tmp_path, names, {"mine": captions(3)["whole"]})
        (tmp_path / "s.yaml").write_text(yaml.safe_dump({"scorers": {"specs": {"encoder": str(clip)}}}))
        done = run_cli("evaluate", *files, "--on", images, "--with", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    model, processor = CLIPModel.from_pretrained(clip).eval(), CLIPProcessor.from_pretrained(clip)
    texts = {json.loads(line)["file_name"]: json.loads(line)["caption"] for line in files[0].read_text().splitlines()}
    sources = {row["sample_id"]: row["source"].rpartition("/")[2] for row in read_rows(tmp_path / "out" / "prepare")}
    rows = [row for row in read_rows(tmp_path / "out" / "score") if row["scorer"] == "specs"]
    assert len(rows) == 3
    for row in rows:
        name = sources[row["sample_id"]]
        inputs = processor(images=Image.open(images / name), text=texts[name], return_tensors="pt", truncation=True)
        with torch.no_grad():
            # The model's own logits are the cosine times its scale.
            cosine = (model(**inputs).logits_per_image / model.logit_scale.exp()).item()
        assert row["value"] == pytest.approx(max(0.0, (cosine + 1) / 2), abs=1e-5)
