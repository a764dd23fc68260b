"""The prepare stage on images given by URL, fetched from a server on loopback."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_server import ImageServer, Page, fetcher, picture

from rubricworks.data.downloads.fetcher import Fetcher
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.recipe.estimate import count_items
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.job import open_job
from rubricworks.runtime.launch import launch
from rubricworks.stages.data import prepare

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def server():
    """Different images, /0.png to /23.png."""
    server = ImageServer()
    server.pages |= {f"/{number}.png": Page(picture(10 * number)) for number in range(24)}
    yield server
    server.close()


def listed(folder: Path, *lines: str) -> str:
    (folder / "list.txt").write_text("".join(f"{line}\n" for line in lines))
    return f"urls:{folder / 'list.txt'}"


def prepare_run(run: Path, config: prepare.Config, reach: Fetcher | None = None) -> Path:
    """Run the stage as `launch` does, but with a fetcher that reaches the tests' server."""
    run.mkdir(exist_ok=True)
    job = open_job("prepare", config, run, {})
    prepare.run(config, job, fetcher=reach or fetcher(*config.allowed_hosts))
    return job.out


def rejected(out: Path) -> list[tuple[str, str]]:
    return [(row["source"], row["reason"]) for row in read_rows(out / "rejected")]


def test_urls_become_samples_in_order_and_failures_are_rejected(tmp_path, server):
    host, evil = f"http://images.test:{server.port}", f"http://evil.example:{server.port}"
    server.pages |= {
        "/text": Page(b"<html>"),
        "/copy.png": server.pages["/0.png"],
        "/go": Page(status=302, headers={"Location": f"{evil}/1.png"}),
    }
    lines = [f"{host}/{number}.png\tpicture {number}" for number in range(8)]
    lines += [f"{evil}/a.png", f"{host}/0.png\tonce more", f"{host}/copy.png", f"{host}/text", f"{host}/none"]
    source = listed(tmp_path, *lines, f"{host}/go", "http://me:secret@images.test/a.png")
    hosts = (f"images.test:{server.port}",)
    out = prepare_run(tmp_path / "run", prepare.Config(source=source, allowed_hosts=hosts, held_out=6))

    rows = list(read_rows(out))
    sources = [row["source"] for row in rows]
    first, twin = ("copy", "0") if f"{host}/copy.png" in sources else ("0", "copy")  # the one that is held out, if any
    names = [*(["0"] if first == "0" else []), *map(str, range(1, 8)), *(["copy"] if first == "copy" else [])]
    assert sources == [f"{host}/{name}.png" for name in names]
    assert [row["image"] for row in rows] == [picture(0 if name == "copy" else 10 * int(name)) for name in names]
    assert [row["references"] for row in rows] == [[] if name == "copy" else [f"picture {name}"] for name in names]
    assert Counter(row["split"] for row in rows) == {"train": 2, "held_out": 6}
    not_an_image = "not an image: no known image format starts with b'<html>'"
    twins = [(f"{host}/{twin}.png", f"the same picture as {first}.png")]
    assert [row for row in rejected(out) if row in twins] == twins
    assert [row for row in rejected(out) if row not in twins] == [
        (f"{evil}/a.png", "host evil.example is not in data.allowed_hosts"),
        (f"{host}/0.png", "the same URL stands in the source already"),
        (f"{host}/text", not_an_image),
        (f"{host}/none", "HTTP 404"),
        (f"{host}/go", "redirect refused: host evil.example is not in data.allowed_hosts"),
        (f"{tmp_path / 'list.txt'}:15", "the URL holds a user or password"),
    ]
    paths = [request.path for request in server.asked]
    assert sorted(paths) == sorted([f"/{number}.png" for number in range(8)] + ["/copy.png", "/text", "/none", "/go"])


def test_only_images_of_allowed_hosts_are_drawn_and_only_drawn_ones_are_fetched(tmp_path, server):
    urls = [f"http://images.test:{server.port}/{number}.png" for number in range(8)]
    others = [f"http://other.test/{number}.png" for number in range(50)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"image_url": others + urls, "caption": ["a caption"] * 58}), path)
    config = {"allowed_hosts": [f"images.test:{server.port}"], "held_out": 2, "max_train": 3}
    out = prepare_run(tmp_path / "run", prepare.Config(source=str(path), **config))
    rows = list(read_rows(out))
    assert sorted(row["split"] for row in rows) == ["held_out"] * 2 + ["train"] * 3
    assert len(server.asked) == 5
    assert len(rejected(out)) == 50
    # The draw is by URL: in which file it stands, and what else is there, does not matter.
    again = prepare_run(tmp_path / "again", prepare.Config(source=listed(tmp_path, *reversed(urls)), **config))
    assert {row["source"]: row["split"] for row in read_rows(again)} == {row["source"]: row["split"] for row in rows}


