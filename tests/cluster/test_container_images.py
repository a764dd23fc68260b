"""The images of the API and of the CPU stages, built and run with podman as a restricted pod runs them."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from debian_base import BASE, RESTRICTED, build, make_base, missing, podman
from object_store import free_port

from rubricworks import __version__

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docker" / "build.sh"
TOKEN = "t0ken-of-the-images-0123456789"
SBOM = "/usr/share/sbom/rubricworks.cdx.json"


@pytest.fixture(scope="module")
def build_image(tmp_path_factory):
    """Builds an image, and tells its name."""
    if why := missing():
        pytest.skip(why)
    make_base(tmp_path_factory.mktemp("debian") / "root")

    def build_image(image: str) -> str:
        build(SCRIPT, image, "test")
        return f"localhost/rubricworks-test/{image}:test"

    return build_image


@pytest.fixture(scope="module")
def api(build_image):
    return build_image("api")


@pytest.fixture(scope="module")
def cpu(build_image):
    return build_image("cpu")


def inside(image: str, program: str, *options: str) -> str:
    """Output of a shell program in a new, restricted container."""
    return podman("run", "--rm", "--no-healthcheck", *RESTRICTED, *options, image, "sh", "-c", program).stdout


def packages_of_lock(image: str) -> set[str]:
    lines = (ROOT / "docker" / f"requirements-{image}.txt").read_text(encoding="utf-8").splitlines()
    return {line.split("==")[0].partition("[")[0] for line in lines if "==" in line and not line.startswith(" ")}


def check_contents(image: str, lock: str) -> None:
    """Nobody's root, no compiler, nothing setuid, nothing but the lock and the wheel."""
    assert inside(image, "id -u; id -g; pwd").split() == ["10001", "10001", "/workspace"]
    tools = "gcc cc g++ clang ld make nvcc pip uv cyclonedx-py"
    assert inside(image, f"for tool in {tools}; do command -v $tool || true; done") == ""
    assert inside(image, "find / -xdev -perm /6000 -type f 2>/dev/null || true") == ""
    listed = {part["name"].lower().replace("_", "-") for part in json.loads(inside(image, f"cat {SBOM}"))["components"]}
    assert listed == packages_of_lock(lock) | {"rubricworks"}
    assert "nothing" in inside(image, "touch /opt/x /workspace/x /etc/x 2>/dev/null || echo nothing can be written")


def test_image_of_the_api_holds_what_its_lock_names_and_no_more(api):
    check_contents(api, "api")


def test_image_of_the_cpu_stages_holds_what_its_lock_names_and_imports_a_component(cpu):
    check_contents(cpu, "cpu")
    program = "from rubricworks.components.data import prepare; import rubricworks.stages.data.prepare"
    assert inside(cpu, f"python3 -c '{program}' && rubricworks recipes list").startswith("balcaprl")


def test_beside_an_image_are_its_list_of_packages_and_what_it_was_built_from(api):
    made = ROOT / "build" / "images"
    assert (made / "api.cdx.json").read_text() == inside(api, f"cat {SBOM}")
    statement = json.loads((made / "api.provenance.json").read_text())
    wheel, digest = inside(api, "cat /usr/share/sbom/wheel.sha256").split()[::-1]
    (image,) = json.loads(podman("image", "inspect", api).stdout)
    assert {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]} == {
        "localhost/rubricworks-test/api": image["Id"].removeprefix("sha256:"),
        Path(wheel).name: digest,
    }
    sources = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    (base,) = [source for source in sources if source.get("uri", "").startswith("docker://")]
    assert base["uri"] == f"docker://{BASE}"
    assert (
        f"sha256:{base['digest']['sha256']}" == podman("image", "inspect", "--format={{.Digest}}", BASE).stdout.strip()
    )


def test_image_says_who_runs_it_and_how_to_tell_its_health(api):
    (image,) = json.loads(podman("image", "inspect", api).stdout)
    assert image["Config"]["User"] == "10001:10001"
    assert image["Config"]["Labels"]["rubricworks.sbom"] == SBOM
    assert image["Config"]["Labels"]["org.opencontainers.image.version"] == __version__
    assert "/healthz" in " ".join(image["Healthcheck"]["Test"])


