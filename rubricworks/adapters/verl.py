"""Rubric rewards for verl: a reward manager that grades each response as `adapters.trl.RubricReward` does.

verl loads it and passes it the judges by these options:

    reward.reward_manager.source=importlib
    reward.reward_manager.name=RubricRewardManager
    reward.reward_manager.module.path=pkg://rubricworks.adapters.verl
    '+reward.reward_kwargs.rubricworks={judges: [{url: "http://judge:8000/v1", model: judge}], exposure: image}'

A row's rubric is its `reward_model.ground_truth` (JSON or a mapping), or the key `rubric_key` of `extra_info`;
`sample_id` and `question` come from `extra_info`. With `exposure: image` the judge sees all images of the prompt. verl
cannot drop a response from its group, so a response that could not be judged is graded again, up to `tries` times (once
where an image cannot be read); then training stops, unless `unjudged` sets its reward. RLR³'s group reward is not
available, because verl asks for the reward of one response at a time. A response of three dimensions is an image, as
verl-omni gives it. Written against verl 0.9.

`reward_extra_info` has `score`, `judged`, `verdicts` (JSON: title → credit, or null) and, for each name in the option
`criteria`, `criterion/NAME`: the mean credit of the criteria with that key or title, NaN where a response has none. All
rows have the same keys, as verl makes columns of them: `algorithm.filter_groups.metric` may name one.
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubricworks.adapters.rows import Columns, encoded_image, message_images
from rubricworks.adapters.trl import RubricReward
from rubricworks.data.images import no_image
from rubricworks.data.pixels import as_list
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, Exposure, Grader, Subject
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import ErrorClass, Response, Rubric, Scorecard

try:
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
except ImportError as error:
    _MISSING: ImportError | None = error
    RewardManagerBase = object
else:
    _MISSING = None

_IMAGE_KEYS = ("images", "image")


class VerlOptions(BaseModel):
    """`reward.reward_kwargs.rubricworks` of verl's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judges: tuple[Endpoint, ...] = Field(min_length=1)
    exposure: Exposure = "text"
    """Parts of the sample that a judge sees."""
    subject: Subject = "caption"
    """`answer`: the judge is shown the prompt, and `answer` of `extra_info`."""
    call_per: CallPer = "response"
    combine: Combine = "majority"
    criteria: tuple[str, ...] = ()
    """Keys or titles of criteria whose credits get a column of their own."""
    rubric_key: str | None = None
    """Key of the rubric in `extra_info`; None = `reward_model.ground_truth`."""
    cache: Path | None = None
    """File that caches the judges' answers, on a disk shared by the reward workers of a node."""
    tries: int = Field(default=3, ge=1)
    """Gradings of a response that could not be judged; each call has its own retries as well."""
    pause: float = Field(default=10.0, ge=0)
    """Seconds between two tries."""
    unjudged: float | None = None
    """Reward of a response that could not be judged in any try; None stops the training."""


