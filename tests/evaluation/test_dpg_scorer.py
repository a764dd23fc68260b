"""DPG-Bench as a scorer: the official columns, the questions' dependencies, and what an answerer may do wrong."""

import asyncio
import csv
import json
import random
from contextlib import AsyncExitStack

import pytest
from scripted_server import fail, say

from rubricworks.data.images import NO_PIXELS, png_bytes
from rubricworks.data.prompts import prompt_entries
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.images.aesthetic import AestheticScorer
from rubricworks.evaluation.scorers.images.dpg import DpgScorer, read_dpg_questions
from rubricworks.evaluation.scorers.scorer import Item, ScoringContext
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.rubrics import Response
from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.pictures.dpg_questions import (
    COLUMNS,
    ERROR_RATE,
    check_of,
    picture_questions_reply,
    questions_of,
    write_questions,
)
from rubricworks.world.pictures.drawing import draw
from rubricworks.world.pictures.picture_judge import holds
from rubricworks.world.pictures.picture_reading import look, look_at_regions
from rubricworks.world.pictures.prompts import TASKS, picture_of, wishes

PROMPT = 'A red dog, "Rex", left of a cat.'
IMAGE = Response.of_image(png_bytes(draw([])))
ROWS = [
    (1, "0", "entity - whole (dog)", "Is there a dog?"),
    (2, "0", "entity - whole (cat)", "Is there a cat?"),
    (3, "1", "attribute - color (dog, red)", "Is the dog red?"),
    (4, "1,2", "relation - spatial (dog, cat, left of)", "Is the dog left of the cat?"),
]


def write(path, rows=ROWS, columns=COLUMNS):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        for number, dependency, proposition, question in rows:
            writer.writerow(
                dict.fromkeys(columns, "")
                | {"item_id": "a1", "text": PROMPT, "proposition_id": number, "dependency": dependency}
                | {"tuple": proposition, "question_natural_language": question}
            )
    return path


def score(server, path, response=IMAGE, prompt=PROMPT):
    scorer = DpgScorer(judge={"url": server.url, "model": "vqa", "attempts": 1}, questions=str(path))

    async def run():
        async with AsyncExitStack() as stack:
            context = ScoringContext(
                stack=stack,
                make_client=lambda endpoint, purpose: ChatClient(endpoint, purpose=purpose),
                gather=None,
                on_failure=None,
            )
            function = await scorer.open(context)
            return await function(Item(Sample(sample_id="s1", prompt=prompt), response))

    return asyncio.run(run())[0]


def answers(**by_word):
    """A server that answers by the first of these words in the question."""

    def reply(_, body):
        question = section(body["messages"][1]["content"][0]["text"], "question")
        return say(json.dumps({"answer": next(answer for word, answer in by_word.items() if word in question)}))

    return reply


@pytest.mark.parametrize(
    ("by_word", "value"),
    [
        ({"left": "yes", "dog": "yes", "cat": "yes"}, 1.0),
        # Without a dog, its colour and its place count for nothing, whatever the answers to them.
        ({"left": "yes", "red": "yes", "dog": "no", "cat": "yes"}, 0.25),
        ({"left": "yes", "red": "no", "dog": "yes", "cat": "no"}, 0.25),
    ],
)
def test_a_question_passes_with_those_that_it_depends_on(serve, tmp_path, by_word, value):
    server = serve(answers(**by_word))
    result = score(server, write(tmp_path / "dpg.csv"))
    assert (result.part, result.value) == ("score", value)
    evidence = json.loads(result.evidence)
    assert list(evidence) == [row[2] for row in ROWS]
    assert len(server.chats) == 4


