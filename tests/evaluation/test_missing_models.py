"""Models of scorers that cannot be loaded: one line that names the field, the reason and what to do."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from rubricworks.errors import UserError
from rubricworks.evaluation.encoders import SentenceEncoder
from rubricworks.evaluation.scorers.capture import CaptureScorer, _FactualParser

PARSER = CaptureScorer().parser
UNREACHABLE = "We couldn't connect to the Hub to load the files.\nCheckout your internet connection."


def stand_ins(monkeypatch, **classes) -> None:
    """Modules of capture_metric and FACTUAL with these classes."""
    places = {
        "CAPTURE": "capture_metric.capture",
        "SceneGraphParser": "factual_scene_graph.parser.scene_graph_parser",
    }
    for name, value in classes.items():
        stand_in = ModuleType(places[name])
        setattr(stand_in, name, value)
        parts = places[name].split(".")
        for depth in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
        monkeypatch.setitem(sys.modules, places[name], stand_in)


def test_a_parser_that_cannot_be_fetched_is_named_with_the_way_out(monkeypatch):
    """capture_metric and its parser are stand-ins here, which fail as Transformers does without a network."""

    def refuse(name: str, device: str) -> None:
        raise OSError(UNREACHABLE)

    stand_ins(monkeypatch, CAPTURE=lambda soft_matching: ModuleType("capture"), SceneGraphParser=refuse)
    with pytest.raises(UserError) as error:
        _FactualParser(PARSER)
    assert str(error.value) == (
        f"scorers.capture.parser: {PARSER} cannot be loaded: We couldn't connect to the Hub to load the files.; "
        "give the directory of a copy, or a judge that parses"
    )


def test_factuals_parser_reads_with_the_tokenizers_of_transformers_5(monkeypatch):
    """The packages are stand-ins; FACTUAL's code enters `as_target_tokenizer`, which Transformers 5 has not."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"cat": 0}, unk_token="cat")))
    assert not hasattr(tokenizer, "as_target_tokenizer")

    def read(sample: tuple[int, str]) -> tuple:
        with tokenizer.as_target_tokenizer():
            return sample[0], ["cat"], {"cat": {"red", "big"}}, {("cat", "on", "mat")}

    stand_ins(
        monkeypatch,
        CAPTURE=lambda soft_matching: SimpleNamespace(sample_to_parse_results=read),
        SceneGraphParser=lambda name, device: SimpleNamespace(tokenizer=tokenizer),
    )
    graph = asyncio.run(_FactualParser(PARSER).parse("a cat"))
    assert graph == (["cat"], {"cat": ["big", "red"]}, [("cat", "on", "mat")])


def test_an_encoder_that_cannot_be_loaded_is_named_with_its_field(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(
        UserError, match=r"scorers.capture.encoder: .* cannot be loaded: .*; give the directory of a copy"
    ):
        SentenceEncoder(str(tmp_path), "scorers.capture.encoder")
