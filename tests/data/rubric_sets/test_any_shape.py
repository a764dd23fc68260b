"""Files of any shape: whatever stands in a field, a rubric set is read and written, or refused with a UserError."""

import copy
import json
import re
import tomllib
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.data.rubric_sets import FORMATS, read_rubric_set, write_rubric_set
from rubricworks.errors import UserError

FILES = Path(__file__).parents[1] / "rubric_files"
OWN = {
    "sample_id": "s1",
    "prompt": "p",
    "reference": "r",
    "rubric": {"criteria": [{"criterion": "c", "weight": 1.0, "reference_teachers": ["a"], "essential": True}]},
    "extras": {"format": "rar", "row": {"a": 1}, "criteria": {"c": {"b": 2}}},
}
ROWS = {
    **{
        name: json.loads((FILES / f"{name}.jsonl").read_text().splitlines()[0])
        for name in ("healthbench", "researchrubrics", "rar")
    },
    **{
        name: json.loads((FILES / f"{name}.jsonl").read_text().splitlines()[0])
        for name in ("rubrichub", "rubrichub_verl")
    },
    **{
        name: json.loads((FILES / f"{name}.jsonl").read_text().splitlines()[0])
        for name in ("healthbench_professional", "prbench", "profbench", "frontierscience", "deepresearchbench")
    },
    **{name: json.loads((FILES / f"{name}.json").read_text()) for name in ("paperbench", "autorubric")},
    "rubricworks": OWN,
}
DOCUMENTS = {
    **{name: tomllib.loads((FILES / f"{name}.toml").read_text()) for name in ("rewardkit", "verifiers")},
    "rewardkit_required": tomllib.loads((FILES / "rewardkit_required.toml").read_text()),
}
FORMAT_OF = {"rubrichub_verl": "rubrichub", "rewardkit_required": "rewardkit"}
WRITTEN = {"csv": "set.csv", "rewardkit": "rewardkit", "verifiers": "verifiers"}
EXPORTS = [
    (name, target)
    for name in FORMATS
    for target in (("set.jsonl", "set.parquet") if name not in WRITTEN else (WRITTEN[name],))
]
TARGETS = st.lists(st.sampled_from(EXPORTS), min_size=1, max_size=3)
SCALARS = (
    st.none()
    | st.just(10**400)
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "x", "[]", "{}", "[1]", '"a"', "essential", "\ud800", "\0", "1e400", "mean", "any-pass"])
    | st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)


def places(value, path=()):
    """Paths to every field and element."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def changed(draw, document):
    """The document with other values in one place or two, or a place left out."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(places(document))))
        if not path:
            return draw(VALUES)
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()) and draw(st.booleans()):
            del parent[path[-1]]
        else:
            parent[path[-1]] = draw(VALUES)
    return document


def carry(path, folder, format=None, exports=EXPORTS):
    """Read a file and write what it holds in some formats; only a UserError may come out."""
    with suppress(UserError):
        list(read_rubric_set(path, format, note=str))
    try:
        entries = list(read_rubric_set(path, note=str))
    except UserError:
        return
    for name, target in exports:
        with suppress(UserError):
            write_rubric_set(entries, folder / target, name, note=str)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_of_any_shape(tmp_path_factory, name, data):
    folder = tmp_path_factory.getbasetemp()
    row = data.draw(changed(ROWS[name]))
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    carry(folder / "rows.jsonl", folder, FORMAT_OF.get(name, name), data.draw(TARGETS))
    (folder / "rows.json").write_text(json.dumps([row]))
    carry(folder / "rows.json", folder, FORMAT_OF.get(name, name), data.draw(TARGETS))


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_documents_of_any_shape(tmp_path_factory, name, data):
    folder = tmp_path_factory.getbasetemp()
    document = data.draw(changed(DOCUMENTS[name]))
    (folder / "one.json").write_text(json.dumps(document))
    carry(folder / "one.json", folder, FORMAT_OF.get(name, name), data.draw(TARGETS))
    (folder / "one.toml").write_text(toml(document), encoding="utf-8", errors="replace")
    carry(folder / "one.toml", folder, FORMAT_OF.get(name, name), data.draw(TARGETS))


