"""Pre-signed URLs are fetched whole and stored without what grants access."""

import pytest
from image_server import Page, fetcher, picture

from rubricworks.data.source_kinds.urls import unsigned_url, url_entry
from rubricworks.data.tables import read_rows
from rubricworks.runtime.job import open_job
from rubricworks.stages.data import prepare

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://b.s3.amazonaws.com/a.png?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F20260101&"
         "X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Signature=fe5f80",
         "https://b.s3.amazonaws.com/a.png"),
        ("https://b.s3.amazonaws.com/a.png?AWSAccessKeyId=AKIA&Signature=fe5f%3D&Expires=1767225600",
         "https://b.s3.amazonaws.com/a.png"),
        ("https://storage.googleapis.com/b/a.png?X-Goog-Signature=fe5f&X-Goog-Expires=9&generation=3",
         "https://storage.googleapis.com/b/a.png?generation=3"),
        ("https://x.blob.core.windows.net/c/a.png?sv=2024-01-01&se=2026-01-01&sr=b&sp=r&sig=fe5f%3D&snapshot=1",
         "https://x.blob.core.windows.net/c/a.png?snapshot=1"),
        ("https://d1.cloudfront.net/a.png?Expires=1767225600&Signature=fe5f&Key-Pair-Id=K2",
         "https://d1.cloudfront.net/a.png"),
        ("https://images.test/a.png?access_token=fe5f&id=17", "https://images.test/a.png?id=17"),
        (f"https://images.test/a.png?grant={'fe5f' * 16}&id=17#fe5f", "https://images.test/a.png?id=17"),
        ("https://images.test/i?key=17&size=2&sv=1", "https://images.test/i?key=17&size=2&sv=1"),
        ("https://images.test/a%20b.png?q=caf%C3%A9", "https://images.test/a%20b.png?q=caf%C3%A9"),
    ],
)  # fmt: skip
def test_parameters_that_grant_access_are_dropped_and_the_others_stay(url, stored):
    assert unsigned_url(url) == stored
    entry = url_entry(url, "list.txt:1", ())
    assert (entry.url, entry.source) == (url, stored)


def test_a_run_fetches_signed_urls_and_no_file_of_it_holds_a_signature(server, tmp_path):
    base = f"http://images.test:{server.port}"
    paths = [f"/{number}.png?X-Amz-Signature=fe5f80c2{number}&v={number}" for number in range(4)]
    server.pages |= {path: Page(picture(40 * number)) for number, path in enumerate(paths[:3])}
    urls = [base + path for path in paths]
    (tmp_path / "list.txt").write_text("\n".join(urls))
    config = prepare.Config(
        source=f"urls:{tmp_path / 'list.txt'}", held_out=2, allowed_hosts=(f"images.test:{server.port}",)
    )
    (tmp_path / "run").mkdir()
    job = open_job("prepare", config, tmp_path / "run", {})
    prepare.run(config, job, fetcher=fetcher(f"images.test:{server.port}"))
    out = job.out
    stored = {row["source"] for row in read_rows(out, columns=["source"])}
    assert stored == {f"{base}/{number}.png?v={number}" for number in range(3)}
    (rejected,) = read_rows(out / "rejected")
    assert rejected["source"] == f"{base}/3.png?v=3"
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or b"fe5f80c2" not in file.read_bytes(), file
