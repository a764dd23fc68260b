"""Text in images: what a reader decides, what is blanked, and that a reader that fails gives no number."""

import asyncio
import io
import json
from contextlib import AsyncExitStack

import numpy as np
import pytest
from image_judge import criteria_in, images_in, plain_image
from PIL import Image
from scripted_server import fail, say

from rubricworks.data import Sample
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.grading.images.text_criteria import TEXT_KEY, best_match, quoted_texts, text_verdict
from rubricworks.grading.images.text_reading import (
    ModelReader,
    TextRegion,
    covered_share,
    in_reading_order,
    mask_text,
    open_text_reader,
)
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.methods.rubricrl.rubric_keys import KEYS
from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric
from rubricworks.training.generators.image_statistics import text_statistic

SIGN = Criterion(criterion='The sign reads "OPEN DAILY".', key=TEXT_KEY, weight=1)
RED = Criterion(criterion="The picture is red.", key="attribute_accuracy", weight=1)
NEAT = Criterion(criterion="The lettering is neat.", key=TEXT_KEY, weight=1)
PICTURE = Response.of_image(plain_image("red", size=40))


def lines(*texts):
    return [TextRegion(text, (0, 10 * at, 30, 10 * at + 8)) for at, text in enumerate(texts)]


class StandIn:
    """A reader that finds what a test gives it."""

    name = "stand-in"

    def __init__(self, regions=(), error=None):
        self.regions, self.error, self.images = tuple(regions), error, []

    async def read(self, response):
        self.images.append(response)
        if self.error:
            raise self.error
        return self.regions

    def covered(self, response):
        return covered_share(response.image, self.regions) if response in self.images else None


def judge(_, body):
    return say(
        json.dumps(
            {"verdicts": [{"id": criterion["id"], "reasoning": "r", "score": 1} for criterion in criteria_in(body)]}
        )
    )


def grade(server, reader, criteria, *, failures=None, **options):
    async def run():
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ChatClient(Endpoint(url=server.url, model="j"), attempts=1))
            on_error = None if failures is None else failures.append
            grader = Grader(client, text_reader=reader, on_error=on_error, **options)
            sample = Sample(sample_id="s1", prompt="a sign")
            return await grader.grade(sample, PICTURE, Rubric(criteria=tuple(criteria)))

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('The sign reads "OPEN DAILY".', ("OPEN DAILY",)),
        ("The sign says “Café” and below it \u201824/7\u2019.", ("Café", "24/7")),
        ("A banner with 'Happy Birthday' hangs on the wall.", ("Happy Birthday",)),
        ("看板に「営業中」と書かれている。", ("営業中",)),
        ("The baker's sign is legible.", ()),
        ('There is no text "SALE" in the picture.', ()),
        ('The sign doesn\'t say "SALE".', ()),
        ('The word "NO" is on the door.', ("NO",)),
        ('The marks "?!" are drawn.', ()),
    ],
)
def test_a_reader_decides_criteria_that_quote_text_and_ask_for_its_presence(text, quoted):
    assert quoted_texts(Criterion(criterion=text, key=TEXT_KEY, weight=1)) == quoted
    assert quoted_texts(Criterion(criterion=text, key="realism", weight=1)) == ()
    assert TEXT_KEY in KEYS


@pytest.mark.parametrize(
    ("read", "credit"),
    [
        (["OPEN DAILY"], 1),
        (["OPENDAILY"], 1),
        (["Open", "daily!"], 1),
        (["WE ARE OPEN DAILY 9-5"], 1),
        (["OPEN DAILV"], 0),
        (["OPEN"], 0),
        (["DAILY OPEN"], 0),
        ([], 0),
    ],
)
def test_binary_credit_asks_for_exact_words_ignoring_case_and_punctuation(read, credit):
    verdict = text_verdict(SIGN, lines(*read))
    assert verdict.credit == credit
    assert verdict.call.startswith("text_verify(predict=")


def test_continuous_credit_is_the_likeness_of_the_worst_text():
    both = Criterion(criterion='It says "OPEN" over "DAILY".', key=TEXT_KEY, weight=1)
    # One of five letters is wrong.
    assert text_verdict(both, lines("OPEN", "DAILV"), "continuous").credit == pytest.approx(0.8)
    assert text_verdict(both, lines("OPEN", "DAILV")).credit == 0
    assert best_match("OPEN", lines("shop open now")) == (1, "open")


def test_lines_are_read_from_the_top_and_each_from_the_left():
    regions = [
        TextRegion("world", (50, 1, 90, 21)),
        TextRegion("below", (0, 40, 30, 60)),
        TextRegion("hello", (0, 4, 40, 24)),
    ]
    assert [region.text for region in in_reading_order(regions)] == ["hello", "world", "below"]


