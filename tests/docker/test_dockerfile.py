"""Rules of the Dockerfile that need no build: hadolint's and the project's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from locks import IMAGES, ROOT, locked

from rubricworks.components import images

DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")


def stages() -> dict[str, list[str]]:
    """Stage → its instructions, those of the stages that it begins with first."""
    result: dict[str, list[str]] = {}
    for block in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]:
        lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", block, flags=re.MULTILINE)).strip().splitlines()
        base, name = re.fullmatch(r"FROM (\S+) AS (\S+)", lines[0]).groups()
        result[name] = [*result.get(base, []), *(line for line in lines[1:] if line)]
    return result


def test_hadolint_has_nothing_to_say():
    tool = Path(sys.executable).parent / "hadolint"
    process = subprocess.run([tool, ROOT / "docker" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout + process.stderr) == (0, "")


def test_there_is_a_stage_for_every_image_that_a_recipe_names():
    names = {value.partition(":")[0] for value in (images.CPU, images.TRAINER, images.VLLM, images.API)}
    assert names == {f"rubricworks/{image}" for image in IMAGES}
    assert names <= {f"rubricworks/{stage}" for stage in stages()}


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_ends_as_a_numbered_user_that_is_not_root(image):
    (*_, last) = [line for line in stages()[image] if line.startswith("USER ")]
    assert re.fullmatch(r"USER [1-9]\d*:[1-9]\d*", last), "a kubelet can only check a number"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_says_where_its_list_of_packages_is(image):
    assert any('rubricworks.sbom="/usr/share/sbom/' in line for line in stages()[image] if line.startswith("LABEL"))


@pytest.mark.parametrize("image", ["api", "vllm"])
def test_servers_have_a_health_check(image):
    assert any(line.startswith("HEALTHCHECK ") and "CMD [" in line for line in stages()[image])


def test_only_the_images_that_compile_kernels_have_a_compiler():
    having = {image for image in IMAGES if any(re.search(r"\bgcc\b", line) for line in stages()[image])}
    assert having == {image for image in IMAGES if "vllm" in locked(image)} == {"trainer", "vllm"}


def test_pip_takes_nothing_without_a_hash():
    fetching = [
        line for line in re.sub(r"\\\n", " ", DOCKERFILE).splitlines() if re.search(r"pip (install|wheel)", line)
    ]
    assert fetching
    for part in re.findall(r"-m pip .*?(?= && |$)", "\n".join(fetching), flags=re.MULTILINE):
        if re.search(r" (install|wheel) ", part):
            assert "--require-hashes" in part or "--no-index" in part, part


def test_no_image_shows_every_gpu_of_its_node():
    assert "NVIDIA_VISIBLE_DEVICES" not in " ".join(line for lines in stages().values() for line in lines)


def test_every_image_that_is_not_made_here_is_named_by_its_digest():
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    named = {re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], base) for base in bases} - stages().keys()
    assert named
    assert [base for base in named if not re.fullmatch(r"[^@]+:[^@]+@sha256:[0-9a-f]{64}", base)] == []


def test_an_image_on_a_base_without_a_digest_is_not_pushed():
    done = subprocess.run(
        [ROOT / "docker" / "build.sh", "cpu"],
        capture_output=True,
        text=True,
        env={"ENGINE": "true", "PATH": "/usr/bin:/bin", "BASE": "python:3.11-slim", "PUSH": "1"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: BASE is not named by a digest")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["everything"], ["cpu", "gpu"]])
def test_an_image_that_is_not_there_is_refused_before_anything_is_built(arguments):
    done = subprocess.run(
        [ROOT / "docker" / "build.sh", *arguments],
        capture_output=True,
        text=True,
        env={"ENGINE": "true", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: there is no image '{arguments[-1]}'; there are cpu, trainer, vllm, api")


def test_without_an_engine_the_script_says_so(tmp_path):
    for tool in ("sed", "git", "dirname"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    done = subprocess.run(
        ["/bin/sh", ROOT / "docker" / "build.sh"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        2,
        "error: no container engine answers; start docker, or install podman\n",
    )
