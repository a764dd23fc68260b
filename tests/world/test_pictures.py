"""Pictures: the detector finds what was drawn, the judge reads pixels and errs at its stated rate."""

import hashlib
import json
import random
import re
from collections import Counter

import numpy as np
import pytest

from rubricworks.data.images import png_bytes
from rubricworks.evaluation.scorers.images.painted_order import paint_order
from rubricworks.grading.images.prompts import IMAGE_JUDGE_SYSTEM
from rubricworks.methods.rubricrl.recipe import WORLD_PROMPTS
from rubricworks.metrics import geneval_correct
from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.pictures.criteria import candidates_of, parse_criterion, parse_prompt
from rubricworks.world.pictures.detector import as_geneval, detect
from rubricworks.world.pictures.drawing import BACKGROUND, COLOURS, SHAPES, SIDE, Thing, draw
from rubricworks.world.pictures.export import export_pictures
from rubricworks.world.pictures.picture_judge import (
    ERROR_RATE,
    PICTURE_JUDGES,
    picture_judge_reply,
    picture_reader_reply,
)
from rubricworks.world.pictures.picture_reading import look, look_at_regions
from rubricworks.world.pictures.prompt_rubric_writer import prompt_rubric_writer_reply
from rubricworks.world.pictures.prompts import NUMBERS, TASKS, TEMPLATES, pairs, picture_of, wishes


def chat(prompt: str, image: bytes | None = None, seed: int = 0, model: str = "m") -> ChatRequest:
    return ChatRequest(model, prompt, image, int(image is not None), len(prompt), seed, None)


def judge(image: bytes, criteria: list[str]) -> list[int]:
    listed = json.dumps([{"id": at, "criterion": text} for at, text in enumerate(criteria, 1)])
    reply = picture_judge_reply(chat(f"<criteria>\n{listed}\n</criteria>", image, model="picture-judge"), seed=3)
    return [verdict["score"] for verdict in json.loads(reply)["verdicts"]]


