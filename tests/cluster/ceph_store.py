"""A whole S3 server of another make: Ceph's gateway over one monitor and one store in memory (Debian's `radosgw`)."""

import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from object_store import ACCESS, SECRET, free_port

PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextmanager
def ceph_server(folder: Path) -> Iterator[str]:
    """The address of the gateway; its user is that of `object_store.environment`. Starts in some fifteen seconds."""
    first, second, port = free_port(), free_port(), free_port()
    conf, keyring, monitors = folder / "ceph.conf", folder / "keyring", folder / "monmap"
    place = f"[v2:127.0.0.1:{first}/0,v1:127.0.0.1:{second}/0]"
    cluster, osd = str(uuid.uuid4()), str(uuid.uuid4())
    for name in ("mon", "osd", "run"):
        (folder / name).mkdir(parents=True)
    conf.write_text(_CONF.format(folder=folder, cluster=cluster, place=place, port=port))
    with ExitStack() as stack:

        def run(*command: str) -> None:
            process = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert process.returncode == 0, f"{command}: {process.stderr}"

        def start(*command: str) -> None:
            log = stack.enter_context((folder / f"{command[0]}.out").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)

        run("ceph-authtool", "--create-keyring", str(keyring), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        rights = [word for part in ("mon", "osd", "mgr") for word in ("--cap", part, "allow *")]
        run("ceph-authtool", str(keyring), "--gen-key", "-n", "client.admin", *rights)
        run("monmaptool", "--create", "--fsid", cluster, "--addv", "a", place.replace("/0", ""), str(monitors))
        settings = ("-c", str(conf))
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(monitors), "--keyring", str(keyring), *settings)
        start("ceph-mon", "-i", "a", "-f", *settings)
        run("ceph", *settings, "osd", "new", osd)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd, *settings)
        start("ceph-osd", "-i", "0", "-f", *settings)
        keys = ("--access-key", ACCESS, "--secret-key", SECRET)
        run("radosgw-admin", *settings, "user", "create", "--uid", "tester", "--display-name", "tester", *keys)
        start("radosgw", "-n", "client.admin", "-f", *settings)
        address = f"http://127.0.0.1:{port}"
        _wait(address)
        yield address


def add_user(folder: Path, name: str) -> tuple[str, str]:
    """Create a user of a running gateway, who owns nothing; return the access key and the secret."""
    access, secret = f"ACCESS{name.upper()}", f"secret-of-{name}-0123456789"
    options = ("--uid", name, "--display-name", name, "--access-key", access, "--secret-key", secret)
    command = ["radosgw-admin", "-c", str(folder / "ceph.conf"), "user", "create", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return access, secret


def _wait(address: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            assert time.monotonic() < deadline, f"no gateway at {address}"
            time.sleep(0.1)


# Without keys between the parts of the cluster, which all listen on loopback; one copy of everything, in memory.
_CONF = """
[global]
fsid = {cluster}
mon_host = {place}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
keyring = {folder}/keyring
run_dir = {folder}/run
admin_socket =
pid_file =
log_file = {folder}/$name.log
mon_data = {folder}/mon
osd_data = {folder}/osd
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
crush_location = host=here root=default
mon_max_pg_per_osd = 2000
rgw_frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw_crypt_require_ssl = false
rgw_data = {folder}/rgw
"""