def toml(value):
    """Values as TOML, inline; None and what is no table is left out."""
    if not isinstance(value, dict):
        return f"value = {inline(value)}"
    return "\n".join(f"{json.dumps(key)} = {inline(inner)}" for key, inner in value.items() if inner is not None)


def inline(value):
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {inline(inner)}" for key, inner in value.items() if inner is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(inner) for inner in value if inner is not None) + "]"
    if isinstance(value, float):
        return re.sub("infinity", "inf", re.sub(r"^(-?\d+)e", r"\1.0e", repr(value)))
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["s", "", "c", "1", "nan", "yes", '"', "\0", "x" * 9]), max_size=5), max_size=4),
    TARGETS,
)
def test_tables_of_any_shape(tmp_path_factory, rows, exports):
    folder = tmp_path_factory.getbasetemp()
    text = "\n".join(["sample_id,criterion,weight,essential", *map(",".join, rows)])
    (folder / "a.csv").write_text(text)
    carry(folder / "a.csv", folder, "csv", exports)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.toml", "a.parquet"]))
def test_bytes_of_any_kind(tmp_path_factory, content, name):
    folder = tmp_path_factory.getbasetemp()
    (folder / name).write_bytes(content)
    carry(folder / name, folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", '[[criterion]]\ndescription = "c"\n[scoring]\naggregation = ["mean"]'),
        ("a.toml", 'scoring = "mean"\n[[criterion]]\ndescription = "c"'),
        ("a.toml", '[[criterion]]\ndescription = "c"\nannotations = "x"'),
        ("a.toml", '[[criterion]]\ndescription = "c"\ntype = "numeric"\nmax = "much"'),
        ("a.toml", '[[criterion]]\ndescription = "c"\ntype = "rubric"\nlevels = 3'),
        ("a.toml", '[[criteria]]\nname = "c"\ntext = "c"\nchoices = []'),
        ("a.jsonl", json.dumps({**OWN, "extras": "[]"})),
        ("a.jsonl", json.dumps({**OWN, "extras": 3})),
        ("a.jsonl", json.dumps({**OWN, "extras": {"row": [1]}})),
        ("a.jsonl", json.dumps({**OWN, "prompt": "\ud800"})),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as refusal:
        list(read_rubric_set(tmp_path / name, note=str))
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


KIT = '[[criterion]]\ndescription = "c"\n'
CHOICES = '[[criteria]]\nname = "a"\ntext = "t"\n'
RAR, HEALTHBENCH, HUB = ROWS["rar"], ROWS["healthbench"], ROWS["rubrichub"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({**OWN, "rubric": [{"criterion": "c", "weight": True}]}, "weight: is True; give a number"),
        ({**OWN, "rubric": 5}, "its rubric is 5; it is a list of criteria"),
        ({**OWN, "rubric": ["Names the cat"]}, "give a list of objects"),
        ({**OWN, "reference": ["a", "b"]}, r"reference is \['a', 'b'\], not a text"),
        ({**OWN, "prompt": {"a": 1}}, "a text or a list of messages"),
        ({**OWN, "sample_id": True}, "sample_id is True, not a text"),
        ({**OWN, "sample_id": ""}, "its sample_id is empty"),
        ({**HEALTHBENCH, "rubrics": [{"criterion": ["a"], "points": 1}]}, "criterion 1: criterion is .*, not a text"),
        ({**HEALTHBENCH, "rubrics": [{"criterion": "a", "points": "5"}]}, "criterion 1: points is '5', not a number"),
        ({**HEALTHBENCH, "prompt": ["hi"]}, "a text or a list of messages"),
        ({**HEALTHBENCH, "ideal_completions_data": {"ideal_completion": ["a"]}}, "ideal_completion is .*, not a text"),
        ({**RAR, "rubric": [{"title": ["t"], "description": "d", "weight": 1}]}, "title is .*, not a text"),
        ({**RAR, "question": ["q"]}, "question is .*, not a text"),
        ({**HUB, "id": [1]}, "id is .*, not a text"),
        (KIT + "weight = true", "criterion 1: weight: is True"),
        (KIT + 'type = "likart"', "criterion 1: type is 'likart'; choose binary, likert, numeric or rubric"),
        (KIT + 'type = "likert"\npoints = true', "points are True"),
        (KIT + 'type = "numeric"\nmax = nan', "give numbers"),
        (KIT + 'type = "rubric"\nlevels = []', "give a list of texts"),
        (KIT + 'name = ["a"]', "name is .*, not a text"),
        (CHOICES + "choices = [false, true]", "give a list of texts"),
        (CHOICES + "weight = true", "weight: is True"),
    ],
)
def test_values_of_another_type_are_refused_and_never_read_as_their_python_text(tmp_path, document, words):
    path = tmp_path / ("a.toml" if isinstance(document, str) else "a.jsonl")
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(UserError, match=words):
        list(read_rubric_set(path, note=str))


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ([{"type": "text", "text": "What"}, {"type": "text", "text": "is it?"}], "What\nis it?"),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "And this?"}], "[image_url]\nAnd"),
        (None, ""),
    ],
)
@pytest.mark.parametrize("row", [OWN, HEALTHBENCH], ids=["ours", "healthbench"])
def test_messages_in_parts_are_prompts_by_their_text(tmp_path, row, content, prompt):
    (tmp_path / "a.jsonl").write_text(json.dumps({**row, "prompt": [{"role": "user", "content": content}]}))
    (entry,) = read_rubric_set(tmp_path / "a.jsonl", note=str)
    assert entry.prompt.startswith(prompt)
    assert "{" not in entry.prompt