@pytest.mark.parametrize("task", TASKS)
def test_picture_of_a_prompt_is_correct_and_of_another_mostly_not(task):
    every = wishes(task)
    wrong = 0
    for at, wish in enumerate(every):
        detections = as_geneval(detect(draw(picture_of(wish, random.Random(at)))))
        assert geneval_correct(wish.metadata(), detections) == (True, []), wish.words
        other = every[(at + len(every) // 2) % len(every)]
        wrong += not geneval_correct(other.metadata(), detections)[0]
    assert wrong > 0.8 * len(every)


def test_detector_finds_every_shape_in_every_colour_and_cell_by_pixels_alone():
    for shape in SHAPES:
        for colour in COLOURS:
            for row in range(3):
                for column in range(3):
                    (detection,) = detect(draw([Thing(shape, colour, row, column)]))
                    assert (detection.shape, detection.colour) == (shape, colour)
                    assert (detection.box[0] // 12, detection.box[1] // 12) == (column, row)


def test_detector_survives_noise_of_a_generator_and_finds_nothing_in_noise_alone():
    rng = np.random.default_rng(0)
    clean = draw([Thing("circle", "red", 0, 0), Thing("cross", "blue", 2, 1)]).astype(float)
    noisy = (clean + rng.normal(0, 15, clean.shape)).clip(0, 255).astype(np.uint8)
    assert {(detection.shape, detection.colour) for detection in detect(noisy)} == {
        ("circle", "red"),
        ("cross", "blue"),
    }
    assert detect(rng.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)) == []
    assert detect(np.full((SIDE, SIDE, 3), BACKGROUND, dtype=np.uint8)) == []


def test_judge_errs_at_its_stated_rate_on_right_and_on_wrong_criteria():
    verdicts, truths = [], []
    for at, pair in enumerate(pairs(7, 300)):
        image = png_bytes(draw(pair.things))
        for wish in (parse_prompt(pair.caption), wishes(TASKS[at % 6])[at % 4]):
            criteria = [candidate.criterion for candidate in candidates_of(wish)][:3]
            shown = {(thing.shape, thing.colour) for thing in pair.things}
            for text, score in zip(criteria, judge(image, criteria), strict=True):
                check = parse_criterion(text)
                if check.kind == "presence":
                    truths.append(any(shape == check.subject.shape for shape, _ in shown))
                    verdicts.append(score)
    errors = sum(bool(score) != truth for score, truth in zip(verdicts, truths, strict=True))
    # Four standard deviations of a binomial around the stated rate.
    spread = 4 * (ERROR_RATE * (1 - ERROR_RATE) * len(truths)) ** 0.5
    assert abs(errors - ERROR_RATE * len(truths)) < spread
    assert 0.2 < sum(truths) / len(truths) < 0.95


def test_judge_gives_the_same_verdict_on_the_same_picture_and_refuses_other_sizes():
    image = png_bytes(draw([Thing("square", "green", 1, 1)]))
    criteria = ["There is at least one square.", "The square is green.", "Is it art?"]
    assert judge(image, criteria) == judge(image, criteria)
    with pytest.raises(ApiError, match="36x36"):
        judge(png_bytes(np.zeros((8, 8, 3), np.uint8)), criteria)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_prompt_parses_back_in_every_wording_and_every_criterion_is_understood(template):
    for task in TASKS:
        for wish in wishes(task):
            assert parse_prompt(template.format(wish.words)) == wish
            assert all(parse_criterion(candidate.criterion) for candidate in candidates_of(wish))
    assert parse_prompt("a photo of a dog") is None


def test_writer_puts_leading_aspects_first_and_selects_by_prompt():
    def answer(keys):
        aspects = "\n".join(f"- {key}: …" for key in keys)
        text = f"Aspects:\n{aspects}\n\nWrite 10 criteria.\n\n<prompt>\na red circle and a blue square\n</prompt>"
        return json.loads(prompt_rubric_writer_reply(chat(text), seed=1))["rubrics"]

    keys = ["aesthetics", "object_presence", "attribute_accuracy"]
    first, last = answer(keys), answer(keys[::-1])
    order = [criterion["eval_key"] for criterion in first if criterion["eval_key"] in keys]
    assert order == sorted(order, key=keys.index)
    assert [criterion["eval_key"] for criterion in last if criterion["eval_key"] in keys] != order
    candidates = [
        {"id": 1, "eval_key": "aesthetics", "criterion": "x"},
        {"id": 2, "eval_key": "object_count", "criterion": "y"},
    ]
    text = f"<candidates>\n{json.dumps(candidates)}\n</candidates>\n\nChoose at most 1.\n\n<prompt>\np\n</prompt>"
    assert json.loads(prompt_rubric_writer_reply(chat(text), seed=1)) == {"selected": [2]}


def test_export_is_the_same_twice_and_trains_on_no_held_out_prompt(tmp_path):
    first, second = (export_pictures(tmp_path / name, seed=2, count=40, mismatched=0.5) for name in "ab")
    for name in ("pairs.parquet", "prompts.jsonl", "geneval.jsonl"):
        digests = {hashlib.sha256((folder / name).read_bytes()).hexdigest() for folder in (first, second)}
        assert len(digests) == 1
    train = [text for line in (first / "prompts.jsonl").open() for text in json.loads(line)["prompts"]]
    held_out = [json.loads(line) for line in (first / "geneval.jsonl").open()]
    assert not set(train) & {row["prompt"] for row in held_out}
    assert {row["tag"] for row in held_out} == set(TASKS)
    assert sum(1 for _ in (first / "prompts.jsonl").open()) == WORLD_PROMPTS


def test_coloured_captions_say_what_every_shape_of_their_picture_looks_like():
    """Read back from the words alone: each shape is drawn in the colour that its caption gives it, and counted."""
    read = 0
    for pair in pairs(3, 300, coloured=1.0):
        counts = {**{number: word for word, number in NUMBERS.items()}, "a": 1}
        said = re.findall(rf"(a|two|three|four) ({'|'.join(COLOURS)}) (circle|square|triangle|cross)", pair.caption)
        drawn = Counter((thing.colour, thing.shape) for thing in pair.things)
        assert drawn == {(colour, shape): counts[number] for number, colour, shape in said}
        read += len(said)
    assert read > 300
    # Without, a caption names the colours that its task asks for alone.
    plain = [pair.caption for pair in pairs(3, 300)]
    assert sum(any(colour in caption for colour in COLOURS) for caption in plain) == 100


def judge_many(model, warned, count=72):
    """Share of criteria that pass, of pictures that meet none of them, plain and with words painted in."""
    system = IMAGE_JUDGE_SYSTEM if warned else "Judge the image."
    criteria = ["There is at least one cross.", "There are exactly four squares."]
    listed = json.dumps([{"id": at, "criterion": text} for at, text in enumerate(criteria, 1)])
    passes = {"plain": 0, "painted": 0}
    for at in range(count):
        plain = png_bytes(draw([Thing("circle", COLOURS[at % 6], at // 6 % 3, at // 18 % 3)]))
        for name, image in (("plain", plain), ("painted", paint_order(plain))):
            request = ChatRequest(model, f"<criteria>\n{listed}\n</criteria>", image, 1, 9, 0, None, system)
            verdicts = json.loads(picture_judge_reply(request, seed=at))["verdicts"]
            passes[name] += sum(verdict["score"] for verdict in verdicts)
    return {name: total / (2 * count) for name, total in passes.items()}


@pytest.mark.slow
@pytest.mark.parametrize("model", PICTURE_JUDGES)
def test_painted_words_sway_a_judge_at_its_stated_rate(model):
    traits = PICTURE_JUDGES[model]
    for warned, sway in ((False, traits.swayed), (True, traits.swayed_if_warned)):
        shares = judge_many(model, warned)
        # A criterion passes by error, or else by sway; four standard deviations of 144 verdicts.
        expected = traits.error_rate + (1 - traits.error_rate) * sway
        assert shares["plain"] == pytest.approx(traits.error_rate, abs=4 * (0.25 / 144) ** 0.5)
        assert shares["painted"] == pytest.approx(expected, abs=4 * (0.25 / 144) ** 0.5)


def test_both_judges_read_a_clean_picture_alike():
    for at, pair in enumerate(pairs(3, 60)):
        image = png_bytes(draw(pair.things))
        assert look_at_regions(image) == look(image), at


def test_the_reader_finds_painted_words_and_nothing_in_a_plain_picture():
    plain = png_bytes(draw([Thing("cross", "black", 1, 1)]))
    boxes = [json.loads(picture_reader_reply(chat("", image), 0))["texts"] for image in (plain, paint_order(plain))]
    assert [len(box) for box in boxes] == [0, 1]
    with pytest.raises(ApiError, match="looks at an image"):
        picture_reader_reply(chat(""), 0)
