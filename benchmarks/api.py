"""Reads of the platform API on Postgres beside MLflow's own server: `make bench-api`, or `python -m benchmarks.api`.

The database's index is filled with runs and graded rollouts as the indexer leaves them, by SQL, and a bucket of Ceph's
gateway with their records and Parquet, so that the service follows them while it answers (`--folder`: a folder of empty
runs instead). Requests come at a fixed rate, whatever the
answers take (open loop), so that waiting counts. MLflow's server has as many runs in the same Postgres and is asked for
the same page of them. A server of a kernel is pinned to as many cores as --cores says; Postgres and the client to none.
"""

import argparse
import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp

from benchmarks.stored_runs import STAGE, STORAGE, gateway, write_runs

_RUNS = """
INSERT INTO runs (name, state, recipe, pipeline, started, changed, bytes, message, stages, progress, simulated, fault,
    reward, win_rate, dollars, seconds, owner, tags)
SELECT 'run-' || lpad(n::text, 6, '0'), (ARRAY['done', 'done', 'done', 'failed', 'unfinished'])[1 + n % 5],
    'recipe-' || n % 50, 'rubicap', now() - n * interval '5 minutes' - interval '3 hours',
    now() - n * interval '5 minutes' - interval '2 hours', 1000000, 'message ' || n,
    '[{"stage": "prepare", "done": true, "changed": "2026-01-01T00:00:00Z"},
      {"stage": "train_policy", "done": true, "changed": "2026-01-01T01:00:00Z"}]', '[]', false, '',
    CASE WHEN n % 7 > 0 THEN (n * 7919 % 10007) / 10007.0 END,
    CASE WHEN n % 3 > 0 THEN (n::bigint * 104729 % 1009) / 1009.0 END,
    (n * 31 % 977) / 100.0, (n * 17 % 86400), 'user-' || n % 40, CASE WHEN n % 11 = 0 THEN 'baseline' END
FROM generate_series(0, {runs} - 1) AS n"""
_TAGS = """
INSERT INTO run_tags (tag, run)
SELECT 'baseline', 'run-' || lpad(n::text, 6, '0') FROM generate_series(0, {runs} - 1, 11) AS n"""
_SHARDS = """
INSERT INTO shards (id, run, stage, number, rows, size, modified)
SELECT 1 + n, 'run-' || lpad(n::text, 6, '0'), 'train_policy', 0, {each}, 1000000, now()
FROM generate_series(0, {trained} - 1) AS n"""
_AS_STORED = "UPDATE shards SET size = {1}, modified = '{2}' WHERE run = '{0}'"
_ROLLOUTS = """
INSERT INTO rollouts (id, shard_id, "row", run, stage, step, sample_id, reward, advantage, credits, criteria,
    tokens)
SELECT 1 + s * {each} + r, 1 + s, r, 'run-' || lpad(s::text, 6, '0'), 'train_policy', 1 + r / 64,
    'sample-' || (r / 8) % 500, (r % 10) / 9.0, (r % 7) - 3.0,
    ('[' || r % 2 || ', ' || (r / 2) % 2 || ', 1, 0.5, ' || (r / 4) % 2 || ']')::json, repeat('a', 64),
    r % 90
FROM generate_series(0, {trained} - 1) AS s, generate_series(0, {each} - 1) AS r"""
_SUMS = """
INSERT INTO criterion_credits (shard_id, digest, criterion, graded, total, squares, lowest, highest)
SELECT 1 + s, md5(c::text), 'criterion ' || c, {each}, {each} * 0.5, {each} * 0.5, 0, 1
FROM generate_series(0, {trained} - 1) AS s, generate_series(0, 4) AS c"""
_CRITERIA = """
INSERT INTO rubric_criteria (digest, names)
VALUES (repeat('a', 64), '["criterion 0", "criterion 1", "criterion 2", "criterion 3", "criterion 4"]')"""
_MLFLOW = """
INSERT INTO runs (run_uuid, name, source_type, user_id, status, start_time, end_time, lifecycle_stage, artifact_uri,
    experiment_id)
SELECT lpad(to_hex(n), 32, '0'), 'run-' || n, 'LOCAL', 'bench', 'FINISHED', 1780000000000 - n::bigint * 300000,
    1780000000000 - n::bigint * 300000 + 60000, 'active', '/tmp/none', 0
FROM generate_series(0, {runs} - 1) AS n"""
_PAUSE = 0.01
_LONGEST_START = 600
"""Seconds; MLflow's server makes its tables and starts four processes, which a busy machine takes minutes for."""


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """URL of a server of its own, without a database's name; it refuses to run as root."""
    program = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if program is None:
        raise SystemExit("not installed: postgresql; give --database postgresql://user:password@host")
    programs, user = Path(program).resolve().parent, "postgres" if os.geteuid() == 0 else None
    owner = user or pwd.getpwuid(os.geteuid()).pw_name
    shutil.chown(folder, owner)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    def run(name: str, *arguments: str) -> None:
        subprocess.run([str(programs / name), *arguments], user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)

    run("initdb", "--pgdata", str(folder / "data"), "--username=bench", "--auth=trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c shared_buffers=512MB -c fsync=off"
    run("pg_ctl", "-D", str(folder / "data"), "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql+psycopg://bench@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop")


def execute(url: str, *statements: str) -> None:
    """Run statements, each by itself."""
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def server(command: Sequence[str], url: str, cores: int, **environment: str) -> Iterator[tuple[int, float]]:
    """A server and its children, pinned: process, and seconds until it answered first."""
    start = time.perf_counter()
    with subprocess.Popen(
        ["taskset", "--cpu-list", f"0-{cores - 1}", *command],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            while True:
                try:
                    urllib.request.urlopen(url, timeout=5).close()
                    break
                except OSError:
                    if process.poll() is not None:
                        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}") from None
                    if time.perf_counter() - start > _LONGEST_START:
                        raise SystemExit(f"{' '.join(command)} does not answer after {_LONGEST_START} s") from None
                    time.sleep(_PAUSE)
            yield process.pid, time.perf_counter() - start
        finally:
            os.killpg(process.pid, 15)
            process.wait()


def megabytes(process: int) -> float:
    """Largest resident memory of a process and its children together, as Linux counts each."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            group = os.getpgid(int(status.parent.name))
        except (OSError, ValueError):
            continue
        if group == process and "VmHWM" in fields and "taskset" not in fields["Name"]:
            total += int(fields["VmHWM"].split()[0])
    return total / 1024


async def load(requests: Sequence[tuple[str, str, object]], rate: float, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of each answer at a fixed rate of requests, and the number of those that failed."""
    times: list[float] = []
    failures = 0

    async def one(session: aiohttp.ClientSession, number: int, due: float) -> None:
        nonlocal failures
        method, url, body = requests[number % len(requests)]
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        try:
            async with session.request(method, url, json=body) as answer:
                await answer.read()
                failures += answer.status != 200
        except (aiohttp.ClientError, TimeoutError):
            failures += 1
        times.append((time.perf_counter() - due) * 1000)  # from when it was due, so waiting counts

    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100), timeout=timeout) as session:
        begin = time.perf_counter() + 0.1
        await asyncio.gather(*(one(session, n, begin + n / rate) for n in range(round(rate * seconds))))
    return times, failures


