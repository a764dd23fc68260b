"""Rubric rewards for verl-omni: a scorer of generated images, as its reward managers call it.

verl-omni trains diffusion and flow models at scale (Flow-GRPO, DiffusionNFT). Its managers take scorers from the
configuration and call them by keyword, one image at a time:

    reward.reward_manager.name=MultiVisualRewardManager
    '+reward.reward_functions.rubric.path=pkg://rubricworks.adapters.verl_omni'
    +reward.reward_functions.rubric.name=compute_score
    +reward.reward_functions.rubric.required=true
    '+reward.reward_functions.rubric.judges=[{url: "http://judge:8000/v1", model: judge}]'

A row's `ground_truth` is the prompt and `extra_info.rubric` its rubric (JSON), which `write_prompt_rubrics` writes. An
image that could not be judged is graded again, up to `tries` times, and then raises: keep `required`, or verl-omni
counts it as 0, which is a score. `unjudged` sets its reward instead. `adapters.verl.RubricRewardManager` does the same
as a manager. The judge of an image is always shown its prompt, so that there is no `subject`. Written against the
reward rules of verl-omni as of 2026; the package is on no index, so that tests play its managers.
"""

import asyncio
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from rubricworks.adapters.trl import RubricReward
from rubricworks.adapters.verl import VerlOptions, judged_reward, plain, unjudged_reason
from rubricworks.data.images import BadImage
from rubricworks.data.pixels import encode_image
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Response

_RUBRIC = "rubric"
_FIELDS = frozenset(VerlOptions.model_fields) - {"exposure", "subject", "criteria"}


async def compute_score(
    data_source: str, solution_image: Any, ground_truth: str, extra_info: Mapping[str, object], **options: Any
) -> dict[str, float]:
    """Score one image by the rubric of its prompt: `score` in [0, 1], and `judged`, 1 or 0.

    Args:
        data_source: not used.
        solution_image: pixels, channels first, or one such image in a batch of its own: bytes from 0 to 255, or, of
            older versions, numbers in [0, 1].
        ground_truth: the prompt.
        extra_info: holds the rubric, and `sample_id` if the row has one.
        options: fields of `VerlOptions` but `exposure`, `subject` and `criteria`; others, such as the router's address,
            are not used.
    Raises:
        UserError: an option or the rubric is missing or invalid, the pixels are no image, or no try could judge it.
    """
    given = {name: plain(value) for name, value in options.items() if name in _FIELDS}
    settings, reward = _reward(json.dumps(given, sort_keys=True, default=str))
    name = str(extra_info.get("sample_id") or extra_info.get("index") or "image")
    rubric = extra_info.get(settings.rubric_key or _RUBRIC)
    if rubric is None:
        raise UserError(f"sample {name}: no rubric in extra_info.{settings.rubric_key or _RUBRIC}; put its JSON there")
    rubric = rubric if isinstance(rubric, str) else json.dumps(plain(rubric))
    response = await asyncio.get_running_loop().run_in_executor(None, _image_response, solution_image, name)
    columns = {"rubric": [rubric], "sample_id": [name]}
    score, card = await judged_reward(reward, settings, ground_truth, response, columns)
    if score is not None:
        return {"score": score, "judged": 1.0}
    if settings.unjudged is None:
        raise UserError(
            f"sample {name}: {unjudged_reason(card, settings)}, or set unjudged to what such an image earns"
        )
    return {"score": settings.unjudged, "judged": 0.0}


@lru_cache(maxsize=8)
def _reward(options: str) -> tuple[VerlOptions, RubricReward]:
    """Options and their reward, made once per process: the clients keep their connections and limits."""
    try:
        settings = VerlOptions.model_validate_json(options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"reward.reward_functions: {where}: {first['msg']}") from None
    clients = [ChatClient(judge, cache=settings.cache, purpose="judge") for judge in settings.judges]
    return settings, RubricReward(Grader(clients, call_per=settings.call_per, combine=settings.combine))


def _image_response(pixels: Any, name: str) -> Response:
    """Response of pixels.

    Raises:
        UserError: they are not one RGB image.
    """
    try:
        return Response.of_image(encode_image(pixels))
    except BadImage as error:
        raise UserError(f"sample {name}: {error}") from None