def test_verdicts_keep_the_rubrics_order_and_the_judge_sees_its_own_only(serve):
    server, reader = serve(judge), StandIn(lines("OPEN"))
    card = grade(server, reader, [SIGN, RED, NEAT])
    assert card.credits == [0, 1, 1]
    assert [verdict.criterion for verdict in card.verdicts] == [criterion.criterion for criterion in (SIGN, RED, NEAT)]
    assert [bool(verdict.call) for verdict in card.verdicts] == [True, False, False]
    assert card.judge == "j + stand-in"
    asked = [criterion["criterion"] for chat in server.chats for criterion in criteria_in(chat.body)]
    assert asked == [RED.criterion, NEAT.criterion]
    assert grade(server, reader, [SIGN]).raw == ()


def test_mask_hides_text_except_for_criteria_about_text(serve):
    server = serve(judge)
    reader = StandIn([TextRegion("score 1", (0, 0, 20, 10)), TextRegion("open daily", (0, 20, 20, 30))])
    card = grade(server, reader, [SIGN, RED, NEAT], mask_text=True)
    assert card.credits == [1, 1, 1]
    assert card.response == PICTURE
    shown = {criteria_in(chat.body)[0]["criterion"]: images_in(chat.body)[-1] for chat in server.chats}
    assert shown[NEAT.criterion] == PICTURE.image
    assert shown[RED.criterion] == mask_text(PICTURE.image, reader.regions[:1])
    with pytest.raises(UserError, match="mask_text needs a text_reader"):
        grade(server, None, [RED], mask_text=True)


def test_an_image_without_text_is_shown_to_the_judge_as_it_is(serve):
    server = serve(judge)
    grade(server, StandIn(), [RED], mask_text=True)
    assert images_in(server.chats[0].body) == [PICTURE.image]


@pytest.mark.parametrize(("mask", "credits"), [(False, [None, 1]), (True, [None, None])])
def test_a_reader_that_fails_gives_no_number(serve, mask, credits):
    failures = []
    reader = StandIn(error=ChatError(ErrorClass.RAISED, "it broke"))
    card = grade(serve(judge), reader, [SIGN, RED], mask_text=mask, failures=failures)
    assert card.credits == credits
    (failure,) = failures
    assert failure.judge == "stand-in"
    assert len(failure.criteria) == credits.count(None)


def test_masked_regions_take_the_colour_around_them_and_the_rest_is_untouched():
    pixels = np.full((40, 40, 3), 200, np.uint8)
    pixels[10:18, 10:30] = np.random.default_rng(0).integers(0, 256, (8, 20, 3))
    image = png(pixels)
    masked = read(mask_text(image, [TextRegion("x", (10, 10, 30, 18))]))
    assert (masked == 200).all()
    assert mask_text(image, []) == image
    assert mask_text(image, [TextRegion("Open!", (10, 10, 30, 18))], asked=["OPEN"]) == image
    everything = read(mask_text(image, [TextRegion("x", (0, 0, 40, 40))]))
    assert len(np.unique(everything)) == 1


def test_the_covered_share_counts_overlaps_once_and_is_the_alarms_statistic():
    image = Response.of_image(png(np.zeros((10, 10, 3), np.uint8)))
    regions = [TextRegion("a", (0, 0, 5, 4)), TextRegion("b", (3, 0, 8, 4))]
    assert covered_share(image.image, regions) == pytest.approx(8 * 4 / 100)
    reader = StandIn(regions)
    asyncio.run(reader.read(image))
    statistic = text_statistic(reader.covered)
    assert statistic.measure(image, 1) == pytest.approx(0.32)
    assert np.isnan(statistic.measure(PICTURE, 1))


def test_a_model_reads_and_each_image_is_asked_about_once(serve):
    answer = {"texts": [{"text": "OPEN", "box": [-3, 1.4, 500, 12]}, {"text": " ", "box": [0, 0, 5, 5]}]}
    server = serve([say(json.dumps(answer))])

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="ocr"), attempts=1) as client:
            reader = open_text_reader(Endpoint(url=server.url, model="ocr"), lambda _: client)
            assert isinstance(reader, ModelReader)
            assert reader.covered(PICTURE) is None
            regions = [await reader.read(PICTURE) for _ in range(2)]
            assert client.pinned.prompts == ("text-reader-1",)
            return regions, reader.covered(PICTURE)

    regions, covered = asyncio.run(run())
    assert regions == [(TextRegion("OPEN", (0, 1, 40, 12)),)] * 2
    assert covered == pytest.approx(40 * 11 / 1600)
    assert len(server.chats) == 1
    assert images_in(server.chats[0].body) == [PICTURE.image]


@pytest.mark.parametrize("answer", [fail(400), say("no text"), say('{"texts": [{"text": "a", "box": [1, 2]}]}')])
def test_a_model_that_answers_no_regions_fails(serve, answer):
    server = serve([answer])

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="ocr"), attempts=1) as client:
            await ModelReader(client).read(PICTURE)

    with pytest.raises(ChatError):
        asyncio.run(run())


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def read(image):
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))
