"""Instruction data in LLaVA-NeXT's form, as its Parquet and its JSON have it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from coloured_squares import square

from rubricworks.data.instructions import InstructionEntry, instruction_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.errors import UserError

CHOICE = "Which colour is it?\nA. red\nB. blue\nAnswer with the option's letter from the given choices directly."


def turns(*texts: str, first: str = "human") -> list[dict[str, str]]:
    speakers = ("human", "gpt") if first == "human" else ("gpt", "human")
    return [{"from": speakers[at % 2], "value": text} for at, text in enumerate(texts)]


def text(content: list[dict]) -> str:
    return "".join("<image>" if part["type"] == "image" else part["text"] for part in content)


def said(entry: InstructionEntry | RejectedEntry) -> list[tuple[str, str]]:
    assert isinstance(entry, InstructionEntry), entry
    return [(message["role"], text(message["content"])) for message in entry.messages]


def written(tmp_path, *rows: dict) -> list[InstructionEntry | RejectedEntry]:
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    return list(instruction_entries(str(tmp_path / "rows.json")))


def test_parquet_as_on_the_hub_keeps_every_turn_and_its_rows_without_image(tmp_path):
    """lmms-lab/LLaVA-NeXT-Data: id, conversations, data_source, image (null in a row of text only)."""
    red = square("top-left", "red")
    rows = {
        "id": ["a", "b"],
        "conversations": [
            turns(f"<image>\n{CHOICE}", "A", "Are you sure?", "Yes, A."),
            turns("Name a colour.", "Red."),
        ],
        "data_source": ["x", "y"],
        "image": [{"bytes": red, "path": "a.png"}, None],
    }
    pq.write_table(pa.table(rows), tmp_path / "train-00000-of-00001.parquet")
    pictured, texts = instruction_entries(str(tmp_path))
    assert said(pictured) == [
        ("user", f"<image>{CHOICE}"), ("assistant", "A"), ("user", "Are you sure?"), ("assistant", "Yes, A."),
    ]  # fmt: skip
    assert [image.read() for image in pictured.images] == [red]
    assert said(texts) == [("user", "Name a colour."), ("assistant", "Red.")]
    assert texts.images == ()


def test_several_images_keep_their_places_and_order(tmp_path):
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        (tmp_path / name).write_bytes(square("top-left", colour))
    conversation = turns("First <image>\nthen <image>\nwhich is red?", "The first.")
    (entry,) = written(tmp_path, {"image": ["a.png", "b.png"], "conversations": conversation})
    assert said(entry)[0] == ("user", "First <image>then <image>which is red?")
    assert [image.read() for image in entry.images] == [square("top-left", "red"), square("top-left", "blue")]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is this?\n<image>", "<image>What is this?"),
        ("<image>\nWhat is this?", "<image>What is this?"),
        ("What is this?", "<image>What is this?"),
    ],
)
def test_only_image_of_a_turn_comes_first(tmp_path, question, expected):
    (entry,) = written(tmp_path, {"image": "a.png", "conversations": turns(question, "A square.")})
    assert said(entry)[0] == ("user", expected)


def test_system_turn_stays_and_an_answer_without_a_question_is_left_out(tmp_path):
    system = [{"from": "system", "value": "Be brief."}, *turns("Hi.", "Hello.")]
    openai = [
        {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "assistant", "content": "Hello."},
    ]
    rows = [{"conversations": system}, {"conversations": turns("Welcome.", "Hi.", "Hello.", first="gpt")}]
    plain = [("user", "Hi."), ("assistant", "Hello.")]
    assert [said(entry) for entry in written(tmp_path, *rows, {"messages": openai})] == [
        [("system", "Be brief."), *plain], plain, plain,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"image": ["a.png", "b.png"], "conversations": turns("<image>\nWhat?", "Red.")}, "2 images, and 1 marks"),
        ({"conversations": turns("<image>\nWhat?", "Red.")}, "0 images, and 1 marks"),
        ({"image": "a.png", "conversations": turns("What?", "An <image>.")}, "not human's has the mark"),
        ({"conversations": turns("What?")}, "not of human and gpt in turns: user"),
        ({"conversations": [*turns("What?", "Red."), {"from": "gpt", "value": "Blue."}]}, "not of human and gpt"),
        ({"conversations": [{"from": "human", "value": None}]}, "a turn of human has no text"),
        ({"id": "a"}, "no conversations or messages"),
        ({"image": "https://a.example/b.png", "conversations": turns("What?", "Red.")}, "its image is a URL"),
        (["no object"], "no object: list"),
    ],
)
def test_row_that_cannot_be_trained_on_is_rejected_with_its_reason(tmp_path, row, reason):
    rejected, usable = written(tmp_path, row, {"conversations": turns("Hi.", "Hello.")})
    assert isinstance(rejected, RejectedEntry)
    assert reason in rejected.reason
    assert rejected.source.endswith("rows.json: object 1")
    assert isinstance(usable, InstructionEntry)


def test_source_of_other_columns_names_them(tmp_path):
    pq.write_table(pa.table({"question": ["What?"], "answer": ["Red"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="no column conversations or messages; it has question, answer"):
        list(instruction_entries(str(tmp_path)))


def test_image_outside_the_source_is_not_read(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "secret.png").write_bytes(square("top-left", "red"))
    (entry,) = written(tmp_path / "source", {"image": "../secret.png", "conversations": turns("<image>", "Red.")})
    with pytest.raises(Exception, match="leads out of"):
        entry.images[0].read()
