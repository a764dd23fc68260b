"""Questions from files in the layouts of public sets: the same questions come out of each."""

import io
import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from rubricworks.data.questions import QuestionColumns, QuestionEntry, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.errors import UserError


def picture(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), (shade, 40, 60)).save(buffer, "PNG")
    return buffer.getvalue()


PICTURES = [picture(20 * number) for number in range(3)]


def jsonl(folder: Path, *rows: object) -> str:
    (folder / "images").mkdir(exist_ok=True)
    for number, content in enumerate(PICTURES):
        (folder / "images" / f"{number}.png").write_bytes(content)
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "questions.jsonl").write_text("\n".join(lines))
    return str(folder / "questions.jsonl")


def parquet(folder: Path, **columns: list) -> str:
    pq.write_table(pa.table(columns), folder / "questions.parquet")
    return str(folder / "questions.parquet")


def fields_of(entry: QuestionEntry | RejectedEntry) -> tuple:
    assert isinstance(entry, QuestionEntry), entry
    return entry.question, entry.answer, entry.options, entry.task, entry.image.read()


def test_virl_style_has_paths_in_lists_answers_in_boxes_and_choices_in_the_question(tmp_path):
    jsonl(tmp_path)  # the pictures
    source = parquet(
        tmp_path,
        question=["<image>How long?", "<image>Which one?\nChoices:\n(A) 40\n(B) 50"],
        answer=[r"\boxed{17^\circ}", r"\boxed{B}"],
        image=[["images/0.png"], ["images/1.png"]],
        category=["geometry", "charts"],
        PassRate_32BTrained=[0.5, 1.0],
    )
    assert [fields_of(question_entry) for question_entry in question_entries(source)] == [
        ("How long?", r"17^\circ", (), "geometry", PICTURES[0]),
        ("Which one?", "B", ("40", "50"), "charts", PICTURES[1]),
    ]


def test_openmmreasoner_style_has_messages_and_the_truth_inside_the_reward_model(tmp_path):
    turns = [
        [{"role": "system", "content": "Think."}, {"role": "user", "content": f"<image>{q}"}] for q in ("a?", "b?")
    ]
    source = parquet(
        tmp_path,
        data_source=["wemath", "tqa"],
        prompt=turns,
        images=[[{"bytes": PICTURES[0], "path": None}], [{"bytes": PICTURES[2], "path": "x.png"}]],
        reward_model=[{"ground_truth": "3", "style": "rule"}, {"ground_truth": "a cat", "style": "rule"}],
    )
    assert [fields_of(question_entry) for question_entry in question_entries(source)] == [
        ("a?", "3", (), "wemath", PICTURES[0]),
        ("b?", "a cat", (), "tqa", PICTURES[2]),
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["red", "green"],
        {"B": "green", "A": "red"},
        {"label": ["A", "B"], "text": ["red", "green"]},
        '["red", "green"]',
        "A. red\nB. green",
        ["A. red", "B. green"],
    ],
)
def test_options_in_a_column_of_their_own_are_read_in_every_form(tmp_path, options):
    row = {"problem": "which?", "choices": options, "ground_truth": "green", "image": "images/1.png", "subject": "x"}
    (entry,) = question_entries(jsonl(tmp_path, row))
    assert fields_of(entry) == ("which?", "B", ("red", "green"), "x", PICTURES[1])


def test_deepvision_solution_is_a_reference_beside_an_answer(tmp_path):
    with_answer = {"question": "q?", "answer": 4, "solution": r"2 + 2 = \boxed{4}", "image": "images/0.png"}
    alone = {"question": "q?", "solution": r"2 + 2 = \boxed{4}", "image": "images/0.png"}
    first, second = question_entries(jsonl(tmp_path, with_answer, alone))
    assert (first.answer, first.image.references) == ("4", (r"2 + 2 = \boxed{4}",))
    assert (second.answer, second.image.references) == ("4", ())


def test_columns_can_be_named_and_a_wrong_name_is_told(tmp_path):
    source = parquet(
        tmp_path, pic=PICTURES, image=["a", "b", "c"], q=["1?", "2?", "3?"], question=["no"] * 3, a=["x", "y", "z"]
    )
    columns = QuestionColumns(image="pic", question="q", answer="a")
    entries = list(question_entries(source, columns))
    assert [fields_of(entry)[:2] for entry in entries] == [("1?", "x"), ("2?", "y"), ("3?", "z")]
    assert [entry.image.key for entry in entries] == [f"questions.parquet#{number}" for number in range(3)]
    with pytest.raises(UserError, match="no column 'pics'; it has pic, image"):
        list(question_entries(source, QuestionColumns(image="pics")))


