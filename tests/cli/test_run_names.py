"""A run's name is one folder of the folder of all runs, wherever it is given."""

import pytest

OUTSIDE = ["../evil", "..", ".", "", "a/b", "/tmp/evil", "a\\b", "evil\n", ".hidden", "-x", "x" * 101, "${HOME}"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_written(tell, tmp_path, name, dry_run):
    runs = tmp_path / "home" / "runs"
    result = tell("run", "quickstart", f"--run={name}", "--runs", runs, *dry_run)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: --run {name!r}: a run's name is that of one folder")
    assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../outside", "../../x", "/tmp/x"])
def test_a_run_outside_the_folder_of_all_runs_is_not_resumed(tell, tmp_path, name):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "recipe.yaml").write_text("name: quickstart\n")
    result = tell("run", "--resume", name)
    assert result.code == 2
    assert f"--resume {name!r}: a run's name is that of one folder" in result.err
    assert [path.name for path in tmp_path.rglob("*")] == ["outside", "recipe.yaml"]
