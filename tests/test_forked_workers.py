"""`pytest --workers`: every test runs once, and a process that dies, hangs or leaks costs its own test alone."""

import os
import subprocess
import sys

import pytest
from support_paths import SUPPORT_PATHS

pytestmark = pytest.mark.slow

FILES = {
    "test_a.py": """
import os, pytest, warnings
@pytest.fixture(scope="module")
def made(tmp_path_factory):
    (tmp_path_factory.mktemp("m") / "made").touch()
    print("made once")
    yield 1
    print("taken down")
def test_first(made): pass
def test_dies(): os.kill(os.getpid(), 9)
def test_after_the_death(made, tmp_path): (tmp_path / "file").write_text("a")
def test_ends_its_process(): os._exit(3)
@pytest.mark.parametrize("number", range(5))
def test_last(number, capfd): os.write(1, b"seen"); assert capfd.readouterr().out == "seen"
""",
    "test_b.py": """
import time, pytest
def test_fails(): print("output of b"); assert 1 == 2
@pytest.mark.timeout(1)
def test_hangs(): time.sleep(600)
def test_skips(): pytest.skip("no reason")
""",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> subprocess.CompletedProcess[str]:
    folder = tmp_path_factory.mktemp("suite")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    paths = os.pathsep.join(SUPPORT_PATHS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "forked_workers",
        "--workers",
        "2",
        "-rA",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_test_is_reported_once(report):
    assert "4 failed, 7 passed, 1 skipped" in report.stdout, report.stdout + report.stderr
    assert report.returncode == 1


def test_dead_process_fails_the_test_that_it_ran_and_names_its_end(report):
    assert "FAILED test_a.py::test_dies - the process ended with signal SIGKILL" in report.stdout
    assert "FAILED test_a.py::test_ends_its_process - the process ended with exit code 3" in report.stdout
    assert "PASSED test_a.py::test_after_the_death" in report.stdout


def test_output_of_a_failed_test_is_shown(report):
    assert "output of b" in report.stdout
    assert "Timeout (>1.0s)" in report.stdout
