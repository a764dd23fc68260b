"""The models of assertions, facts, exams and the arena as the library meets them: over HTTP, by its clients."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rubricworks.evaluation.scorers.caption_prompts import Exam, exam_writer_messages
from rubricworks.evaluation.scorers.caption_qa import ExamTaker
from rubricworks.evaluation.scorers.comparisons.pairwise import compare
from rubricworks.evaluation.scorers.dc_score import FactJudge
from rubricworks.grading import AssertionGrader, GradedCaption, Pointability
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.messages import image_part
from rubricworks.world.scene.captions import COMMENTARY, write_caption
from rubricworks.world.scene.export import export_scenes, noisy_caption
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes

pytestmark = pytest.mark.slow

SEED, COUNT = 13, 60
SCENES = list(generate_scenes(SEED, COUNT))
NOISY = [noisy_caption(scene, SEED, index, commentary=0.5) for index, scene in enumerate(SCENES)]
PROGRAM = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("scenes")
    export_scenes(folder, seed=SEED, count=COUNT)
    server = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield f"{server.stdout.readline().strip()}/v1"
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=300) == 0
    server.stdout.close()


def client(url: str, model: str) -> ChatClient:
    return ChatClient(Endpoint(url=url, model=model, max_tokens=8192), attempts=1)


def graded(
    url: str, captions: list[str], *, apart: bool = False, pointability: Pointability = "strict"
) -> list[GradedCaption]:
    async def run() -> list[GradedCaption]:
        async with client(url, "assertion-judge") as judge, client(url, "assertion-judge-strong") as verifier:
            grader = AssertionGrader(judge, verifier=verifier if apart else None, pointability=pointability)
            grades = (
                grader.grade(str(number), render_png(scene), caption, write_caption(scene))
                for number, (scene, caption) in enumerate(zip(SCENES, captions, strict=True))
            )
            return await asyncio.gather(*grades)

    return asyncio.run(run())


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("pointability", ["strict", "evidence", "off"])
def test_every_caption_gets_three_scores_and_no_assertion_is_dropped(url, separate, pointability):
    grades = graded(url, NOISY, apart=separate, pointability=pointability)
    assert all(grade.error is None and grade.scores is not None for grade in grades)
    assert not any(grade.dropped or grade.dropped_of_reference for grade in grades)


def test_scores_follow_the_truth_and_pointability_decides_about_commentary(url):
    commented = [f"{write_caption(scene)} {COMMENTARY[0]}" for scene in SCENES]
    strict, loose = (graded(url, commented, pointability=name) for name in ("strict", "off"))
    noisy = graded(url, NOISY)
    assert mean([grade.scores.precision for grade in loose]) > 0.95
    claims = [3 * len(scene.objects) + (scene.word is not None) for scene in SCENES]
    expected = mean([(0.97 * count + 0.03) / (count + 1) for count in claims])  # the remark is the one that fails
    assert mean([grade.scores.precision for grade in strict]) == pytest.approx(expected, abs=0.03)
    assert mean([grade.scores.recall for grade in strict]) > 0.95 > mean([grade.scores.recall for grade in noisy])
    by_truth = sorted(zip(SCENES, NOISY, noisy, strict=True), key=lambda row: score_caption(row[0], row[1]).recall)
    recalls = [grade.scores.recall for _, _, grade in by_truth]
    assert mean(recalls[: COUNT // 3]) + 0.2 < mean(recalls[-COUNT // 3 :])


def test_broken_and_empty_captions_are_graded_too(url):
    odd = ("", "at at at the the", "the", "at top a", "big red red big . . at", "in the middle a violet thing")
    grades = graded(url, [odd[number % len(odd)] for number in range(COUNT)])
    assert all(grade.scores is not None for grade in grades)
    assert all(grade.scores.recall < 0.5 for grade in grades)


def test_facts_exams_and_arena_answer_their_own_requests(url):
    async def run(scene: Scene, noisy: str) -> tuple[float, float, float, float, float]:
        truth, image = write_caption(scene), render_png(scene)
        async with (
            client(url, "fact-judge") as facts,
            client(url, "exam-writer") as writer,
            client(url, "exam-taker") as taker,
            client(url, "arena-judge") as arena,
        ):
            scores = [(await FactJudge(facts).judge(image, caption, truth)).score.score for caption in (noisy, truth)]
            exam = (await writer.chat(exam_writer_messages(image), Exam)).value
            results = [(await ExamTaker(taker).take("s", caption, exam)).accuracy for caption in (noisy, truth)]
            comparison = await compare(arena, image, truth, noisy, order="both", seed=0)
            return (*scores, *results, comparison.win)

    rows = [asyncio.run(run(scene, noisy)) for scene, noisy in list(zip(SCENES, NOISY, strict=True))[:20]]
    noisy_facts, true_facts, noisy_exam, true_exam, arena = map(mean, map(list, zip(*rows, strict=True)))
    assert true_facts > 0.95 > 0.9 > noisy_facts
    assert true_exam > 0.93 > 0.9 > noisy_exam
    assert arena > 0.6


def test_recaptioner_describes_the_image_over_http(url):
    async def run() -> list[str]:
        async with client(url, "recaptioner") as recaptioner:
            calls = [
                [{"role": "user", "content": [image_part(render_png(scene)), {"type": "text", "text": "Describe it."}]}]
                for scene in SCENES
            ]
            replies = await asyncio.gather(*(recaptioner.chat(messages) for messages in calls))
            return [reply.value for reply in replies]

    captions = asyncio.run(run())
    assert sum(caption == write_caption(scene) for caption, scene in zip(captions, SCENES, strict=True)) / COUNT > 0.8
