"""Checklists end to end over HTTP, written and merged by the scene world's scripted models, measured by the truth."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from rubricworks.data.question_text import question_with_options
from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.synthesis import ChecklistWriter
from rubricworks.synthesis.checklist_lint import JOINED, JUDGMENT, LEAK, VERIFIER, WEIGHT
from rubricworks.synthesis.checklist_writer import UNSATISFIED
from rubricworks.verifiers.calls import parse_verifier_call
from rubricworks.world.scene.checklist_sentences import is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.export import export_scenes
from rubricworks.world.scene.questions import parse_question
from rubricworks.world.scene.questions_export import world_questions
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene_index import read_scene_index
from rubricworks.world.server import make_app

SEED, SCENES, PER_SCENE = 11, 60, 3
VERIFIERS = {"word": ("text_verify",), "box": ("bbox_verify",), "*": ("expr_verify",)}


def questions():
    """Samples with trusted answers, and the scene of each."""
    for number, (scene, rows) in enumerate(world_questions(SEED, SCENES, PER_SCENE)):
        image = render_png(scene)
        for place, row in enumerate(rows):
            if parse_question(row.question) is not None:  # not the respelled duplicates
                question = question_with_options(row.question, row.options)
                yield (
                    scene,
                    Sample(
                        sample_id=f"{number}-{place}",
                        image=image,
                        question=question,
                        answer=row.answer,
                        task=row.task,
                        options=row.options or None,
                    ),
                )


async def write_all(folder, samples, examined):
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(make_app(read_scene_index(folder)))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

        async def client(model):
            return await stack.enter_async_context(ChatClient(Endpoint(url=url, model=model, max_tokens=4096)))

        writer = ChecklistWriter(
            [await client(f"checklist-writer-{n}") for n in (1, 2, 3)],
            await client("checklist-merger"),
            verifiers=VERIFIERS,
            examiner=Grader(await client("scorer")) if examined else None,
        )
        return await asyncio.gather(*(writer.write(sample) for sample in samples))


@pytest.fixture(scope="module")
def samples_of_scenes():
    return list(questions())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    export_scenes(folder, seed=SEED, count=SCENES)
    return folder


@pytest.fixture(scope="module")
def results(folder, samples_of_scenes):
    return asyncio.run(write_all(folder, [sample for _, sample in samples_of_scenes], examined=False))


@pytest.fixture(scope="module")
def examined(folder, samples_of_scenes):
    return asyncio.run(write_all(folder, [sample for _, sample in samples_of_scenes], examined=True))


def is_right(reference, scene, sample, criterion):
    """Return True if a reference is true, by the scene and the data set's answer."""
    if (cell := parse_step_criterion(criterion)) is not None:
        return reference in [f"a {item.size} {item.colour} {item.shape}" for item in scene.objects if item.cell == cell]
    if "_verify" not in reference:
        return reference == sample.answer
    target = parse_verifier_call(reference).arguments["target"]
    spelled = str(target).replace("(", "[").replace(",)", ")").replace(")", "]")
    return spelled.replace(" ", "") == sample.answer.replace(" ", "")


def share(checks):
    checks = list(checks)
    return sum(checks) / len(checks)


def answers_right(checklists, samples_of_scenes):
    """Over essential criteria of (checklists of one sample, …)."""
    return share(
        is_right(query.reference, scene, sample, query.criterion)
        for some, (scene, sample) in zip(checklists, samples_of_scenes, strict=True)
        for query in some
    )


def test_merging_makes_references_right_more_often_than_any_writer_is(results, samples_of_scenes):
    before = answers_right([[item for p in r.proposals for item in p.essential] for r in results], samples_of_scenes)
    after = answers_right(
        [[c for c in r.rubric.criteria if c.essential] if r.rubric else [] for r in results], samples_of_scenes
    )
    assert before < 0.94
    assert after > before + 0.03


def test_merging_mends_the_references_of_steps_too(results, samples_of_scenes):
    def steps(criteria):
        return [criterion for criterion in criteria if parse_step_criterion(criterion.criterion)]

    before = answers_right([[s for p in r.proposals for s in steps(p.additional)] for r in results], samples_of_scenes)
    after = answers_right([steps(r.rubric.criteria) if r.rubric else [] for r in results], samples_of_scenes)
    assert after > before + 0.03


def test_the_reference_answer_clears_out_what_the_majority_got_wrong(results, examined, samples_of_scenes):
    def essential(result):
        return [criterion for criterion in result.rubric.criteria if criterion.essential] if result.rubric else []

    before = answers_right([essential(result) for result in results], samples_of_scenes)
    after = answers_right([essential(result) for result in examined], samples_of_scenes)
    assert before < 1
    assert after == 1
    assert sum(result.rubric is not None for result in examined) > 0.9 * len(samples_of_scenes)
    assert any(reason == UNSATISFIED for result in examined for _, reason in result.dropped)


def test_every_kind_of_fault_is_caught_by_code_or_by_the_majority(results):
    caught = {reason for result in results for _, reason in result.dropped}
    assert {LEAK, JUDGMENT, WEIGHT, JOINED, VERIFIER} <= caught
    proposed = [item.criterion for r in results for p in r.proposals for item in (*p.essential, *p.additional)]
    assert share("background" in text for text in proposed) > 0.01
    assert any(text.startswith("The response ends with") for text in proposed)
    merged = [criterion for result in results if result.rubric for criterion in result.rubric.criteria]
    assert share("background" in result.criterion for result in merged) < 0.01
    assert not any(result.criterion.startswith("The response ends with") for result in merged)


def test_nearly_every_sample_gets_a_checklist_in_the_worlds_sentences(results, samples_of_scenes):
    assert share(result.rubric is not None for result in results) > 0.95
    for result, (_, sample) in zip(results, samples_of_scenes, strict=True):
        if result.rubric is None:
            continue
        assert sum(result.rubric.essential) == 1
        for criterion in result.rubric.criteria:
            if criterion.essential:
                assert is_answer_criterion(criterion.criterion)
                assert criterion.verifier in (None, *VERIFIERS.get(sample.task, VERIFIERS["*"]))
