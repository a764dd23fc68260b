"""Figures of docs/judge-trust.md in the scene world: cascade, log-probability credits, calls, noise correction.

`make bench-judge-trust` runs it with 60 scenes and the seeds 11, 12 and 13: a few minutes. All of it is simulated: the
judges are scripted, a criterion's truth is its rule applied to the caption, and dollars are by the prices below.
Judges are asked over HTTP as real ones are, and tokens are counted as the scripted server reports them. The correction
of rewards is that of the test (`tests/rewards/test_noise.py`).
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from planted_rubrics import planted_rubrics
from test_noise import effect

from rubricworks.grading import Cascade, Grader
from rubricworks.grading.agreement.judge_probe import ProbeRow
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.metrics import t_interval
from rubricworks.rubrics import Scorecard
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.rules import holds, parse_rule

CHEAP, STRONG = {"prices": (0.15, 0.6)}, {"prices": (2.5, 10.0)}
LIMITS = (0.6, 0.7, 0.8, 0.9, 0.95)
DRAWS = (1, 8, 200)
SERVER = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))"
)


class Graded(NamedTuple):
    """Scorecards of all captions, and what they took."""

    cards: list[Scorecard]
    calls: int
    dollars: float
    strong_criteria: float
    """Share of the criteria that the strong judge decided."""


def main() -> None:
    scenes, *seeds = map(int, sys.argv[1:] or ("60", "11", "12", "13"))
    folder = Path(tempfile.mkdtemp())
    export_scenes(folder, seed=1, count=1)
    print("All simulated: scripted judges in the scene world.\n")
    with subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = f"{server.stdout.readline().strip()}/v1"
            by_seed = [rows_of(scenes, seed) for seed in seeds]
            rows = by_seed[0]
            criteria = sum(len(row.rubric.criteria) for row in rows)
            print(f"{len(rows)} captions a seed, {criteria / len(rows):.1f} criteria each; seeds {seeds}\n")
            cascades(url, by_seed)
            calls(url, by_seed)
        finally:
            server.send_signal(signal.SIGTERM)
    corrections(seeds, scenes)


def rows_of(scenes: int, seed: int) -> list[ProbeRow]:
    planted = planted_rubrics(scenes, seed=seed, clean=1.0)
    return [
        ProbeRow(rubric.entry.to_sample(), text, rubric.entry.rubric) for rubric in planted for text in rubric.captions
    ]


def cascades(url: str, by_seed: Sequence[list[ProbeRow]]) -> None:
    """Cost against accuracy, and the squared error of credits by log-probability."""
    truths = [truth_of(rows) for rows in by_seed]
    cheap, strong = Endpoint(url=url, model="cheap-judge", **CHEAP), Endpoint(url=url, model="judge", **STRONG)
    alone = {
        name: [grade([endpoint], rows, lambda client: Grader(client)) for rows in by_seed]
        for name, endpoint in (("cheap", cheap), ("strong", strong))
    }
    joined = {f"below {below:g}": [cascade([cheap, strong], rows, below) for rows in by_seed] for below in LIMITS}
    print("| judges | right verdicts | mean | criteria asked twice | cost of the strong one alone |")
    print("|---|---|---|---|---|")
    dearest = fmean(grading.dollars for grading in alone["strong"])
    for name, graded in (("cheap", alone["cheap"]), *joined.items(), ("strong", alone["strong"])):
        right = [share_right(grading.cards, truth) for grading, truth in zip(graded, truths, strict=True)]
        twice = f"{fmean(grading.strong_criteria for grading in graded):.0%}" if name in joined else "-"
        each = ", ".join(f"{100 * share:.1f}" for share in right)
        cost = fmean(grading.dollars for grading in graded) / dearest
        print(f"| {name} | {each} % | {interval([100 * share for share in right])} | {twice} | {cost:.0%} |")
    soft = [grade([cheap], rows, lambda client: Grader(client, credits="logprob")) for rows in by_seed]
    for name, graded in (("log-probability credits", soft), ("zeros and ones", alone["cheap"])):
        errors = [squared_error(grading.cards, truth) for grading, truth in zip(graded, truths, strict=True)]
        print(f"mean squared error of the cheap judge's {name}: {interval(errors, 3)}")


def calls(url: str, by_seed: Sequence[list[ProbeRow]]) -> None:
    """One call for all criteria of a response, and one for each."""
    judge = Endpoint(url=url, model="judge", **STRONG)
    whole = [grade([judge], rows, lambda client: Grader(client)) for rows in by_seed]
    each = [grade([judge], rows, lambda client: Grader(client, call_per="criterion")) for rows in by_seed]
    ratios = [b.dollars / a.dollars for a, b in zip(whole, each, strict=True)]
    print(f"\ncalls, one per response: {[a.calls for a in whole]}; one per criterion: {[b.calls for b in each]}")
    print(f"dollars, times those of one per response: {interval(ratios, 2)}")


def corrections(seeds: Sequence[int], scenes: int) -> None:
    """Correlation with the true reward within scenes, as judged and corrected, of means over so many verdicts."""
    print("\n| verdicts | as judged | corrected | difference |\n|---|---|---|---|")
    for draws in DRAWS:
        pairs = [effect(seed, draws=draws, scenes=scenes) for seed in seeds]
        plain, corrected = (
            ", ".join(f"{correlation:.3f}" for correlation in column) for column in zip(*pairs, strict=True)
        )
        print(f"| mean of {draws} | {plain} | {corrected} | {interval([b - a for a, b in pairs], 3)} |")


def cascade(endpoints: Sequence[Endpoint], rows: Sequence[ProbeRow], below: float) -> Graded:
    return grade(
        endpoints,
        rows,
        lambda cheap, strong: Cascade(Grader(cheap, confidence="logprob"), Grader(strong), below=below),
    )


def grade(endpoints: Sequence[Endpoint], rows: Sequence[ProbeRow], make: Callable[..., Grader | Cascade]) -> Graded:
    async def run() -> Graded:
        clients = [ChatClient(endpoint) for endpoint in endpoints]
        grader = make(*clients)
        slots = asyncio.Semaphore(32)

        async def one(row: ProbeRow) -> Scorecard:
            async with slots:
                return await grader.grade(row.sample, row.text, row.rubric)

        cards = await asyncio.gather(*map(one, rows))
        for client in clients:
            await client.close()
        verdicts = [verdict for card in cards for verdict in card.verdicts]
        decided = fmean(float(verdict.confidence is None) for verdict in verdicts) if len(clients) > 1 else 0.0
        totals = [client.totals for client in clients]
        return Graded(cards, sum(total.calls for total in totals), sum(total.cost for total in totals), decided)

    return asyncio.run(run())


def truth_of(rows: Sequence[ProbeRow]) -> list[float]:
    truths = []
    for row in rows:
        for criterion in row.rubric.criteria:
            rule = parse_rule(criterion.evaluation_rule)
            assert rule is not None, criterion.evaluation_rule
            truths.append(float(holds(rule, row.text)))
    return truths


def credits_of(cards: Sequence[Scorecard]) -> list[float]:
    credits = [credit for card in cards for credit in card.credits if credit is not None]
    assert len(credits) == sum(len(card.verdicts) for card in cards), "a scripted judge fails on nothing"
    return credits


def share_right(cards: Sequence[Scorecard], truth: Sequence[float]) -> float:
    return fmean(float(credit == true) for credit, true in zip(credits_of(cards), truth, strict=True))


def squared_error(cards: Sequence[Scorecard], truth: Sequence[float]) -> float:
    return fmean((credit - true) ** 2 for credit, true in zip(credits_of(cards), truth, strict=True))


def interval(values: Sequence[float], digits: int = 1) -> str:
    """Mean over seeds, with Student's interval."""
    mean = t_interval(values)
    bounds = "" if mean.low is None else f" [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"
    return f"{mean.value:.{digits}f}{bounds}"


if __name__ == "__main__":
    main()