def report(name: str, times: list[float], failures: int) -> None:
    steps = statistics.quantiles(times, n=100)
    line = f"p50 {steps[49]:.1f} ms, p95 {steps[94]:.1f} ms, p99 {steps[98]:.1f} ms"
    print(f"{name:<34} {line}, {len(times)} answers, {failures} failed", flush=True)


def reads(url: str, trained: int, has_tables: bool) -> dict[str, list[tuple[str, str, object]]]:
    """Requests by what they read."""
    with urllib.request.urlopen(f"{url}/api/v1/runs?limit=200", timeout=30) as answer:
        cursor = json.load(answer)["next_cursor"]
    some = [f"run-{n * 37 % trained:06}" for n in range(100)]
    paths = {
        "list of runs, 50": ["/api/v1/runs?limit=50"],
        "list, filtered and searched": [
            "/api/v1/runs?state=failed",
            "/api/v1/runs?recipe=recipe-7",
            "/api/v1/runs?search=0123",
            f"/api/v1/runs?cursor={cursor}",
        ],
        "a run": [f"/api/v1/runs/{run}" for run in some],
        "groups of a step": [f"/api/v1/runs/{run}/stages/train_policy/groups?step=7" for run in some],
        "criteria": [f"/api/v1/runs/{run}/stages/train_policy/criteria" for run in some],
        "page of runs (HTML)": ["/runs"],
        "table of runs, filtered and sorted": [
            f"/runs?{query}"
            for query in (
                "sort=reward",
                "sort=reward&order=asc&state=failed",
                "sort=dollars&where=reward+%3E%3D+0.9,+win_rate+%3E+0.9",
                "sort=win_rate&days=7",
                "sort=seconds&owner=user-7&tag=baseline",
                "sort=tags&search=0123",
                "where=reward+%3E+0.9999",
                "sort=owner&recipe=recipe-7",
            )
        ],
    }
    if has_tables:
        groups = [f"stages/{STAGE}/groups/{1 + at // 8}/sample-{at}" for at in range(100)]
        paths["a group, then the next ones"] = [
            f"/api/v1/runs/{run}/{group}" for run in some[:10] for group in groups[:10]
        ]
    asked = {name: [("GET", url + path, None) for path in some_paths] for name, some_paths in paths.items()}
    asked["all of these in turn"] = [group[n % len(group)] for n in range(100) for group in asked.values()]
    if has_tables:
        far = [f"{url}/api/v1/runs/{run}/{group}" for run, group in zip(some, groups, strict=True)]
        asked["a group of another run each time"] = [("GET", address, None) for address in far]
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rollouts", type=int, default=1_000_000, help="each with its scorecard")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each kind of read")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", action="store_true", help="runs are empty folders, not objects in Ceph's gateway")
    options = parser.parse_args()
    # Servers that are left behind take a core: MLflow's starts its workers anew for ever.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trained = min(1000, options.runs)
    sizes = {"runs": options.runs, "trained": trained, "each": options.rollouts // trained}

    with (
        tempfile.TemporaryDirectory(prefix="bench-api-") as place,
        postgres(_folder(place, "db")) as database,
        ExitStack() as stack,
    ):
        execute(f"{database}/postgres", "CREATE DATABASE platform", "CREATE DATABASE mlflow")
        folder = _folder(place, "runs")
        if options.folder:
            storage, reached, shards = str(folder), {}, []
            for number in range(options.runs):
                (folder / f"run-{number:06}").mkdir()
        else:
            storage, reached = STORAGE, stack.enter_context(gateway(folder))
            begin = time.perf_counter()
            shards = write_runs(options.runs, trained, sizes["each"])
            print(f"written into the bucket in {time.perf_counter() - begin:.0f} s", flush=True)
        environment = {
            "RUBRICWORKS_DATABASE_URL": f"{database}/platform",
            "RUBRICWORKS_API_TOKEN": "",
            "RUBRICWORKS_STORAGE": storage,
            **reached,
        }
        ours = [sys.executable, "-m", "rubricworks.cli", "server"]
        subprocess.run([*ours, "migrate"], env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
        statements = (_RUNS, _TAGS, _SHARDS, _ROLLOUTS, _SUMS, _CRITERIA)
        execute(f"{database}/platform", *(_filled(statement, sizes) for statement in statements))
        execute(f"{database}/platform", *(_AS_STORED.format(*shard) for shard in shards), "VACUUM ANALYZE")
        print(f"{options.runs} runs, {options.rollouts} rollouts with scorecards; load {os.getloadavg()[0]:.1f}")

        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with server([*ours, "--port", str(port)], f"{url}/healthz", options.cores, **environment) as (process, seconds):
            time.sleep(3 if options.folder else 20)  # the index takes its first look
            for name, requests in reads(url, trained, not options.folder).items():
                report(name, *asyncio.run(load(requests, options.rate, options.seconds)))
            print(f"rubricworks server: start {seconds:.1f} s, memory {megabytes(process):.0f} MB", flush=True)

        port = free_port()
        url, store = f"http://127.0.0.1:{port}", f"{database}/mlflow"
        theirs = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port)]
        theirs += ["--default-artifact-root", str(_folder(place, "artifacts"))]
        # By default a worker that imports for longer than 5 s is killed and started anew, on a busy machine for ever.
        theirs += ["--uvicorn-opts", f"--timeout-worker-healthcheck {_LONGEST_START}"]
        with server(theirs, f"{url}/health", options.cores) as (process, _):
            pass  # its tables
        execute(store, _MLFLOW.replace("{runs}", str(options.runs)), "VACUUM ANALYZE")
        with server(theirs, f"{url}/health", options.cores) as (process, seconds):
            body = {"experiment_ids": ["0"], "max_results": 50, "order_by": ["start_time DESC"]}
            search = ("POST", f"{url}/api/2.0/mlflow/runs/search", body)
            for rate in (options.rate, options.rate / 10):
                report(f"MLflow: list of runs, 50, {rate:g}/s", *asyncio.run(load([search], rate, options.seconds)))
            print(f"mlflow server: start {seconds:.1f} s, memory {megabytes(process):.0f} MB", flush=True)


def _filled(statement: str, sizes: dict[str, int]) -> str:
    for name, value in sizes.items():
        statement = statement.replace(f"{{{name}}}", str(value))
    return statement


def _folder(place: str, name: str) -> Path:
    folder = Path(place) / name
    folder.mkdir()
    Path(place).chmod(0o755)
    return folder


if __name__ == "__main__":
    main()
