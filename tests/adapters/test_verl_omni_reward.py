"""The scorer as verl-omni's reward managers call it: by keyword, one image at a time, a dictionary back.

verl-omni is on no package index, so its managers are played here, as its reward rules state the contract: parameters by
name, pixels as a tensor with channels first, of bytes or in [0, 1], further options forwarded, a dictionary with
`score`.
"""

import asyncio
import inspect
import io
import json

import numpy as np
import pytest
import torch
from image_judge import COLOUR_RUBRIC, colour_judge, images_in
from PIL import Image
from scripted_server import fail

from rubricworks.adapters.verl_omni import compute_score
from rubricworks.errors import UserError

PIXELS = torch.tensor([1.0, 0.0, 0.25]).view(3, 1, 1).expand(3, 16, 24)


def call(server, image=PIXELS, extra=None, **options):
    """MultiVisualRewardManager's call; the manager adds the router's address and other keywords of its own."""
    assert inspect.iscoroutinefunction(compute_score)
    given = {"judges": [{"url": server.url, "model": "m"}], "tries": 1, "pause": 0.0, **options}
    return asyncio.run(
        compute_score(
            data_source="prompts",
            solution_image=image,
            ground_truth="a red field",
            extra_info={"num_turns": 1, "rubric": COLOUR_RUBRIC.model_dump_json(), **(extra or {})},
            reward_router_address="127.0.0.1:1",
            model_name=None,
            **given,
        )
    )


@pytest.mark.parametrize("shape", ["CHW", "1CHW", "HWC"])
def test_the_judge_sees_the_pixels_and_the_score_comes_back_as_numbers(serve, shape):
    server = serve(colour_judge)
    image = {"CHW": PIXELS, "1CHW": PIXELS[None], "HWC": PIXELS.permute(1, 2, 0)}[shape]
    result = call(server, image)
    assert result.keys() == {"score", "judged"}
    assert all(type(value) is float for value in result.values())  # tensors are not allowed
    (png,) = images_in(server.chats[0].body)
    pixels = np.asarray(Image.open(io.BytesIO(png)))
    assert pixels.shape == (16, 24, 3)
    assert pixels[0, 0].tolist() == [255, 0, 64]
    assert result["judged"] == 1.0


@pytest.mark.parametrize("kind", [torch.Tensor, np.ndarray])
def test_bytes_are_the_pixels_as_they_are(serve, kind):
    server = serve(colour_judge)
    image = torch.tensor([255, 1, 64], dtype=torch.uint8).view(3, 1, 1).expand(3, 16, 24)
    call(server, image if kind is torch.Tensor else image.numpy())
    (png,) = images_in(server.chats[0].body)
    assert np.asarray(Image.open(io.BytesIO(png)))[0, 0].tolist() == [255, 1, 64]


def test_a_red_image_scores_more_than_a_blue_one(serve):
    server = serve(colour_judge)
    red, blue = (torch.tensor(colour).view(3, 1, 1).expand(3, 8, 8) for colour in ([0.9, 0.1, 0.1], [0.1, 0.1, 0.9]))
    assert call(server, red)["score"] > call(server, blue)["score"]


def test_an_image_that_cannot_be_judged_raises_and_is_no_zero(serve):
    server = serve([fail(400)])
    with pytest.raises(UserError, match="could not be judged in 2 tries"):
        call(server, tries=2)
    assert call(server, unjudged=0.5) == {"score": 0.5, "judged": 0.0}


@pytest.mark.parametrize(
    ("image", "extra", "options", "message"),
    [
        (PIXELS * torch.nan, {}, {}, "not finite"),
        (torch.zeros(16, 4, 5), {}, {}, r"pixels of shape \(16, 4, 5\)"),
        (PIXELS, {"rubric": None}, {}, r"no rubric in extra_info\.rubric"),
        (PIXELS, {}, {"judges": []}, r"reward_functions: judges"),
    ],
)
def test_mistakes_are_one_line(serve, image, extra, options, message):
    server = serve(colour_judge)
    with pytest.raises(UserError, match=message):
        call(server, image, extra, **options)
    assert not server.chats


def test_a_rubric_may_be_a_mapping_as_parquet_gives_it(serve):
    rubric = json.loads(COLOUR_RUBRIC.model_dump_json())
    assert call(serve(colour_judge), extra={"rubric": rubric})["judged"] == 1.0