def test_image_of_the_api_refuses_to_start_without_a_token(api):
    done = podman("run", "--rm", "--no-healthcheck", *RESTRICTED, api, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: --host :: can be reached from other machines")


def test_image_of_the_api_serves_in_a_restricted_container_and_stops_when_told(api):
    port = free_port()
    settings = {"API_TOKEN": TOKEN, "DATABASE_URL": "sqlite:////tmp/platform.db", "STORAGE": "file:///tmp/runs"}
    environment = [f"--env=RUBRICWORKS_{name}={value}" for name, value in settings.items()]
    command = ("rubricworks", "server", "--host", "::", "--port", str(port))
    started = podman("run", "--detach", "--no-healthcheck", *RESTRICTED, *environment, api, *command).stdout.strip()
    try:
        assert wait_for(f"http://127.0.0.1:{port}/readyz") == {
            "status": "ready",
            "checks": {"database": {"status": "ok"}, "storage": {"status": "ok"}},
        }
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answer(f"http://127.0.0.1:{port}/version")
        (image,) = json.loads(podman("image", "inspect", api).stdout)
        health = [part.replace(":8080", f":{port}") for part in image["Healthcheck"]["Test"][1:]]
        assert podman("exec", started, *health, check=False).returncode == 0
        assert podman("exec", started, *[part.replace("/healthz", "/gone") for part in health], check=False).returncode
        stderr = podman("stop", "--time=25", started).stderr
        assert "SIGKILL" not in stderr
        logs = podman("logs", started)
        assert "Application shutdown complete" in logs.stdout + logs.stderr
        assert TOKEN not in logs.stdout + logs.stderr
    finally:
        podman("rm", "--force", started, check=False)


@pytest.fixture
def registry(tmp_path):
    """The address of an empty registry on loopback."""
    if shutil.which("docker-registry") is None:
        pytest.skip("not installed: docker-registry; run tests/cluster/install.sh")
    address = f"127.0.0.1:{free_port()}"
    settings = tmp_path / "registry.yml"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
    settings.write_text(json.dumps({"version": 0.1, "storage": storage, "http": {"addr": address}}))
    with (tmp_path / "registry.log").open("wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", str(settings)], stdout=log, stderr=log)
    try:
        wait_for(f"http://{address}/v2/")
        yield address
    finally:
        server.terminate()
        server.wait()


def test_a_pushed_image_is_named_by_the_digest_that_the_registry_gave(api, registry, tmp_path):
    without_tls = tmp_path / "registries.conf"
    without_tls.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    made = ROOT / "build" / "images" / "api.provenance.json"
    places = {"REGISTRY": f"{registry}/team", "PUSH": "1", "CONTAINERS_REGISTRIES_CONF": str(without_tls)}
    printed = build(SCRIPT, "api", "test", **places)
    heading, reference = printed.splitlines()[-2:]
    name, _, digest = reference.strip().removeprefix("api: ").partition("@")
    assert (heading, name) == ("images:", f"{registry}/team/api")
    kinds = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
    request = urllib.request.Request(f"http://{registry}/v2/team/api/manifests/{digest}", headers={"Accept": kinds})
    with urllib.request.urlopen(request, timeout=120) as response:
        assert response.headers["Docker-Content-Digest"] == digest
    subject, _wheel = json.loads(made.read_text())["subject"]
    assert (subject["name"], f"sha256:{subject['digest']['sha256']}") == (f"{registry}/team/api", digest)
    podman("rmi", f"{registry}/team/api:test", check=False)


def answer(url: str) -> object:
    with urllib.request.urlopen(url, timeout=120) as response:
        return json.load(response)


def wait_for(url: str) -> object:
    """The answer of a server that is starting."""
    until = time.monotonic() + 300
    while True:
        try:
            return answer(url)
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < until, f"{url} does not answer"
            time.sleep(0.2)
