"""`make bench-recaption`: CPU per image beside raw aiohttp, memory over the run, and kills at random moments.

The images are small PNGs in tars, the captioner is a local server that answers at once, so what is measured is the
stage alone: reading, checking, encoding, calling, caching, writing. The raw client posts the same bodies.
"""

import argparse
import asyncio
import base64
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.canned_judge import canned_judge
from rubricworks.synthesis.prompts import CAPTION_PROMPT

CAPTION = "A red circle lies at the top left, and a small blue star below it; the background is pale. " * 3
SIDE = 64
PER_TAR = 1_000
CONCURRENCY = 32


def draw_tars(folder: Path, images: int) -> None:
    """Write distinct flat PNGs of a few hundred bytes, a thousand to a tar."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for first in range(0, images, PER_TAR):
        with tarfile.open(folder / f"{first // PER_TAR:05d}.tar", "w") as tar:
            for number in range(first, min(first + PER_TAR, images)):
                pixels = np.repeat(np.repeat(rng.integers(0, 255, (4, 4, 3), np.uint8), SIDE // 4, 0), SIDE // 4, 1)
                buffer = io.BytesIO()
                Image.fromarray(pixels).save(buffer, "PNG")
                info = tarfile.TarInfo(f"{number:08d}.png")
                info.size = buffer.tell()
                tar.addfile(info, io.BytesIO(buffer.getvalue()))


def stage_command(tars: Path, url: str, run: Path) -> list[str]:
    endpoint = {"url": url, "model": "m", "concurrency": CONCURRENCY}
    config = {"sources": [str(tars)], "captioners": [{"endpoint": endpoint}]}
    return [
        *(sys.executable, "-m", "rubricworks.runtime", "recaption", "--config", json.dumps(config)),
        *("--run-uri", str(run)),
    ]


def stat_of(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def measure(tars: Path, url: str, run: Path, images: int) -> tuple[float, float, float]:
    """CPU seconds, wall seconds, and the slope of resident memory over the run's last two thirds in bytes an image."""
    process = subprocess.Popen(stage_command(tars, url, run), stderr=subprocess.DEVNULL)
    started, cpu, points = time.monotonic(), 0.0, list[tuple[float, int]]()
    while process.poll() is None:
        try:
            cpu, resident = stat_of(process.pid)
        except (OSError, IndexError, ValueError):
            break
        done = len(list((run / "recaption" / "captions").glob("part-*.parquet"))) * PER_TAR
        points.append((done, resident))
        time.sleep(0.1)
    if process.wait():
        raise SystemExit("the stage failed")
    steady = [point for point in points if point[0] >= images / 3 and point[1]]
    wall = time.monotonic() - started
    if len(steady) < 3:
        return cpu, wall, float("nan")
    done_images, resident_bytes = np.array(steady, float).T
    centred = done_images - done_images.mean()
    return cpu, wall, float(centred @ resident_bytes / max(centred @ centred, 1.0))


def bodies(tars: Path) -> Iterator[bytes]:
    frame = {"model": "m", "temperature": 0.0, "max_tokens": 1024, "seed": 1}
    for file in sorted(tars.glob("*.tar")):
        with tarfile.open(file, "r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                url = "data:image/png;base64," + base64.b64encode(content.read()).decode()
                parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": CAPTION_PROMPT}]
                yield json.dumps({**frame, "messages": [{"role": "user", "content": parts}]}).encode()


async def raw(tars: Path, url: str) -> float:
    """CPU seconds of reading the tars and posting the images with aiohttp alone."""
    import aiohttp

    source = bodies(tars)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def work() -> None:
            for body in source:
                async with session.post(f"{url}/chat/completions", data=body) as answer:
                    await answer.json()

        started = time.process_time()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        return time.process_time() - started


def kill_and_resume(tars: Path, url: str, run: Path, seconds: float, kills: int, seed: int) -> list[float]:
    """Kill the stage at random moments of its run, then let it end; returns the moments."""
    rng, moments = random.Random(seed), list[float]()
    while len(moments) < kills:
        process = subprocess.Popen(stage_command(tars, url, run), stderr=subprocess.DEVNULL)
        moment = rng.uniform(0.2, 1.0) * seconds / 2
        time.sleep(moment)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        moments.append(moment)
    subprocess.run(stage_command(tars, url, run), check=True, stderr=subprocess.DEVNULL)
    return moments


def digest(run: Path) -> str:
    """Digest of the tables' files."""
    folder, digest = run / "recaption", hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".parquet", ".json"):
            digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    print(f"{'images':>8}  {'ms CPU':>7}  {'raw':>7}  {'beyond':>7}  {'images/s':>8}  {'bytes/image of memory':>22}")
    with canned_judge(says=CAPTION) as url, tempfile.TemporaryDirectory() as folder:
        for images in options.images:
            tars, run = Path(folder) / f"tars-{images}", Path(folder) / f"run-{images}"
            draw_tars(tars, images)
            empty = Path(folder) / f"one-{images}"
            draw_tars(empty, 1)
            # A run of one image costs what every run costs: imports, opening files.
            fixed, _, _ = measure(empty, url, Path(folder) / f"run-one-{images}", 1)
            cpu, wall, slope = measure(tars, url, run, images)
            alone = asyncio.run(raw(tars, url))
            own, theirs = 1_000 * (cpu - fixed) / images, 1_000 * alone / images
            rate = images / wall
            print(
                f"{images:>8}  {own:7.3f}  {theirs:7.3f}  {own - theirs:7.3f}  {rate:8.0f}  {slope:22.1f}", flush=True
            )
            if images == min(options.images) and options.kills:
                killed = Path(folder) / "killed"
                moments = kill_and_resume(tars, url, killed, wall, options.kills, seed=1)
                verdict = "the same bytes" if digest(killed) == digest(run) else "OTHER BYTES"
                print(
                    f"killed after {', '.join(f'{moment:.1f}' for moment in moments)} s and resumed: {verdict}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
