"""A run that ended well says what came of it, to whoever looks at it in its folder or in its store."""

import json
from contextlib import nullcontext

import pytest

from rubricworks.cli import main

SKIPPED = "skipped: 12 new samples, 500 needed"


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Commands in a fresh folder, and what they print; stages, checks and MLflow are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setattr("rubricworks.cli.run.check_machine", lambda recipe, runs: [])
    monkeypatch.setattr("rubricworks.tracking.pipeline_run", lambda *args: nullcontext())

    def skipping(pipeline, arguments, *, run, without, served):
        (run / "summary.json").write_text(json.dumps({"outcome": SKIPPED}))

    monkeypatch.setattr("rubricworks.runs.local.run_local", skipping)
    (tmp_path / "nightly.yaml").write_text("name: nightly\npipeline: retrain\n")

    def tell(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert not ended.value.code
        return capsys.readouterr().out

    return tell


@pytest.mark.parametrize("stored", [False, True], ids=["folder", "store"])
def test_a_skipped_retraining_is_done_and_says_why_it_was_skipped(command, request, stored):
    runs = f"{request.getfixturevalue('bucket')}/runs" if stored else "runs"
    assert SKIPPED in command("run", "nightly.yaml", "--run", "monday", "--runs", runs)
    output = command("runs", "show", "monday", "--runs", runs).splitlines()
    assert (output[0], output[-1]) == ("monday: done", SKIPPED)
    listed = command("runs", "list", "--runs", runs).splitlines()
    assert listed[1].split()[:3] == ["monday", "done", "retrain"]