def test_bytes_go_before_paths_and_a_parquet_file_without_answers_is_refused(tmp_path):
    (entry,) = question_entries(
        parquet(tmp_path, image_path=["nowhere.png"], images=[PICTURES[0]], query=["?q"], answer=["1"])
    )
    assert entry.image.read() == PICTURES[0]
    with pytest.raises(UserError, match=r"no column of the answer \(answer, ground_truth.*it has image, query"):
        list(question_entries(parquet(tmp_path, image=[PICTURES[0]], query=["q?"])))


def test_rows_that_cannot_be_used_are_rejected_one_by_one_with_their_line_and_reason(tmp_path):
    good = {"question": "q?", "answer": "1", "image": "images/0.png"}
    bad = {
        "{not json": "not a JSON object",
        "[1, 2]": "not a JSON object: it is a list",
        json.dumps({"question": "q?", "answer": "1"}): "no column of the image",
        json.dumps(good | {"question": " <image> "}): "the row has no question",
        json.dumps(good | {"question": None}): "the row has no question",
        json.dumps(good | {"answer": ""}): "the row has no answer",
        json.dumps(good | {"answer": ["1", "2"]}): "the row has 2 answers",
        json.dumps(good | {"image": []}): "the row has no image",
        json.dumps(good | {"options": ["red"]}): "the row has 1 options",
        json.dumps(good | {"options": ["red", ""]}): "some blank",
        json.dumps(good | {"options": "red or green"}): "cannot be told apart",
        json.dumps(good | {"options": ["red", "green"]}): "the answer '1' is none of its 2 options",
        json.dumps(good | {"image": "http://[bad"}): "URL",
    }
    source = jsonl(tmp_path, good, *bad, good)
    first, *rejected, last = question_entries(source)
    assert fields_of(first)[0] == fields_of(last)[0] == "q?"
    for number, (row, reason) in enumerate(zip(rejected, bad.values(), strict=True), start=2):
        assert isinstance(row, RejectedEntry)
        assert row.source == f"{source}:{number}"
        assert reason in row.reason


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("images/gone.png", "cannot be read: No such file"),
        (["images/0.png", "images/1.png"], "the row holds 2 images"),
        ("questions.jsonl", "not an image"),
        ("https://example.org/a.png", "lies elsewhere"),
    ],
)
def test_images_that_cannot_be_had_are_found_out_when_they_are_opened(tmp_path, image, reason):
    (entry,) = question_entries(jsonl(tmp_path, {"question": "q?", "answer": "1", "image": image}))
    opening = open_image(entry.image)
    assert isinstance(opening, RejectedEntry)
    assert reason in opening.reason


def test_folder_of_parquet_files_is_read_in_path_order_and_a_damaged_one_is_rejected(tmp_path):
    for name, shade in (("b", 1), ("a", 0)):
        parquet(tmp_path, image=[PICTURES[shade]], question=[name], answer=["1"])
        (tmp_path / "questions.parquet").rename(tmp_path / f"{name}.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 not")
    first, second, damaged = question_entries(str(tmp_path))
    assert (first.question, second.question) == ("a", "b")
    assert "damaged Parquet file" in damaged.reason


def test_nothing_there_is_a_user_error(tmp_path):
    for place, message in ((tmp_path / "nowhere", "no such file"), (tmp_path, "no questions here")):
        with pytest.raises(UserError, match=message):
            list(question_entries(str(place)))


def test_memory_does_not_grow_with_the_source(tmp_path):
    """600 images of 50 kB, of which a few are held at a time."""
    size, count = 50_000, 600
    images = [bytes([number % 251]) * size for number in range(count)]
    table = pa.table({"image": images, "question": ["q?"] * count, "answer": ["1"] * count})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=count, compression="none", use_dictionary=False)
    del images, table
    tracemalloc.start()
    try:
        total_bytes = sum(len(question_entry.image.read()) for question_entry in question_entries(str(tmp_path)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total_bytes == size * count
    assert peak < 200 * size
