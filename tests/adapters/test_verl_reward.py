"""RubricRewardManager as verl calls it: one response at a time, tokens and the prompt's messages in, a score out.

verl itself needs ray and a GPU to be of use, so its interface is played here, as verl 0.9 has it;
tests/cluster/test_verl_itself.py loads the manager by verl's own loader.
"""

import asyncio
import base64
import io
import json

import numpy as np
import pytest
import torch
from image_judge import COLOUR_RUBRIC, colour_judge, images_in, main_colour, plain_image
from PIL import Image
from scripted_server import fail, say
from test_trl_reward import RUBRIC, word_judge

from rubricworks.adapters import verl
from rubricworks.errors import UserError

WORDS = ["<pad>", "a", "red", "circle", "square", "outage", "</s>"]


class RewardManagerBase:
    """verl/experimental/reward_loop/reward_manager/base.py, without ray."""

    def __init__(self, config, tokenizer, compute_score):
        self.config, self.tokenizer, self.compute_score = config, tokenizer, compute_score


class Tokenizer:
    def decode(self, ids, skip_special_tokens):
        return " ".join(WORDS[int(id)] for id in ids if not (skip_special_tokens and WORDS[int(id)].startswith("<")))


class Rows(list):
    """A `DataProto`: slices are rows again, an item has `batch` and `non_tensor_batch`."""

    def __getitem__(self, index):
        return Rows(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)


class Row:
    def __init__(self, text, truth, *, image=None, **extra):
        ids = [WORDS.index(word) for word in text.split()] + [WORDS.index("</s>")]
        padding = 8 - len(ids)
        prompt = [{"type": "text", "text": "describe it"}]
        if image is not None:
            prompt.insert(0, {"type": "image", "image": image})
        self.batch = {
            "responses": torch.tensor(ids + [WORDS.index("outage")] * padding),  # what stands there is not read
            "attention_mask": torch.tensor([1] * 3 + [1] * len(ids) + [0] * padding),
        }
        self.non_tensor_batch = {
            "data_source": "scenes",
            "reward_model": {"ground_truth": truth},
            "extra_info": {"sample_id": "s1", **extra},
            "raw_prompt": np.array([{"role": "user", "content": prompt}], dtype=object),
        }


class Section(dict):
    def __getattr__(self, name):
        return self[name]


@pytest.fixture
def manager(monkeypatch):
    """The manager as it is where verl is installed."""

    class There(verl.RubricRewardManager, RewardManagerBase):
        pass

    monkeypatch.setattr(verl, "_MISSING", None)

    def make(server, **options):
        settings = {"judges": [{"url": server.url, "model": "judge"}], "pause": 0, **options}
        config = Section(reward=Section(reward_kwargs={"rubricworks": settings}))
        return There(config=config, tokenizer=Tokenizer(), compute_score=None, reward_router_address=None)

    return make


def run(manager, *rows):
    async def scored():
        try:
            return await manager.run_single(Rows(rows))
        finally:
            for judge in manager.reward.grader.judges:
                await judge.close()

    return asyncio.run(scored())


def test_response_earns_the_weighted_share_and_padding_is_not_graded(serve, manager):
    result = run(manager(serve(word_judge)), Row("a red square", RUBRIC.model_dump_json()))
    assert result == {
        "reward_score": 0.75,
        "reward_extra_info": {"score": 0.75, "judged": 1.0, "verdicts": '{"red": 1.0, "circle": 0.0}'},
    }


def test_last_of_several_turns_is_graded_by_the_rubric_in_extra_info(serve, manager):
    rows = [Row("a square", "none"), Row("a circle", "none", rubric=RUBRIC.model_dump(mode="json"))]
    assert run(manager(serve(word_judge), rubric_key="rubric"), *rows)["reward_score"] == 0.25


def test_a_judge_that_sees_is_shown_the_image_of_the_prompt(serve, manager, tmp_path):
    picture = Image.new("RGB", (8, 8), (255, 0, 0))
    picture.save(tmp_path / "p.png")
    for image in (picture, str(tmp_path / "p.png"), {"bytes": (tmp_path / "p.png").read_bytes()}):
        server = serve(word_judge)
        run(manager(server, exposure="image"), Row("a red circle", RUBRIC.model_dump_json(), image=image))
        content = server.chats[0].body["messages"][1]["content"]
        assert [part["type"] for part in content] == ["image_url", "text"]
    server = serve(word_judge)
    run(manager(server), Row("a red circle", RUBRIC.model_dump_json(), image=picture))
    assert isinstance(server.chats[0].body["messages"][1]["content"], str), "a judge of text is shown none"
    with pytest.raises(UserError, match=r"sample s1: the judge is to see the image"):
        run(manager(serve(word_judge), exposure="image"), Row("a", RUBRIC.model_dump_json()))


