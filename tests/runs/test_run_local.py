"""Runs small real pipelines through kfp.local; the stages are subprocesses, as in use."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
import vllm_stand_in
from kfp import dsl
from PIL import Image

from rubricworks.errors import UserError
from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.runs.local import run_local
from rubricworks.runtime.launch import launch

pytestmark = pytest.mark.slow


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def first(config: str, run: str) -> str:
    import pathlib
    import sys

    print("chatter that belongs to the log")
    print("one third", file=sys.stderr)
    print("two thirds\rthree thirds", file=sys.stderr)
    pathlib.Path(run, "first.txt").write_text(config)
    return config


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def second_stage(run: str, text: str) -> str:
    import pathlib

    pathlib.Path(run, "second.txt").write_text(pathlib.Path(run, "first.txt").read_text() + text)
    return text


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def breaks(run: str, text: str, how: str) -> str:
    import json
    import os
    import pathlib
    import signal

    if how == "reported":
        pathlib.Path(run, "error.json").write_text(json.dumps({"stage": "breaks", "message": "row 3 is\nempty."}))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyError("no such thing")


@dsl.pipeline(name="chain")
def chain(run: str, first_config: str) -> None:
    text = first(config=first_config, run=run).output
    second_stage(run=run, text=text)


@dsl.pipeline(name="broken")
def broken(run: str, how: str) -> None:
    text = first(config="x", run=run).output
    second_stage(run=run, text=breaks(run=run, text=text, how=how).output)


def failure_of(run: Path, how: str) -> str:
    with pytest.raises(UserError) as caught:
        run_local(broken, {"run": str(run), "how": how}, run=run)
    return str(caught.value)


def test_outputs_are_passed_on_and_standard_error_is_shown_by_stage(tmp_path, capfd):
    run_local(chain, pipeline_arguments(str(tmp_path), {"first": "hello"}), run=tmp_path)

    assert (tmp_path / "second.txt").read_text() == "hellohello"
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "first        | one third\nfirst        | three thirds\n"
    assert "chatter that belongs to the log" in (tmp_path / "logs" / "first.log").read_text()
    assert "one third" in (tmp_path / "logs" / "first.log").read_text()


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def tells_parent(run: str, name: str) -> str:
    import os
    import pathlib

    pathlib.Path(run, name).write_text(f"{os.getppid()} {os.getsid(0) == os.getpid()} {os.environ['OF_THE_RUN']}")
    return "younger"


@dsl.pipeline(name="siblings")
def siblings(run: str) -> None:
    tells_parent(run=run, name=tells_parent(run=run, name="elder").output)


def test_stages_are_forked_from_one_process_into_sessions_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_RUN", "a variable")
    run_local(siblings, {"run": str(tmp_path)}, run=tmp_path)
    elder, younger = ((tmp_path / name).read_text() for name in ("elder", "younger"))
    assert elder == younger
    parent, *others = elder.split(maxsplit=2)
    assert int(parent) != os.getpid()
    assert others == ["True", "a variable"]
    assert not runs(int(parent))


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def ends_late(run: str) -> str:
    import atexit
    import pathlib
    import sys
    import threading
    import time

    def writes_late() -> None:
        time.sleep(0.3)
        pathlib.Path(run, "late").write_text("by a thread")

    atexit.register(lambda: print("said", pathlib.Path(run, "late").read_text(), "at the exit", end=""))
    threading.Thread(target=writes_late).start()
    sys.stderr.write("no end of a line")
    return ""


@dsl.pipeline(name="late")
def late(run: str) -> None:
    ends_late(run=run)


def test_a_forked_stages_threads_exit_functions_and_words_come_to_their_end(tmp_path, capfd):
    run_local(late, {"run": str(tmp_path)}, run=tmp_path)
    assert capfd.readouterr().err == "ends_late | no end of a line\n"
    assert "said by a thread at the exit" in (tmp_path / "logs" / "ends_late.log").read_text()


def test_where_no_fork_is_safe_each_stage_is_started_by_kubeflows_own_script(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("rubricworks.runs.local.IS_SAFE", False)
    run_local(chain, pipeline_arguments(str(tmp_path), {"first": "hello"}), run=tmp_path)
    assert (tmp_path / "second.txt").read_text() == "hellohello"
    assert capfd.readouterr().err == "first        | one third\nfirst        | three thirds\n"
    assert "SIGKILL" in failure_of(tmp_path, "killed")


def test_a_server_that_is_killed_ends_the_run_in_words(tmp_path):
    process = run_in_another_process(tmp_path, "sleeps")
    wait_for(lambda: (tmp_path / "pids").exists())
    stage, helper = map(int, (tmp_path / "pids").read_text().split())
    psutil.Process(stage).parent().kill()
    assert process.wait() != 0
    assert process.stderr is not None
    assert "stage sleeps failed: it was killed from outside (SIGKILL)" in process.stderr.read()
    wait_for(lambda: not runs(stage) and not runs(helper))


def test_a_stage_can_be_left_out_once_and_not_one_whose_outputs_are_taken(tmp_path):
    arguments = pipeline_arguments(str(tmp_path), {"first": "hello"})
    run_local(chain, arguments, run=tmp_path, without={"second_stage"})
    assert (tmp_path / "first.txt").read_text() == "hello"
    assert not (tmp_path / "second.txt").exists()
    run_local(chain, arguments, run=tmp_path)
    assert (tmp_path / "second.txt").exists()
    with pytest.raises(ValueError, match="second-stage: takes what was left out"):
        run_local(chain, arguments, run=tmp_path, without={"first"})


def test_a_line_is_shown_while_its_stage_still_runs(tmp_path):
    process = run_in_another_process(tmp_path, "talks")
    assert process.stderr is not None
    try:
        # The stage waits for this file: a line held back until its end would never come.
        assert process.stderr.readline() == "talks | still running\n"
    finally:
        (tmp_path / "go").touch()
    assert process.wait() == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"prompt":"run python3 \\"now\\"; echo $HOME `id` \'"}',
        '{"prompt":"a {{$}} b {{$.inputs}} c\\n\\u00e9 \\u2603"}',
        '{"[[Index]]":[[1],[[2]],"]] [[ \\\\{{ \\" [[\\" {{{ \N{ROCKET} \u2028"]}',
    ],
)
def test_a_configuration_reaches_its_stage_unchanged(tmp_path, text):
    run_local(chain, pipeline_arguments(str(tmp_path), {"first": text}), run=tmp_path)
    assert json.loads((tmp_path / "first.txt").read_text()) == json.loads(text)


def test_what_a_failed_stage_reported_is_the_message_and_later_stages_do_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert failure_of(tmp_path / "runs" / "a", "reported") == (
        "stage breaks failed: row 3 is empty; fix it and continue with: rubricworks run --resume a"
    )
    assert not (tmp_path / "runs" / "a" / "second.txt").exists()


def test_the_command_that_continues_a_run_names_an_unusual_folder_of_runs(tmp_path):
    message = failure_of(tmp_path / "my runs" / "a", "reported")
    assert message.endswith(f"rubricworks run --resume a --runs '{tmp_path / 'my runs'}'")


def test_stage_without_report_is_explained_by_its_last_words(tmp_path):
    (tmp_path / "error.json").write_text(json.dumps({"stage": "first", "message": "an old story"}))
    message = failure_of(tmp_path, "silent")
    assert "KeyError: 'no such thing'" in message
    assert "logs/breaks.log" in message
    assert "old story" not in message


def test_a_stage_killed_for_memory_says_so(tmp_path):
    assert "SIGKILL" in failure_of(tmp_path, "killed")
    assert "memory" in failure_of(tmp_path, "killed")


def test_a_traceback_is_logged_and_not_shown(tmp_path, capfd):
    failure_of(tmp_path, "silent")
    assert "Traceback" not in capfd.readouterr().err
    assert "Traceback" in (tmp_path / "logs" / "breaks.log").read_text()


def test_nothing_is_left_in_the_working_or_temporary_folder(tmp_path, monkeypatch):
    run, work, temporary = (tmp_path / name for name in ("run", "work", "temporary"))
    for folder in (run, work, temporary):
        folder.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    run_local(chain, {"run": str(run), "first_config": "x"}, run=run)
    assert not list(work.iterdir())
    assert not list(temporary.iterdir())
    assert {path.name for path in run.iterdir()} == {"first.txt", "second.txt", "logs", "kfp"}


def test_kfp_is_left_as_it_was_so_that_pipelines_can_still_be_compiled(tmp_path):
    from kfp.local import config, subprocess_task_handler

    before = subprocess_task_handler.SubprocessTaskHandler
    failure_of(tmp_path, "silent")
    assert subprocess_task_handler.SubprocessTaskHandler is before
    assert config.LocalExecutionConfig.instance is None


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_of_a_stage_outlives_its_run(tmp_path, blow):
    process = run_in_another_process(tmp_path, "sleeps")
    wait_for(lambda: (tmp_path / "pids").exists())
    stage, helper = map(int, (tmp_path / "pids").read_text().split())
    assert runs(stage)
    assert runs(helper)

    process.send_signal(blow)
    assert process.wait() != 0
    wait_for(lambda: not runs(stage) and not runs(helper))


def test_a_process_that_a_finished_stage_left_behind_is_ended(tmp_path):
    process = run_in_another_process(tmp_path, "leaves_helper")
    assert process.wait() == 0
    wait_for(lambda: not runs(int((tmp_path / "pid").read_text())))


PROGRAM = """
import sys
from pathlib import Path
from kfp import dsl
from rubricworks.runs.local import run_local