class RubricRewardManager(RewardManagerBase):
    """Reward manager that each verl reward worker calls once per response."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        """
        Args:
            config: verl's configuration.
            tokenizer: decodes the responses.
            compute_score, reward_router_address, reward_model_tokenizer: verl's interface; not used.
        Raises:
            UserError: verl is not installed, or the options are invalid.
        """
        if _MISSING is not None:
            raise UserError(
                f"verl cannot be imported ({_MISSING}); install it in an environment of its own (pip install verl), "
                "with rubricworks beside it"
            ) from _MISSING
        super().__init__(config=config, tokenizer=tokenizer, compute_score=compute_score)
        self.options = verl_options(config)
        clients = [ChatClient(judge, cache=self.options.cache, purpose="judge") for judge in self.options.judges]
        self.reward = RubricReward(
            Grader(
                clients,
                exposure=self.options.exposure,
                subject=self.options.subject,
                call_per=self.options.call_per,
                combine=self.options.combine,
            )
        )

    async def run_single(self, data: Any) -> dict[str, object]:
        """Return the reward of the last row; verl passes one response, or the turns of one.

        Raises:
            UserError: the row has no rubric or image, or the response could not be judged.
        """
        row = data[-1:][0]
        extra = dict(row.non_tensor_batch.get("extra_info") or {})
        name = str(extra.get("sample_id") or extra.get("index") or row.non_tensor_batch.get("uid") or "row")
        response = await asyncio.get_running_loop().run_in_executor(None, self._response, row, name)
        prompt = row.non_tensor_batch.get("raw_prompt")
        messages = [] if prompt is None else list(prompt)
        columns: dict[str, Any] = {
            "rubric": [self._rubric(row, extra, name)],
            "sample_id": [name],
            "question": [extra.get("question")],
            "answer": [extra.get("answer")],
        }
        if self.options.exposure == "image":
            images = await asyncio.get_running_loop().run_in_executor(None, _images, row, messages, extra, name)
            columns["images"] = [images]
        reward, card = await judged_reward(self.reward, self.options, messages, response, columns)
        info = _verdict_fields(card, self.reward.parse_rubric(columns["rubric"][0], 0), self.options.criteria)
        if reward is not None:
            return _reward_fields(reward, info, judged=True)
        if self.options.unjudged is None:
            raise UserError(
                f"sample {name}: {unjudged_reason(card, self.options)}; go on from verl's last checkpoint, or set "
                "reward_kwargs.rubricworks.unjudged to what such a one earns"
            )
        return _reward_fields(self.options.unjudged, info, judged=False)

    def _response(self, row: Any, name: str) -> Response:
        """Decode the tokens of a text, or encode the pixels of an image."""
        values = row.batch["responses"]
        if values.ndim == 3:
            return _image_response(values, name)
        length = int(row.batch["attention_mask"][-values.shape[-1] :].sum())
        return Response(str(self.tokenizer.decode(values[:length], skip_special_tokens=True)))

    def _rubric(self, row: Any, extra: Mapping[str, object], name: str) -> Any:
        key = self.options.rubric_key
        rubric = extra.get(key) if key else (row.non_tensor_batch.get("reward_model") or {}).get("ground_truth")
        if rubric is None:
            where = f"extra_info.{key}" if key else "reward_model.ground_truth"
            raise UserError(f"sample {name}: no rubric in {where}; put its JSON there, or set rubric_key")
        return rubric if isinstance(rubric, str) else json.loads(json.dumps(rubric, default=plain))


async def judged_reward(
    reward: RubricReward, options: VerlOptions, prompt: Any, response: Response, columns: Columns
) -> tuple[float | None, Scorecard]:
    """Reward and scorecard of one response, graded up to `options.tries` times; no reward if no try could judge it."""
    for tries_left in reversed(range(options.tries)):
        scores = await reward.score([prompt], [response], **columns)
        if scores.rewards[0] is not None or not tries_left or _is_unreadable(scores.scorecards[0]):
            break
        await asyncio.sleep(options.pause)
    return scores.rewards[0], scores.scorecards[0]


def unjudged_reason(card: Scorecard, options: VerlOptions) -> str:
    """Clause that says why a response has no reward, and what to check."""
    if _is_unreadable(card):
        return f"it could not be judged, for {card.verdicts[0].reasoning}"
    return f"the response could not be judged in {options.tries} tries; check the judge"


def _is_unreadable(card: Scorecard) -> bool:
    """Return True if no further try would help: an image cannot be read."""
    return any(verdict.error is ErrorClass.UNREADABLE for verdict in card.verdicts)


def _image_response(pixels_CHW: Any, name: str) -> Response:
    """Encode pixels as verl-omni gives them: bytes from 0 to 255, channels first.

    Raises:
        UserError: they are latents, or have another number of channels.
    """
    kind = str(pixels_CHW.dtype).removeprefix("torch.")
    if kind != "uint8" or pixels_CHW.shape[0] != 3:
        raise UserError(
            f"sample {name}: the response is {kind} of shape {tuple(pixels_CHW.shape)}; an image is uint8 of shape "
            "(3, height, width): set the rollout's output_type to image"
        )
    return Response.of_image(encoded_image(pixels_CHW))


def verl_options(config: Any) -> VerlOptions:
    """Read `reward.reward_kwargs.rubricworks` from verl's configuration.

    Raises:
        UserError: the options are missing or invalid.
    """
    options = (config.reward.get("reward_kwargs") or {}).get("rubricworks")
    if not options:
        raise UserError("verl's configuration has no reward.reward_kwargs.rubricworks; give it at least the judges")
    try:
        return VerlOptions.model_validate(plain(options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"reward.reward_kwargs.rubricworks.{where}: {first['msg']}") from None


def _reward_fields(reward: float, verdicts: Mapping[str, object], *, judged: bool) -> dict[str, object]:
    """Result of `run_single`; the keys are the same in every row, as verl makes columns of them."""
    info = {"score": reward, "judged": float(judged), **verdicts}
    return {"reward_score": reward, "reward_extra_info": info}


def _verdict_fields(card: Scorecard, rubric: Rubric, names: Sequence[str]) -> dict[str, object]:
    """Verdicts as JSON, and the mean credit of the criteria of each name; NaN without one."""
    fields: dict[str, object] = {
        "verdicts": json.dumps({verdict.criterion: verdict.credit for verdict in card.verdicts}, ensure_ascii=False)
    }
    for name in names:
        credits = [
            math.nan if verdict.credit is None else verdict.credit
            for verdict, criterion in zip(card.verdicts, rubric.criteria, strict=True)
            if name in (criterion.key, criterion.criterion)
        ]
        fields[f"criterion/{name}"] = sum(credits) / len(credits) if credits else math.nan
    return fields


def _images(row: Any, messages: Sequence[Mapping[str, object]], extra: Mapping[str, object], name: str) -> list[bytes]:
    """All images of the prompt, where verl's dataset puts them, else of `multi_modal_data` or `extra_info`."""
    places = (row.non_tensor_batch.get("multi_modal_data") or {}, extra)
    values: Sequence[Any] = message_images(messages) or next(
        (images for place in places for key in _IMAGE_KEYS if (images := as_list(place.get(key)))), []
    )
    if not values:
        raise UserError(
            f"sample {name}: the judge is to see the image, and neither the prompt nor extra_info holds one"
        )
    return [encoded_image(_read(value)) for value in values]


def _read(value: Any) -> Any:
    """An image, read from its file if it is given by its path."""
    value = value.get("url") if isinstance(value, Mapping) and set(value) <= {"url", "detail"} else value
    if not isinstance(value, str) or value.startswith("data:"):
        return value
    try:
        return Path(value.removeprefix("file://")).read_bytes()
    except (OSError, ValueError) as error:
        return no_image(f"the file {value[:200]} cannot be read ({getattr(error, 'strerror', None) or error})")


def plain(value: Any) -> Any:
    """Convert OmegaConf's and numpy's containers to Python's."""
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return value
    return [plain(item) for item in value]
