"""Kubeflow UI views of training stages and of GenRM data."""

import base64
import io
import re

import pytest
import synthetic_balcaprl_run as balcaprl
import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from image_judge import main_colour, plain_image
from PIL import Image
from report_page import text_of
from shown_stages import pictures, shown, write_training

from rubricworks.data.response_images import ResponseImages, response_columns
from rubricworks.rubrics import Response


def test_the_warm_up_shows_its_loss_from_the_last_checkpoint(tmp_path):
    for step in (10, 20):
        losses = [{"step": at, "loss": 3.0 - at / 10} for at in range(5, step + 1, 5)]
        state = {"global_step": step, "log_history": [*losses, {"step": step, "train_runtime": 1.0}]}
        folder.write_json(tmp_path / "warm_up" / f"checkpoint-{step}" / "trainer_state.json", state)
    html, metrics = shown(tmp_path, "warm_up")
    assert metrics == {"loss_first": 2.5, "loss": 1.0}
    assert "20 steps, to a loss of 1.00" in text_of(html)
    assert '<path class="measured policy" d="M' in html


def test_training_shows_its_curves_and_a_group_of_the_first_and_of_the_last_step(tmp_path):
    write_training(tmp_path)
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert metrics == {
        "steps": 5,
        "reward_first": pytest.approx(0.25 + 1 / 20),
        "reward": pytest.approx(0.25 + 5 / 20),
        "unjudged": 0.25,
        "tokens": 15.0,
    }
    captions = re.findall(r"said \d at step \d", text_of(html))
    assert captions == [f"said {number} at step {step}" for step in (1, 5) for number in (2, 1, 0, 3)], "the best first"
    assert "could not be judged said 3" in text_of(html)


def test_an_alarm_is_said_first_and_marked_in_the_curve(tmp_path):
    write_training(tmp_path)
    folder.write_json(tmp_path / "train_policy" / "alarm.json", {"step": 4, "reasons": ["it lists objects"]})
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert metrics["alarm_step"] == 4
    assert "Hacking alarm at step 4." in text_of(html)
    assert 'class="mark-line"' in html


@pytest.mark.parametrize(("state", "sentence"), [("too_short", "too short to tell"), ("silent", "silent")])
def test_an_alarm_that_did_not_fire_is_told_with_what_that_is_worth(tmp_path, state, sentence):
    write_training(tmp_path)
    folder.write_json(tmp_path / "train_policy" / "alarm.json", {"state": state})
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert f"The hacking alarm: {sentence}." in text_of(html)
    assert (metrics.get("alarm_step"), "Hacking alarm at step" in html) == (None, False)


def test_balanced_training_shows_each_reward(tmp_path):
    balcaprl.write_whole_run(tmp_path)
    html, metrics = shown(tmp_path, "train_balcaprl", samples="prepare")
    assert {"precision_reward", "recall_reward", "linguistic_reward"} <= metrics.keys()
    assert all(f">{name}</span>" in html for name in ("Precision", "Recall", "Linguistic"))


def test_the_genrm_shows_its_table_and_its_figures(tmp_path):
    reports = rlr3.write_genrm(tmp_path)
    html, metrics = shown(tmp_path, "train_genrm")
    assert metrics["rlvr/sample_level"] == pytest.approx(reports["rlvr"].sample_level.value) == pytest.approx(0.9)
    assert metrics["base/sample_level"] == pytest.approx(0.4)
    assert "90.0 % are right" in text_of(html)


def test_labels_stand_beside_the_response_that_they_judge(tmp_path):
    rlr3.write_questions(tmp_path)
    rlr3.write_genrm(tmp_path)
    row = {
        **{"sample_id": "count-1", "split": "train", "question": "How many cats?", "response": "there are 3"},
        **{"rubric": rlr3.RUBRIC.model_dump_json(), "label": rlr3.LABEL.model_dump_json(), "task": "count"},
        "loses_credit": False,
    }
    folder.write_table(tmp_path / "genrm_data", "genrm_data", [row])
    html, metrics = shown(tmp_path, "genrm_data", samples="prepare_questions")
    assert metrics == {"train": 12, "test": 10}
    assert "Response there are 3" in text_of(html)
    assert f"label {rlr3.CALL}" in text_of(html)


def image_rollouts(run, *, missing=False, broken=False) -> str:
    """The page of a training whose responses are images, four to a prompt, the greener the better."""
    responses = [Response.of_image(plain_image(colour, size=600)) for colour in ("blue", "red", "green")]
    images = ResponseImages(run / "train_policy" / "images")
    for response in responses[missing:]:
        images.add(response)
    if broken:
        responses[0] = Response.of_image(b"no image")
        images.add(responses[0])
    rows = [
        {**folder.rollout(1, "", 10, number / 2), "sample_id": "t", **response_columns(response)}
        for number, response in enumerate(responses)
    ]
    folder.write_table(run / "train_policy" / "rollouts", "rollouts", rows)
    prompt = {
        **folder.sample("t", b"", "train"),
        "image": None,
        "image_digest": None,
        "prompt": "a green <b>square</b>",
    }
    folder.write_table(run / "prepare", "samples", [prompt])
    html, _ = shown(run, "train_policy", samples="prepare")
    return html


def test_responses_that_are_images_are_shown_as_images_under_their_prompt(tmp_path):
    html = image_rollouts(tmp_path)
    shown_images = [base64.b64decode(source.partition(",")[2]) for source in pictures(html)]
    assert [main_colour(image) for image in shown_images] == ["green", "red", "blue"]
    assert max(Image.open(io.BytesIO(shown_images[0])).size) == 300
    assert "Prompt: a green <b>square</b>" in text_of(html)
    assert "<b>" not in html
    assert html.count('alt="Response: reward') == 3


@pytest.mark.parametrize(("fault", "words"), [("missing", "cannot be read"), ("broken", "not an image")])
def test_an_image_that_cannot_be_shown_is_said_in_its_place(tmp_path, fault, words):
    html = image_rollouts(tmp_path, **{fault: True})
    assert len(pictures(html)) == 2
    assert re.search(rf"This image cannot be shown: [^.]*.*{words}", text_of(html))