def test_fields_that_are_null_are_not_there(tmp_path):
    criteria = [{"criterion": "c", "weight": 1, "description": None}, {"criterion": "d", "weight": 2, "key": "k"}]
    pq.write_table(pa.Table.from_pylist([{**OWN, "extras": "", "rubric": criteria}]), tmp_path / "a.parquet")
    (entry,) = read_rubric_set(tmp_path / "a.parquet", note=str)
    assert [(criterion.description, criterion.key) for criterion in entry.rubric.criteria] == [("", ""), ("", "k")]
    item = {"name": "a", "text": "t", "weight": 1, "choices": None}
    (tmp_path / "a.json").write_text(json.dumps({"criteria": [item]}))
    (entry,) = read_rubric_set(tmp_path / "a.json", note=str)
    assert entry.rubric.criteria[0].evaluation_rule == ""


def test_tables_from_spreadsheets_may_have_empty_rows_and_are_told_their_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sample_id,criterion,weight\n,,\ns,c,1\n,,\n")
    assert [entry.sample_id for entry in read_rubric_set(path, note=str)] == ["s"]
    for text, words in (
        ("sample_id;criterion;weight\ns;c;1", "only 'sample_id;criterion;weight'; it needs .* with commas between"),
        ("sample_id,criterion,weight,weight\ns,c,1,2", "column 'weight' stands twice"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=words):
            list(read_rubric_set(path, note=str))


def test_dates_and_bytes_beside_a_rubric_are_written_as_text(tmp_path):
    dated = '[judge]\nsince = 2026-01-01\n[[criterion]]\ndescription = "c"\n'
    (tmp_path / "a.toml").write_text(dated)
    carry(tmp_path / "a.toml", tmp_path)
    row = {**ROWS["rar"], "image": b"\x89PNG", "when": pa.scalar(0, pa.timestamp("s")).as_py()}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    carry(tmp_path / "a.parquet", tmp_path)
    assert list(read_rubric_set(tmp_path / "set.jsonl", note=str))
