"""The audit finds faults that were planted in rubrics of the scene world, over its own server."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter

import pytest
from planted_rubrics import FAULTS, planted_rubrics

from rubricworks.evaluation.rubric_audit import audit_rubrics, make_probes
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rewards import signed_reward
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.rules import holds, parse_rule

PROGRAM = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))"
)


@pytest.fixture
def judge_url(tmp_path):
    export_scenes(tmp_path, seed=1, count=1)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"{server.stdout.readline().strip()}/v1"
        server.send_signal(signal.SIGTERM)


def audited(planted, url):
    async def run():
        async with ChatClient(url, "judge") as judge:
            responses = {one.entry.sample_id: one.captions for one in planted}
            return await audit_rubrics([one.entry for one in planted], responses, Grader(judge), judge="judge")

    return asyncio.run(run())


OF_RUBRICS = {"presence only": "everything", "not about it": "other", "indifferent": "half"}


def credits(rubric, text):
    """Credits by the rules themselves, without a judge's errors; a rule in other words is not met."""
    rules = [parse_rule(criterion.evaluation_rule) for criterion in rubric.criteria]
    return [float(rule is not None and holds(rule, text)) for rule in rules]


def truly(flag, title, one, others):
    """True if a flag that nobody planted is right all the same."""
    rubric = one.entry.rubric
    if flag == "never met":
        at = [criterion.criterion for criterion in rubric.criteria].index(title)
        return not any(credits(rubric, caption)[at] for caption in one.captions)
    if flag not in OF_RUBRICS:
        return False
    texts = {probe.kind: probe.text for probe in reversed(make_probes(rubric, one.captions, others))}
    rewards = {kind: signed_reward(credits(rubric, text), rubric.weights) for kind, text in texts.items()}
    return rewards[OF_RUBRICS[flag]] >= 0.8 * rewards["response"]


def tally(planted, audit):
    """Planted faults that their own flag finds, and flags that are neither planted nor right."""
    found, wrong = Counter(), Counter()
    for at, (one, finding) in enumerate(zip(planted, audit.findings, strict=True)):
        names = {(flag.flag, flag.criterion) for flag in finding.flags}
        own = {("presence only", "")}
        if one.fault != "presence only":
            own = {(flag, title) for flag in (one.fault, "never met", "contradicts") for title in one.titles}
        found[one.fault] += bool(one.fault and names & own)
        others = [planted[(at + step) % len(planted)].captions[0] for step in (1, 2, 3)]
        for flag, title in names - (own if one.fault else set()):
            wrong[flag] += title not in one.titles and not truly(flag, title, one, others)
    return +found, +wrong


@pytest.mark.e2e
def test_nine_of_ten_planted_faults_are_found_and_few_others_flagged(judge_url):
    planted = planted_rubrics(200, seed=11)
    audit = audited(planted, judge_url)
    found, wrong = tally(planted, audit)
    counts = Counter(one.fault for one in planted if one.fault)
    assert set(counts) == set(FAULTS)
    assert min(found[fault] / count for fault, count in counts.items()) >= 0.75
    assert found.total() >= 0.9 * counts.total()
    # Of the flags, at most one in ten is of a criterion or rubric without a fault.
    assert wrong.total() <= 0.1 * (found.total() + wrong.total())
    assert audit.calls == 200 * 14
    assert audit.unjudged == 0
    assert audit.impossible_credited < 0.1
