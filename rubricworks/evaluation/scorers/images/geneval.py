"""GenEval: a detector finds the objects of a generated image, and the official rules check them against the prompt.

The detector is an endpoint, since the official one (Mask2Former with CLIP colours) has an environment of its own:
`POST url {"image": <data URL>}` answers `{"detections": {class: [object]}}`, each object a
`{"box": [x1, y1, x2, y2, confidence], "color": "red"}`. The official thresholds of confidence are applied here, since
they depend on the prompt's task; a box without one is certain. `examples/geneval_detector.py` is such a server. The
sample's `answer` holds the prompt's requirements in GenEval's form. The overall score is the unweighted mean over the
tasks. Rules: `metrics.geneval`, as in djghosh13/geneval.
"""

import json
from typing import ClassVar

from pydantic import BaseModel, Field, ValidationError

from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreItem, Scorer, ScoringContext
from rubricworks.grading.images.scores import ScorerAnswer
from rubricworks.llm.messages import image_part
from rubricworks.llm.served import ServedAddress
from rubricworks.metrics.geneval import confident_detections, geneval_reasons

_FIELD = "evaluation.scorers.geneval.url"


class GenevalScorer(ServedAddress, Scorer):
    name: ClassVar[str] = "geneval"
    title: ClassVar[str] = "GenEval"
    parts: ClassVar[tuple[str, ...]] = ("correct",)
    needs: ClassVar[frozenset[Need]] = frozenset({"answer"})
    by_task: ClassVar[bool] = True
    version: ClassVar[str] = "2"

    async def open(self, context: ScoringContext) -> ScoreItem:
        import aiohttp

        session = await context.stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120))
        )
        url = fill(self.url, _FIELD)

        async def score(item: Item) -> list[Score]:
            metadata = _metadata(item)
            image = item.response.image
            if image is None:
                raise UserError(f"sample {item.sample.label}: GenEval scores images, and the response is a text")
            try:
                request = {"image": image_part(image)["image_url"]["url"]}
                async with session.post(url, json=request, allow_redirects=False) as answer:
                    body = await answer.text()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise UserError(f"{_FIELD} {url} cannot be reached ({type(error).__name__}); is it running?") from error
            if answer.status != 200:
                raise UserError(f"{_FIELD} {url} answered {answer.status}: {body[:200]}")
            detections = confident_detections(metadata, _detections(body, url))
            try:
                reasons = geneval_reasons(metadata, detections)
            except ValueError as error:
                raise UserError(f"sample {item.sample.label}: {error}; {_FIELD} {url}") from error
            return self._scores(item, [float(not reasons)], json.dumps({"reasons": reasons}, ensure_ascii=False))

        return score


class _Object(BaseModel, extra="ignore", frozen=True, allow_inf_nan=False):
    box: tuple[float, ...] = Field(min_length=4, max_length=5)
    color: str | None = None


class _Detections(ScorerAnswer):
    detections: dict[str, list[_Object]]


def _detections(body: str, url: str) -> dict[str, list[dict[str, object]]]:
    try:
        by_class = _Detections.model_validate_json(body).detections
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{_FIELD} {url} answered something else than detections: {field}: {first['msg']}: {body[:200]}"
        ) from error
    return {
        name: [detection.model_dump(exclude_none=True) for detection in objects] for name, objects in by_class.items()
    }


def _metadata(item: Item) -> dict[str, object]:
    """Requirements of the sample's prompt.

    Raises:
        UserError: the sample's answer is not GenEval's metadata.
    """
    try:
        metadata = json.loads(item.sample.answer or "")
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict) or "include" not in metadata:
        raise UserError(
            f"sample {item.sample.label}: its answer is not GenEval's metadata (tag, include, exclude); take the "
            "held-out prompts from an evaluation_metadata.jsonl"
        )
    return metadata