def test_nothing_is_fetched_unless_hosts_are_allowed(tmp_path, server):
    host = f"images.test:{server.port}"
    source = listed(tmp_path, *(f"http://{host}/{number}.png" for number in range(3)), "https://other.test/a.png")
    message = rf"its images lie on {host} \(3\), other\.test \(1\), and data\.allowed_hosts names no host.*"
    message += rf"`allowed_hosts: \[{host}, other\.test\]` in the recipe's data section"
    with pytest.raises(UserError, match=message):
        launch("prepare", json.dumps({"source": source}), str(tmp_path / "run"), {})
    with pytest.raises(UserError, match="names none of these"):
        launch("prepare", json.dumps({"source": source, "allowed_hosts": ["a.org"]}), str(tmp_path / "run"), {})
    recipe = [f"data.source={source}", f"data.allowed_hosts=['{host}']"]
    with pytest.raises(UserError, match="names no host"):
        count_items(load_recipe(recipe_path("one-endpoint"), recipe[:1]))
    assert count_items(load_recipe(recipe_path("one-endpoint"), recipe)) == 3
    assert server.asked == []
    with pytest.raises(UserError, match=r"data\.allowed_hosts.*'10\.0\.0\.5' names no host"):
        load_recipe(recipe_path("one-endpoint"), [*recipe[:1], "data.allowed_hosts=[10.0.0.5]"])


def test_recipe_cannot_allow_this_machine(tmp_path, server):
    host = f"localhost:{server.port}"
    source = listed(tmp_path, *(f"http://{host}/{number}.png" for number in range(3)))
    with pytest.raises(UserError, match=r"0 images to train on .* address \S+ is loopback"):
        launch("prepare", json.dumps({"source": source, "allowed_hosts": [host]}), str(tmp_path / "run"), {})
    assert server.asked == []


def test_stage_without_a_server_fails_with_the_reason_and_can_run_again(tmp_path, server):
    port = server.port
    source = listed(tmp_path, *(f"http://images.test:{port}/{number}.png" for number in range(24)))
    config = prepare.Config(source=source, allowed_hosts=(f"images.test:{port}",), held_out=2)
    server.close()
    with pytest.raises(UserError, match=r"rejected 24: http://images\.test:\d+/0\.png: cannot connect"):
        prepare_run(tmp_path / "run", config)
    back = ImageServer(port=port)
    back.pages = server.pages
    try:
        assert len(list(read_rows(prepare_run(tmp_path / "run", config)))) == 24
    finally:
        back.close()


class Dying(Fetcher):
    """Fetches so many images, and then the machine is switched off."""

    left = 5

    async def fetch(self, url: str) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("power failure")
        return await super().fetch(url)


def test_images_of_finished_shards_are_not_fetched_again(tmp_path, server):
    source = listed(tmp_path, *(f"http://images.test:{server.port}/{number}.png" for number in range(8)))
    hosts = (f"images.test:{server.port}",)
    config = prepare.Config(source=source, allowed_hosts=hosts, held_out=2, shard_size=2)
    whole = prepare_run(tmp_path / "whole", config)
    server.asked.clear()
    dying = fetcher(*hosts, kind=Dying)
    with pytest.raises(RuntimeError, match="power failure"):
        prepare_run(tmp_path / "run", config, dying)
    server.asked.clear()
    finished = [pq.read_table(file).to_pylist() for file in (tmp_path / "run").rglob("samples/part-*.parquet")]
    out = prepare_run(tmp_path / "run", config)
    done = {row["source"].rpartition("/")[2] for rows in finished for row in rows}
    assert len(done) >= 2
    assert {request.path.strip("/") for request in server.asked}.isdisjoint(done)
    for file in sorted(whole.rglob("*.parquet")):
        assert (out / file.relative_to(whole)).read_bytes() == file.read_bytes()
    server.asked.clear()
    assert prepare_run(tmp_path / "run", config) == out
    assert server.asked == []
