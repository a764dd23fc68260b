"""The audit finds faults that were planted in rubrics of the scene world, and the scripted writer mends them.

Over the world's own server. A flag is right if it is of the planted fault, on the criterion that was planted, or true
by the rules themselves; any other is wrong, also on the criterion that a planted one repeats or contradicts.
"""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import pytest
from planted_rubrics import FAULTS, OF_RUBRICS, planted_rubrics

from rubricworks.evaluation.rubric_audit import audit_rubrics, fix_rubrics, make_probes
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rewards import signed_reward
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.rules import holds, parse_rule

PROGRAM = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))"
)
DECIDED_BY = dict(zip(OF_RUBRICS, ("everything", "other", "half"), strict=True))
"""Flag of a rubric → the kind of probe that shows it."""


@pytest.fixture(scope="module")
def world_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    export_scenes(folder, seed=1, count=1)
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"{server.stdout.readline().strip()}/v1"
        server.send_signal(signal.SIGTERM)


def audited(planted, url, cache):
    """The audit of the rubrics, and their rewrites by the scripted writer."""

    async def run():
        endpoint = Endpoint(url=url, model="rubric-writer", max_tokens=8192)
        async with ChatClient(url, "judge", cache=cache) as judge, ChatClient(endpoint) as writer:
            entries, responses = (
                [rubric.entry for rubric in planted],
                {rubric.entry.sample_id: rubric.captions for rubric in planted},
            )
            audit = await audit_rubrics(entries, responses, Grader(judge), judge="judge")
            return audit, await fix_rubrics(entries, responses, audit, writer, Grader(judge))

    return asyncio.run(run())


def credits(rubric, text):
    """Credits by the rules themselves, without a judge's errors; a rule in other words is not met."""
    rules = [parse_rule(criterion.evaluation_rule) for criterion in rubric.criteria]
    return [float(rule is not None and holds(rule, text)) for rule in rules]


def is_true(flag, title, rubric, captions, others):
    """True if a flag is right by the rules themselves, whoever put the fault there."""
    probes = make_probes(rubric, captions, others)
    if flag in OF_RUBRICS:
        texts = {probe.kind: probe.text for probe in reversed(probes)}
        rewards = {kind: signed_reward(credits(rubric, text), rubric.weights) for kind, text in texts.items()}
        return rewards[DECIDED_BY[flag]] >= 0.8 * rewards["response"]
    at = [criterion.criterion for criterion in rubric.criteria].index(title)
    if flag == "never met":
        return not any(credits(rubric, caption)[at] for caption in captions)
    if flag == "always met":
        return all(credits(rubric, probe.text)[at] for probe in probes if probe.kind not in ("reversed", "impossible"))
    if flag == "overlaps":
        rules = [parse_rule(criterion.evaluation_rule) for criterion in rubric.criteria]
        return rules[at] in rules[:at]
    return False


def is_fault(planted, at):
    """True if a fault was planted, and is one by the rules: a rubric that naming everything does not pay is none."""
    rubric = planted[at]
    if rubric.fault in OF_RUBRICS:
        return is_true(rubric.fault, "", rubric.entry.rubric, rubric.captions, others_of(planted, at))
    if rubric.fault == "parroted":
        titles = [criterion.criterion for criterion in rubric.entry.rubric.criteria]
        probes = make_probes(
            rubric.entry.rubric, rubric.captions, others_of(planted, at), [title == rubric.title for title in titles]
        )
        (claims,) = (probe.text for probe in probes if probe.kind == "parroted")
        return bool(credits(rubric.entry.rubric, claims)[titles.index(rubric.title)])
    return bool(rubric.fault)


def fault_counts(planted):
    return Counter(rubric.fault for at, rubric in enumerate(planted) if is_fault(planted, at))


class Tally(NamedTuple):
    found: Counter
    """Planted faults with their own flag, where they were put."""
    right: Counter
    """Other flags that are true."""
    wrong: Counter

    @property
    def precision(self):
        return 1 - self.wrong.total() / (self.found.total() + self.right.total() + self.wrong.total())


def planted_at(rubric):
    """The flag that finds a planted fault, with the title of the criterion that was put there, or "" for the rubric."""
    return rubric.fault, "" if rubric.fault in OF_RUBRICS else rubric.title


def others_of(planted, at):
    return [planted[(at + step) % len(planted)].captions[0] for step in (1, 2, 3)]


def tally(planted, audit):
    caught, right, wrong = Counter(), Counter(), Counter()
    for at, (rubric, finding) in enumerate(zip(planted, audit.findings, strict=True)):
        names = {(flag.flag, flag.criterion) for flag in finding.flags}
        caught[rubric.fault] += is_fault(planted, at) and planted_at(rubric) in names
        for flag, title in names - {planted_at(rubric)}:
            true = is_true(flag, title, rubric.entry.rubric, rubric.captions, others_of(planted, at))
            (right if true else wrong)[flag] += 1
    return Tally(+caught, right, wrong)


def still_there(planted, fixes):
    """Planted faults that are in the mended set, by its text: the criterion with its rule, or true by the rules."""
    mended, left = fixes.kept, Counter()
    for at, faulted in enumerate(planted):
        rubric = mended.get(faulted.entry.sample_id, faulted.entry.rubric)
        if faulted.fault in OF_RUBRICS:
            left[faulted.fault] += is_true(faulted.fault, "", rubric, faulted.captions, others_of(planted, at))
        elif is_fault(planted, at):
            (faulty,) = (
                criterion for criterion in faulted.entry.rubric.criteria if criterion.criterion == faulted.title
            )
            texts = [(criterion.criterion, criterion.description) for criterion in rubric.criteria]
            left[faulted.fault] += (faulted.title, faulty.description) in texts
    return +left


@pytest.fixture(scope="module")
def results(world_url, tmp_path_factory):
    planted = planted_rubrics(200, seed=11)
    return planted, *audited(planted, world_url, tmp_path_factory.mktemp("cache") / "answers.sqlite")


@pytest.mark.slow
def test_nine_of_ten_planted_faults_are_found_and_few_others_flagged(results):
    planted, audit, _ = results
    counted = tally(planted, audit)
    counts = fault_counts(planted)
    assert set(counts) == set(FAULTS)
    assert min(counted.found[fault] / count for fault, count in counts.items()) >= 0.75
    assert counted.found.total() >= 0.9 * counts.total()
    assert counted.precision >= 0.9
    assert 200 * 14 <= audit.calls <= 200 * 15
    assert 200 <= audit.readings <= 2 * 200
    assert audit.unjudged == 0
    assert audit.impossible_credited < 0.1


@pytest.mark.slow
def test_faults_in_a_wording_that_no_flag_was_written_for_are_found_too(world_url, tmp_path):
    planted = planted_rubrics(200, seed=11, wording="sixth")
    audit, _ = audited(planted, world_url, tmp_path / "answers.sqlite")
    counted, counts = tally(planted, audit), fault_counts(planted)
    assert counted.found.total() >= 0.9 * counts.total()
    assert counted.precision >= 0.9
    assert min(counted.found[fault] / count for fault, count in counts.items()) >= 0.75


@pytest.mark.slow
def test_most_planted_faults_are_gone_after_the_rewrite(results):
    planted, audit, fixes = results
    counts = fault_counts(planted)
    assert still_there(planted, fixes).total() <= 0.12 * counts.total()
    assert fixes.audit.flagged.value < audit.flagged.value / 3
    assert fixes.audit.gap.value > audit.gap.value
    # What was not flagged is as it was.
    flagged = {finding.sample_id for finding in audit.findings if finding.flags}
    assert set(fixes.kept) <= flagged
