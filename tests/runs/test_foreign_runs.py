"""Runs of strangers in the folder of all runs: each fault is one line of its own run, and stays there."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hostile_runs import bomb
from served_api import ask, exchange, served, wait_for, wait_for_rollouts
from trained_run import STAGE, write_run

from rubricworks.cli import cli
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.records import run_records
from rubricworks.runs.store import open_run_store
from rubricworks.runs.tables import TableFile, UnreadableTable
from rubricworks.storage.confined_files import UnreadableFile

SECRET = "somebody else's"


def _replace(path: Path, make) -> None:
    path.unlink(missing_ok=True)
    make(path)


FAULTS = {
    "a link out": ("outcome.json", lambda path: path.symlink_to(path.parents[2] / "secret"), "is a link"),
    "a link to itself": ("outcome.json", lambda path: path.symlink_to(path), "is a link"),
    "a link to a device": ("recipe.yaml", lambda path: path.symlink_to("/dev/zero"), "is a link"),
    "a pipe": ("outcome.json", os.mkfifo, "is no regular file"),
    "a folder": ("lock", Path.mkdir, "is no regular file"),
    "no JSON": ("outcome.json", lambda path: path.write_text("{"), "is damaged"),
    "deep JSON": ("outcome.json", lambda path: path.write_text("[" * 10**5), "is damaged"),
    "no YAML": ("recipe.yaml", lambda path: path.write_text("a: [\n"), "is damaged"),
    "a large file": ("outcome.json", lambda path: (path.touch(), os.truncate(path, 10**10)), "MB are read"),
}
"""What stands in the place of a file, how, and what its run's record says."""


@pytest.fixture
def runs(tmp_path) -> Path:
    """A folder of runs with a sound one, beside a file of somebody else's."""
    (tmp_path / "secret").write_text(SECRET)
    write_run(tmp_path / "runs", "sound-1")
    return tmp_path / "runs"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_run_is_one_line_of_its_record_and_hides_no_other(fault, runs):
    path, make, problem = FAULTS[fault]
    _replace(write_run(runs, "odd-1") / path, make)
    records = {record.name: record for record in run_records(open_run_store(str(runs)))}
    assert records["sound-1"].state == "done"
    assert records["sound-1"].fault == ""
    assert f"odd-1/{path}" in records["odd-1"].fault
    assert problem in records["odd-1"].fault
    assert SECRET not in repr(records)
    shown = CliRunner().invoke(cli, ["runs", "show", "odd-1", "--runs", str(runs)]).output
    assert f"cannot be read in full: {records['odd-1'].fault}" in shown
    assert "sound-1" in CliRunner().invoke(cli, ["runs", "list", "--runs", str(runs)]).output


def test_a_run_that_is_a_link_is_told_and_not_followed(runs, tmp_path):
    (runs / "odd-1").symlink_to(write_run(tmp_path / "elsewhere", "true-1"))
    records = {record.name: record for record in run_records(open_run_store(str(runs)))}
    assert records["odd-1"].fault == "odd-1 is a link; move the folder itself here"
    assert records.keys() == {"odd-1", "sound-1"}


def test_no_page_follows_a_link_and_every_run_is_indexed(runs):
    odd = write_run(runs, "a-odd")
    (odd / "report.html").symlink_to(runs.parent / "secret")
    (odd / "outcome.json").unlink()
    (odd / "outcome.json").symlink_to("outcome.json")
    (odd / "logs").rename(odd / "aside")
    (odd / "logs").symlink_to(runs.parent)
    (runs.parent / f"{STAGE}.log").write_text(SECRET)
    with served(ApiSettings(storage=str(runs), index_seconds=0.05)) as url:
        wait_for_rollouts(url, "sound-1")
        wait_for_rollouts(url, "a-odd")
        fault = "a-odd/outcome.json is a link; put the file itself there"
        wait_for(lambda: ask(f"{url}/api/v1/runs/a-odd")[1]["fault"] == fault)
        assert f"This run cannot be read in full: {fault}" in exchange(f"{url}/runs/a-odd")[2].decode()
        status, problem = ask(f"{url}/runs/a-odd/report/content")
        assert (status, problem["detail"]) == (
            422,
            "a-odd/report.html is a link; put the file itself there",
        )
        status, problem = ask(f"{url}/api/v1/runs/a-odd/stages/{STAGE}/log")
        assert (status, SECRET in str(problem)) == (422, False)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../../secret", "", "a\0b"])
def test_no_path_leads_out_of_a_run(path, runs):
    assert open_run_store(str(runs)).read("sound-1", path) is None


def test_a_folder_is_no_file(runs):
    with pytest.raises(UnreadableFile, match="sound-1/logs is no regular file"):
        open_run_store(str(runs)).read("sound-1", "logs")


@pytest.mark.parametrize("kind", ["rows", "page"])
@pytest.mark.parametrize("ranged", [False, True])
def test_a_table_that_would_take_all_memory_is_refused(kind, ranged, runs):
    path = f"{STAGE}/scorecards/part-00000.parquet"
    file = runs / "sound-1" / path
    bomb(file, kind)
    assert file.stat().st_size < 200_000
    size = file.stat().st_size if ranged else None
    table = TableFile(open_run_store(str(runs)), "sound-1", path, 1, size, kind="scorecards")
    with pytest.raises(UnreadableTable, match=r"takes? more than 160 MB of memory"):
        table.rows()
