"""A published CLIP pickle becomes a folder that embeds alike; one that runs code does not, and the sandbox holds."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli_fixtures import tell as tell
from PIL import Image
from tiny_clip import write_tiny_clip
from transformers import CLIPConfig, CLIPModel, CLIPProcessor

from rubricworks.errors import UserError
from rubricworks.evaluation.encoders import ClipEncoder
from rubricworks.training.pickled import sandboxed_reader
from rubricworks.training.pickled.clip import clip_weights, read_pickle

SIZE = {"hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
BLOCK = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj",
         "self_attn.out_proj": "attn.out_proj"}  # fmt: skip


def openai_names(model: CLIPModel) -> dict[str, torch.Tensor]:
    """The model's weights by the names of OpenAI's code, as Long-CLIP: the first 20 positions apart from the others."""
    weights, tensors = model.state_dict(), {}
    for tower, prefix in (("text_model", ""), ("vision_model", "visual.")):
        for layer in range(SIZE["num_hidden_layers"]):
            of, to = f"{tower}.encoder.layers.{layer}", f"{prefix}transformer.resblocks.{layer}"
            for kind in ("weight", "bias"):
                parts = [weights[f"{of}.self_attn.{part}_proj.{kind}"] for part in "qkv"]
                tensors[f"{to}.attn.in_proj_{kind}"] = torch.cat(parts)
                for name, theirs in BLOCK.items():
                    tensors[f"{to}.{theirs}.{kind}"] = weights[f"{of}.{name}.{kind}"]
    for kind in ("weight", "bias"):
        tensors[f"ln_final.{kind}"] = weights[f"text_model.final_layer_norm.{kind}"]
        tensors[f"visual.ln_pre.{kind}"] = weights[f"vision_model.pre_layrnorm.{kind}"]
        tensors[f"visual.ln_post.{kind}"] = weights[f"vision_model.post_layernorm.{kind}"]
    positions = weights["text_model.embeddings.position_embedding.weight"]
    tensors["positional_embedding"] = torch.cat([positions[:20], torch.zeros_like(positions[20:])])
    tensors["positional_embedding_res"] = torch.cat([torch.ones_like(positions[:20]), positions[20:]])
    tensors["token_embedding.weight"] = weights["text_model.embeddings.token_embedding.weight"]
    tensors["visual.class_embedding"] = weights["vision_model.embeddings.class_embedding"]
    tensors["visual.positional_embedding"] = weights["vision_model.embeddings.position_embedding.weight"]
    tensors["visual.conv1.weight"] = weights["vision_model.embeddings.patch_embedding.weight"]
    tensors["text_projection"] = weights["text_projection.weight"].T
    tensors["visual.proj"] = weights["visual_projection.weight"].T
    return tensors | {"logit_scale": weights["logit_scale"]}


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A CLIP in transformers' form, with 48 positions."""
    folder = write_tiny_clip(tmp_path_factory.mktemp("clip"))
    processor = CLIPProcessor.from_pretrained(folder)
    vocabulary = len(processor.tokenizer)
    text = {**SIZE, "vocab_size": vocabulary, "max_position_embeddings": 48, "bos_token_id": vocabulary - 2,
            "eos_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1}  # fmt: skip
    torch.manual_seed(0)
    vision = {**SIZE, "image_size": 30, "patch_size": 10}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    model.save_pretrained(folder)
    processor.tokenizer.model_max_length = 48
    processor.save_pretrained(folder)
    return folder


def test_the_converted_folder_embeds_as_the_published_weights_do(original, tell, tmp_path):
    torch.save({"state_dict": openai_names(CLIPModel.from_pretrained(original))}, tmp_path / "spec.pt")
    out = tmp_path / "out"
    done = tell("convert", tmp_path / "spec.pt", "--processor", original, "--out", out)
    assert done.code == 0, done.err
    assert (out / "model.safetensors").is_file()
    picture = io.BytesIO()
    Image.new("RGB", (40, 40), "red").save(picture, "PNG")
    inputs = [picture.getvalue()] * 2, ["a red square", "a long caption of more than twenty tokens, letter by letter"]
    theirs, ours = (ClipEncoder(str(folder), "specs").encode(*inputs) for folder in (original, out))
    for expected, value in zip(theirs, ours, strict=True):
        assert value == pytest.approx(expected, abs=1e-5)
    again = tell("convert", tmp_path / "spec.pt", "--processor", original, "--out", out)
    assert (again.code, "is there already" in again.err) == (2, True)


class RunsCode:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_code_is_refused_and_runs_none(tmp_path):
    torch.save({"weight": RunsCode(tmp_path / "made")}, tmp_path / "bad.pt")
    with pytest.raises(UserError, match=r"bad\.pt: not read as weights: it calls \w+\.mkdir, and weights") as error:
        read_pickle(tmp_path / "bad.pt")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1, 2], "it holds no tensors by name"),
        (b"not a pickle", "not read as weights"),
        (None, "there is no such file"),
    ],
)
def test_other_files_are_one_line(tmp_path, value, reason):
    path = tmp_path / "file.pt"
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif value is not None:
        torch.save(value, path)
    with pytest.raises(UserError, match=reason) as error:
        read_pickle(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", ["visual.attnpool.weight", "ln_final.weight"])
def test_weights_of_another_model_are_named(original, change):
    tensors = openai_names(CLIPModel.from_pretrained(original))
    if change in tensors:
        del tensors[change]
    else:
        tensors[change] = torch.zeros(1)
    with pytest.raises(ValueError, match=change):
        clip_weights(tensors)


ESCAPES = """
import socket, sys
sys.path.insert(0, {place!r})
from pathlib import Path
import sandboxed_reader
folder, secret = Path({folder!r}), Path({secret!r})
sandboxed_reader.enter_sandbox(folder, 1000)
def tried(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"
print(tried(lambda: (folder / "inside").write_text("x")))
print(tried(lambda: secret.read_text()))
print(tried(lambda: secret.with_name("written").write_text("x")))
print(tried(lambda: socket.create_connection(("127.0.0.1", {port}), timeout=5)))
"""


def test_the_sandbox_holds_files_and_network_back(tmp_path):
    import socket

    (tmp_path / "secret").write_text("key")
    (tmp_path / "folder").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = ESCAPES.format(place=str(Path(sandboxed_reader.__file__).parent), folder=str(tmp_path / "folder"),
                              secret=str(tmp_path / "secret"), port=server.getsockname()[1])  # fmt: skip
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    if "Landlock" in done.stderr:
        pytest.skip("this kernel has no Landlock")
    inside, read, written, connected = done.stdout.split()
    assert inside == "done", done.stderr
    assert (read, written) == ("PermissionError", "PermissionError")
    assert connected != "done"
    assert not (tmp_path / "written").exists()
