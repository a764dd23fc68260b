"""Models of scorers that cannot be loaded: one line that names the field, the reason and what to do."""

import sys
from types import ModuleType

import pytest

from rubricworks.errors import UserError
from rubricworks.evaluation.encoders import SentenceEncoder
from rubricworks.evaluation.scorers.capture import _FactualParser

UNREACHABLE = "We couldn't connect to the Hub to load the files.\nCheckout your internet connection."


def test_a_parser_that_cannot_be_fetched_is_named_with_the_way_out(monkeypatch):
    """capture_metric and its parser are stand-ins here, which fail as Transformers does without a network."""

    def refuse(name: str, device: str) -> None:
        raise OSError(UNREACHABLE)

    for module, name, value in (
        ("capture_metric.capture", "CAPTURE", lambda soft_matching: ModuleType("capture")),
        ("factual_scene_graph.parser.scene_graph_parser", "SceneGraphParser", refuse),
    ):
        stand_in = ModuleType(module)
        setattr(stand_in, name, value)
        parts = module.split(".")
        for depth in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
        monkeypatch.setitem(sys.modules, module, stand_in)
    with pytest.raises(UserError) as error:
        _FactualParser("someone/parser")
    assert str(error.value) == (
        "scorers.capture.parser: someone/parser cannot be loaded: We couldn't connect to the Hub to load the files.; "
        "give the directory of a copy, or a judge that parses"
    )


def test_an_encoder_that_cannot_be_loaded_is_named_with_its_field(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(
        UserError, match=r"scorers.capture.encoder: .* cannot be loaded: .*; give the directory of a copy"
    ):
        SentenceEncoder(str(tmp_path), "scorers.capture.encoder")