@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def talks(run: str) -> str:
    import pathlib, sys, time
    print("still running", file=sys.stderr)
    while not pathlib.Path(run, "go").exists():
        time.sleep(0.02)
    return ""

@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def leaves_helper(run: str) -> str:
    import pathlib, subprocess
    helper = subprocess.Popen(["sleep", "600"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    pathlib.Path(run, "pid").write_text(str(helper.pid))
    return ""

@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def sleeps(run: str) -> str:
    import os, pathlib, subprocess, time
    helper = subprocess.Popen(["sleep", "600"])
    pathlib.Path(run, "aside").write_text(f"{os.getpid()} {helper.pid}")
    pathlib.Path(run, "aside").rename(pathlib.Path(run, "pids"))
    time.sleep(600)
    return ""

stage = globals()[sys.argv[2]]

@dsl.pipeline(name="lonely")
def lonely(run: str) -> None:
    stage(run=run)

run_local(lonely, {"run": sys.argv[1]}, run=Path(sys.argv[1]))
"""


def run_in_another_process(run: Path, stage: str) -> subprocess.Popen[str]:
    program = run / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    return subprocess.Popen(
        [sys.executable, str(program), str(run), stage], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def asks(run: str, samples: str, served: str) -> str:
    from rubricworks.runtime.launch import launch

    return str(launch("recap", f'{{"captioner": {{"serve": {served}}}}}', f"{run}/first", {"samples": samples}))


@dsl.component(base_image="any", install_kfp_package=False, packages_to_install=[])
def asks_again(run: str, samples: str, served: str, after: str, victim: str) -> str:
    import os
    import signal

    from rubricworks.llm import ChatClient
    from rubricworks.runtime.launch import launch

    if victim == "stage":  # in the middle of its calls
        ChatClient.chat = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    return str(launch("recap", f'{{"captioner": {{"serve": {served}}}}}', f"{run}/second", {"samples": samples}))


@dsl.pipeline(name="served")
def asked_twice(run: str, samples: str, served: str, victim: str) -> None:
    first = asks(run=run, samples=samples, served=served).output
    asks_again(run=run, samples=samples, served=served, after=first, victim=victim)


@pytest.mark.parametrize("victim", ["", "stage"])
def test_stages_of_a_run_share_a_served_model_and_leave_none_behind(tmp_path, monkeypatch, victim):
    programs = vllm_stand_in.install(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name in ("STARTS", "CHATS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "images").mkdir()
    for number in range(3):
        Image.new("RGB", (20, 20), (30 * number, 80, 120)).save(tmp_path / "images" / f"{number}.png")
    config = json.dumps({"source": str(tmp_path / "images"), "held_out": 1})
    samples = launch("prepare", config, str(tmp_path / "data"), {})
    model = vllm_stand_in.model_folder(tmp_path / "model", "a red house")
    run = tmp_path / "run"
    served = json.dumps({"name": "captioner", "model": str(model)})
    arguments = {"run": str(run), "samples": samples, "served": served, "victim": victim}
    with pytest.raises(UserError, match="killed from outside") if victim else nullcontext():
        run_local(asked_twice, arguments, run=run, served={"captioner": ["asks", "asks_again"]})
    [start] = [json.loads(line) for line in (tmp_path / "STARTS").read_text().splitlines()]
    assert not runs(start[0])
    assert "asks_again was the last stage" in (run / "served_models.jsonl").read_text()
