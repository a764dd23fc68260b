"""Text search within one run of a million rollouts: `python -m benchmarks.rollout_search`.

Shards of 10,000 captions are written as a training writes them, the server indexes them into its own file, and each
search is asked several times. A text that no response holds costs most: every shard is decoded.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.api import free_port, server
from rubricworks.data.schemas import SCHEMAS

_SHARD = 10_000
_GROUP = 8
_TEXT = (
    "a the red blue green big small circle square star triangle left right top bottom of beside above under with two "
    "three several objects stands near center background light dark image shows table cup window wooden metal person"
)
_RARE = "zebra"
_SEARCHES = (f"text={_RARE}", "text=no%20such%20words", "text=red%20circle", "least=0.9&sort=reward&order=desc")


def write_run(folder: Path, rollouts: int) -> None:
    """A finished run with captions of 45 words in groups of 8, one of them with a rare word."""
    (folder / "train_policy" / "rollouts").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("name: big\n")
    (folder / "outcome.json").write_text('{"state": "SUCCEEDED", "message": ""}')
    draw, schema, words = random.Random(1), SCHEMAS["rollouts"], _TEXT.split()
    for number in range(rollouts // _SHARD):
        texts = [" ".join(draw.choices(words, k=45)) for _ in range(_SHARD)]
        texts[number] += f" {_RARE}" if number == rollouts // _SHARD // 2 else ""
        columns = {
            "step": [number * 10 + row * 10 // _SHARD for row in range(_SHARD)],
            "sample_id": [f"sample-{row // _GROUP % 500}" for row in range(_SHARD)],
            "response": texts,
            "response_type": pa.nulls(_SHARD, pa.string()),
            "tokens": [60] * _SHARD,
            "reward": [draw.random() for _ in range(_SHARD)],
            "advantage": [0.0] * _SHARD,
        }
        path = folder / "train_policy" / "rollouts" / f"part-{number:05}.parquet"
        pq.write_table(
            pa.table(columns).select(schema.names).cast(schema), path, compression="zstd", row_group_size=256
        )


def fetch(url: str) -> dict[str, object]:
    """Body of an answer; empty for one that is no 200."""
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            body: dict[str, object] = json.load(answer)
            return body
    except urllib.error.HTTPError:
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-search-") as place:
        write_run(Path(place) / "big-1", options.rollouts)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "rubricworks.cli", "server", "--port", str(port), "--runs", place]
        with server(command, f"{url}/healthz", options.cores, RUBRICWORKS_API_TOKEN=""):
            last = options.rollouts // _SHARD * 10 - 1
            run = f"{url}/api/v1/runs/big-1/stages/train_policy"
            begin = time.monotonic()
            while not fetch(f"{run}/groups?step={last}&limit=1").get("items"):
                time.sleep(1)
            print(f"indexed in {time.monotonic() - begin:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True)
            for search in _SEARCHES:
                seconds = []
                for _ in range(options.times):
                    begin = time.perf_counter()
                    fetch(f"{run}/rollouts?{search}")
                    seconds.append(time.perf_counter() - begin)
                print(
                    f"{search:<40} median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s", flush=True
                )


if __name__ == "__main__":
    main()
