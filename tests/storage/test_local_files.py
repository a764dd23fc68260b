"""URIs to paths, and files that are there whole or not at all."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rubricworks.errors import UserError
from rubricworks.storage import link, local_path, write_atomic
from rubricworks.storage.files import remove_temporary_files


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of one mebibyte."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        try:
            mounted = subprocess.run(mount, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount here")
        if mounted.returncode:
            pytest.skip(f"may not mount: {mounted.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def test_file_uris_and_bare_paths_name_the_same_file():
    assert local_path("/data/a b") == local_path("file:///data/a%20b") == local_path("file://localhost/data/a%20b")
    assert local_path("runs/x") == Path("runs/x")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://bucket/x", "s3:// is for runs"),
        ("gs://bucket/x", "not a storage scheme"),
        ("file://data/x", "three slashes"),
    ],
)
def test_uris_that_cannot_be_opened_are_refused_with_what_to_write_instead(uri, message):
    with pytest.raises(UserError, match=message):
        local_path(uri)


def test_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "deep" / "file.bin"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]


def test_full_disk_keeps_the_old_file_and_names_the_mount(small_disk):
    path = small_disk / "file.bin"
    write_atomic(path, b"old")
    with pytest.raises(UserError, match=f"no room on {small_disk}: .*free space and run again"):
        write_atomic(path, b"x" * 2_000_000)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in small_disk.iterdir()] == ["file.bin"]
    write_atomic(path, b"fits")
    assert path.read_bytes() == b"fits"


def test_file_over_the_size_limit_is_a_clear_error_not_half_a_file(tmp_path):
    program = (
        f"from rubricworks.storage import write_atomic\nwrite_atomic({str(tmp_path / 'file.bin')!r}, b'x' * 200_000)"
    )
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, preexec_fn=limit)
    assert "TransientError: no room on" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_a_file_is_a_user_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        write_atomic(tmp_path / "taken" / "file.bin", b"")


@pytest.mark.parametrize("remote", ["nothing", "link", "dead link", "file", "folder"])
def test_a_link_takes_the_place_of_whatever_stands_there(tmp_path, remote):
    target, other, place = (tmp_path / name for name in ("target", "other", "place"))
    for folder in (target, other):
        folder.mkdir()
        (folder / "config.json").write_text(folder.name)
    match remote:
        case "link":
            place.symlink_to(other)
        case "dead link":
            place.symlink_to(tmp_path / "gone")
        case "file":
            place.write_text("old")
        case "folder":
            place.mkdir()
            (place / "config.json").write_text("old")
    link(place, target)
    assert place.is_symlink()
    assert (place / "config.json").read_text() == "target"
    assert (other / "config.json").read_text() == "other", "what a link led to stays"
    assert {entry.name for entry in tmp_path.iterdir()} == {"target", "other", "place"}


def test_what_a_killed_writer_left_beside_is_removed_be_it_a_file_a_link_or_a_folder(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "config.json").touch()
    (tmp_path / ".a.1.aside").touch()
    (tmp_path / ".b.2.aside").symlink_to(tmp_path / "kept")
    (tmp_path / ".c.3.aside").mkdir()
    (tmp_path / ".c.3.aside" / "config.json").touch()
    remove_temporary_files(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "config.json").is_file()
