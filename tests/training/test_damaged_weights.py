"""A folder whose weights were cut off, as an interrupted copy leaves them: one line, for each kind of model."""

from pathlib import Path

import pytest
from tiny_vq_models import save_emu3, save_janus

from rubricworks.errors import UserError

CUT = r"Error while deserializing header"


def cut_off(weights: Path) -> Path:
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(b"\xff" * 40)
    return weights.parent


def test_a_students_damaged_weights_are_one_line(tmp_path):
    from coloured_squares import SMALL

    from rubricworks.training.generate import load_model
    from rubricworks.training.tiny.student import build_student

    build_student(["a red square"], tmp_path / "model", config=SMALL, seed=1)
    folder = cut_off(tmp_path / "model" / "model.safetensors")
    with pytest.raises(UserError, match=rf"^cannot load the model .*model: {CUT}") as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_an_encoders_damaged_weights_are_one_line(tmp_path):
    from transformers import BertConfig, BertModel

    from rubricworks.evaluation.encoders import SentenceEncoder

    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=8, **small)).save_pretrained(tmp_path / "bert")
    folder = cut_off(tmp_path / "bert" / "model.safetensors")
    with pytest.raises(UserError, match=rf"^scorers.capture.encoder: .* cannot be loaded: {CUT}"):
        SentenceEncoder(str(folder), "scorers.capture.encoder")


@pytest.mark.parametrize("save", [save_janus, save_emu3])
def test_an_image_generators_damaged_weights_are_one_line(tmp_path, save):
    from rubricworks.training.generators.loading import load_generator

    folder = save(tmp_path / "generator")
    cut_off(folder / "model.safetensors")
    with pytest.raises(UserError, match=rf"^cannot load the generator .*: {CUT}"):
        load_generator(folder)
