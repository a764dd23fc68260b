"""`rubricworks audit` on labelled responses of the scene world: the table, the page, judging again, mistakes."""

import json

import pytest
from audited import world_server, write_labelled

COUNT = 90


@pytest.fixture(scope="module")
def world():
    with world_server(COUNT) as url:
        yield url


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder with GenRM data and samples."""
    folder = tmp_path_factory.mktemp("runs") / "r1"
    write_labelled(folder, COUNT)
    (folder / "samples").rename(folder / "prepare_questions")
    (folder / "recipe.yaml").write_text(f"world: {{scenes: {COUNT}}}\n")
    return folder


@pytest.fixture
def writers(world):
    flags = ["--generator", f"abnormal-writer@{world}", "--red-team", f"red-teamer@{world}"]
    return [*flags, *(word for n in (1, 2) for word in ("--quality-judge", f"quality-judge-{n}@{world}"))]


def judge(world, name="weak-scorer"):
    return ["--judge", f"{name}@{world}"]


@pytest.mark.slow
def test_audit_prints_the_table_and_writes_page_and_numbers_and_can_be_judged_again(
    tell, tmp_path, world, run, writers
):
    small = ["--per-category", 10, "--regular", 20, "--search-size", 4]
    result = tell("audit", run, *judge(world), *writers, *small, "--out", "out")
    assert result.code == 0, result
    assert max(map(len, result.out.splitlines())) <= 100 + len(str(tmp_path))
    lines = result.out.splitlines()
    assert lines[0] == "weak-scorer"
    assert lines[2].split() == ["Regular", "No", "final", "Irrelevant", "Plausible", "Adversarial"]
    assert [line.split("  ")[0] for line in lines if line[:1].isupper() and line[15:16] == " "][:4] == [
        "Default",
        "Image shown",
        "Targets shown",
        "No verifier",
    ]
    figures = json.loads((tmp_path / "out" / "audit" / "audit.json").read_text())
    average = figures["settings"]["text"]["regular"]["average"]
    default = next(line for line in lines if line.startswith("Default"))
    assert f"{100 * average['value']:.1f}" in default
    assert {mode: response["found"] for mode, response in figures["responses"].items()}["adversarial"] == 10
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "<script" not in page
    assert "weak-scorer" in page
    assert "Simulated." in page

    again = tell("audit", run, "--from", "out", *judge(world, "scorer"), "--setting", "image", "--out", "again")
    assert again.code == 0, again
    assert "scorer" in again.out
    assert "Default" not in again.out
    assert json.loads((tmp_path / "again" / "audit" / "audit.json").read_text())["judge"] == "scorer"

    second_audit = tell("audit", "--from", "again", *judge(world, "scorer"), "--setting", "text", "--out", "apart")
    assert second_audit.code == 0, second_audit
    assert "Simulated." in (tmp_path / "apart" / "audit.html").read_text()

    (tmp_path / "again" / "source.json").write_text("{}")
    foreign = tell("audit", "--from", "again", *judge(world, "scorer"), "--setting", "text", "--out", "apart")
    assert (foreign.code, foreign.err.splitlines()[-1].endswith("move it away, or audit again")) == (2, True)

    itself = tell("audit", run, "--from", "out", *judge(world, "scorer"), "--setting", "image", "--out", "out")
    assert itself.code == 2
    assert "would be replaced by its own audit" in itself.err

    resumed = tell("audit", run, *judge(world), *writers, *small, "--out", "out")
    assert (resumed.code, resumed.out) == (0, result.out)
    assert "done in an earlier run" in resumed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a run's folder"),
        (["RUN"], "--generator, and --quality-judge twice"),
        (["RUN", "--generator", "g@http://127.0.0.1:9", "--quality-judge", "a@http://127.0.0.1:9"], "twice"),
        (["RUN/prepare_questions"], "is a table of samples, not GenRM data"),
        (["RUN", "--from", "RUN/genrm_data"], "is a table of genrm_data, not an audit"),
        (["EMPTY"], "no finished table of GenRM data"),
        (["RUN", "--setting", "telepathy"], "telepathy"),
    ],
)
def test_mistakes_are_one_line(tell, tmp_path, run, arguments, message):
    (tmp_path / "EMPTY").mkdir()
    result = tell(
        "audit", *(word.replace("RUN", str(run)) for word in arguments), *judge("http://127.0.0.1:9"), "--out", "o"
    )
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "o").exists()


def test_images_are_needed_only_where_they_are_shown(tell, world, run, writers, tmp_path):
    alone = tmp_path / "alone"
    (run / "genrm_data").rename(alone)
    try:
        result = tell("audit", alone, *judge(world), *writers, "--out", "o")
        assert (result.code, "give --samples, or --setting without image" in result.err) == (2, True)
        few = ["--setting", "text", "--per-category", 2, "--regular", 2, "--search-size", 2]
        assert tell("audit", alone, *judge(world), *writers, *few, "--out", "o").code == 0
        assert "<img" not in (tmp_path / "o" / "audit.html").read_text()
    finally:
        alone.rename(run / "genrm_data")