def test_a_prompt_without_questions_has_no_value_and_a_failed_answer_no_number(serve, tmp_path, quick_retries):
    path = write(tmp_path / "dpg.csv")
    assert score(serve(answers(dog="yes")), path, prompt="a bird").reason == "no questions about the prompt"
    for answer in (fail(400), say('{"answer": "maybe"}'), say("yes")):
        with pytest.raises(ChatError):
            score(serve([answer]), path)
    with pytest.raises(ChatError, match="pixels that are no numbers"):
        score(serve(answers(dog="yes")), path, Response.of_image(NO_PIXELS))
    with pytest.raises(UserError, match="s1: DPG-Bench scores images, and the response is a text"):
        score(serve(answers(dog="yes")), path, Response("a dog"))


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (ROWS, [name for name in COLUMNS if name != "tuple"], "no column tuple"),
        ([("x", "0", "t", "q")], COLUMNS, "line 2: proposition_id or dependency is no number"),
        ([(1, "", "t", "q")], COLUMNS, "line 2: proposition_id or dependency is no number"),
        ([(1, "0", "t", " ")], COLUMNS, "line 2: the question is empty"),
        ([(1, "7", "t", "q")], COLUMNS, "question 1 depends on question 7, which is not there"),
    ],
)
def test_a_file_of_another_form_is_one_line(tmp_path, rows, columns, message):
    with pytest.raises(UserError, match=message):
        read_dpg_questions(str(write(tmp_path / f"{len(message)}.csv", rows, columns)))


def test_a_missing_file_makes_the_scorer_unavailable(tmp_path):
    scorer = DpgScorer(judge={"url": "http://a/v1", "model": "m"}, questions=str(tmp_path / "none.csv"))
    assert "comes with DPG-Bench" in scorer.unavailable()


def test_prompts_are_taken_from_the_benchmarks_file_each_once(tmp_path):
    entries = list(prompt_entries(str(write(tmp_path / "dpg.csv")), seed=0))
    assert [entry.prompt for entry in entries] == [PROMPT]
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no column `prompt` or `text`"):
        list(prompt_entries(str(tmp_path / "other.csv"), seed=0))


@pytest.mark.parametrize("task", TASKS)
def test_every_question_of_the_world_is_answered_yes_by_a_picture_of_its_prompt(tmp_path, task):
    chosen = wishes(task)[::5]
    write_questions(tmp_path / "dpg.csv", [(wish.words, wish) for wish in chosen])
    read = read_dpg_questions(str(tmp_path / "dpg.csv"))
    for at, wish in enumerate(chosen):
        picture = look(png_bytes(draw(picture_of(wish, random.Random(at)))))
        assert list(read[wish.words].questions.values()) == [question.text for question in questions_of(wish)]
        assert all(holds(check_of(question.text), picture) for question in questions_of(wish)), wish.words
        assert not any(holds(check_of(question.text), look(png_bytes(draw([])))) for question in questions_of(wish))


def test_the_scripted_answerer_errs_at_its_stated_rate():
    wrong = total = 0
    for at, wish in enumerate([wish for task in TASKS for wish in wishes(task)[::2]]):
        image = png_bytes(draw(picture_of(wish, random.Random(at))))
        for question in questions_of(wish):
            text = f"<question>\n{question.text}\n</question>"
            reply = json.loads(picture_questions_reply(ChatRequest("m", text, image, 1, 9, 0, None), seed=at))
            right = holds(check_of(question.text), look_at_regions(image))
            wrong += (reply["answer"] == "yes") != right
            total += 1
    assert total > 700
    # Four standard deviations of a binomial.
    assert abs(wrong - ERROR_RATE * total) < 4 * (ERROR_RATE * (1 - ERROR_RATE) * total) ** 0.5


def test_an_aesthetic_endpoint_scores_on_its_own_scale(serve):
    server = serve([say('{"score": 5.36}')])
    scorer = AestheticScorer(endpoint=Endpoint(url=server.url, model="aesthetic"))

    async def run():
        async with AsyncExitStack() as stack:
            context = ScoringContext(
                stack=stack,
                make_client=lambda endpoint, purpose: ChatClient(endpoint, purpose=purpose),
                gather=None,
                on_failure=None,
            )
            function = await scorer.open(context)
            return await function(Item(Sample(sample_id="s1", prompt="a dog"), IMAGE))

    (result,) = asyncio.run(run())
    assert result.value == 5.36
    assert scorer.unbounded == ("score",)