def test_all_images_of_a_prompt_are_shown_wherever_verl_has_them(serve, manager):
    pictures = [plain_image(colour) for colour in ("red", "blue")]
    url = f"data:image/png;base64,{base64.b64encode(pictures[1]).decode()}"
    parts = [{"type": "image", "image": pictures[0]}, {"type": "image_url", "image_url": {"url": url}}]
    in_prompt = Row("a red circle", RUBRIC.model_dump_json())
    in_prompt.non_tensor_batch["raw_prompt"][0]["content"] = [*parts, {"type": "text", "text": "compare"}]
    beside = Row("a red circle", RUBRIC.model_dump_json())
    beside.non_tensor_batch["multi_modal_data"] = {"images": np.array(pictures, dtype=object)}
    for row in (in_prompt, beside, Row("a red circle", RUBRIC.model_dump_json(), images=pictures)):
        server = serve(word_judge)
        run(manager(server, exposure="image"), row)
        assert [main_colour(image) for image in images_in(server.chats[0].body)] == ["red", "blue"]


def test_a_prompt_image_that_cannot_be_read_is_tried_once_and_is_no_number(serve, manager, tmp_path):
    for image in (b"no image", str(tmp_path / "gone.png")):
        row = Row("a red circle", RUBRIC.model_dump_json(), image=image)
        server = serve(word_judge)
        with pytest.raises(UserError, match="sample s1: it could not be judged, for the sample has no readable image"):
            run(manager(server, exposure="image", pause=1e6), row)
        assert run(manager(server, exposure="image", unjudged=0.5), row)["reward_extra_info"]["judged"] == 0.0
        assert server.chats == []


def test_failing_judge_is_called_again_and_is_a_number_only_on_request(serve, manager):
    row = Row("a red circle", RUBRIC.model_dump_json())
    server = serve(lambda number, body: fail(400) if number < 2 else word_judge(number, body))
    assert run(manager(server, tries=3), row)["reward_score"] == 1.0
    with pytest.raises(UserError, match=r"sample s1: .*could not be judged in 2 tries"):
        run(manager(serve([fail(400)]), tries=2), row)
    fallback = run(manager(serve([fail(400)]), tries=1, unjudged=0.5), row)
    assert fallback["reward_score"] == 0.5
    assert fallback["reward_extra_info"] == {"score": 0.5, "judged": 0.0, "verdicts": '{"red": null, "circle": null}'}


def test_mistakes_in_the_rows_and_options_are_one_line_each(serve, manager):
    server = serve([say("{}")])
    with pytest.raises(UserError, match=r"sample s1: no rubric in reward_model\.ground_truth"):
        run(manager(server), Row("a", None))
    with pytest.raises(UserError, match=r"row 0 of the batch is not a rubric"):
        run(manager(server), Row("a", json.dumps({"criteria": 3})))
    with pytest.raises(UserError, match=r"reward\.reward_kwargs\.rubricworks\.exposur: Extra inputs"):
        manager(server, exposur="image")
    with pytest.raises(UserError, match=r"no reward\.reward_kwargs\.rubricworks"):
        verl.verl_options(Section(reward=Section(reward_kwargs=None)))


def test_without_verl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(verl, "_MISSING", ImportError("No module named 'verl'"))
    with pytest.raises(UserError, match=r"verl cannot be imported .*pip install verl"):
        verl.RubricRewardManager(config=None, tokenizer=None)


def test_a_response_of_pixels_is_an_image_as_verl_omni_gives_it(serve, manager):
    row = Row("a", COLOUR_RUBRIC.model_dump_json())
    row.batch["responses"] = torch.zeros(3, 16, 24, dtype=torch.uint8)
    row.batch["responses"][1] = 200
    server = serve(colour_judge)
    assert run(manager(server), row)["reward_score"] == pytest.approx(1 / 3)
    (image,) = images_in(server.chats[0].body)
    assert Image.open(io.BytesIO(image)).size == (24, 16)


@pytest.mark.parametrize("responses", [torch.zeros(3, 4, 4), torch.zeros(16, 4, 4, dtype=torch.uint8)])
def test_latents_are_refused_with_the_option_that_gives_pixels(serve, manager, responses):
    row = Row("a", COLOUR_RUBRIC.model_dump_json())
    row.batch["responses"] = responses
    with pytest.raises(UserError, match=r"sample s1: the response is .*; an image is uint8 .*output_type to image"):
        run(manager(serve(colour_judge)), row)


def test_named_criteria_have_a_column_in_every_row(serve, manager):
    shape = {"criterion": "circle", "evaluation_rule": "passes if a circle is named", "weight": 1, "key": "shape"}
    truth = json.dumps({"criteria": [*RUBRIC.model_dump(mode="json")["criteria"][:1], shape]})
    graded = manager(serve(word_judge), criteria=["shape", "red", "absent"], tries=1, unjudged=0.0)
    rows = [run(graded, Row(text, truth))["reward_extra_info"] for text in ("a red square", "red circle", "outage")]
    columns = [[row[f"criterion/{name}"] for row in rows] for name in ("shape", "red", "absent")]
    assert columns[0][:2] == [0, 1]
    assert columns[1][:2] == [1, 1]
    assert np.isnan([columns[0][2], columns[1][2], *columns[2]]).all()
    assert len({tuple(row) for row in rows}) == 1
