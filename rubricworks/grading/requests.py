"""Requests of scoring calls: RLR³'s minimal exposure (section 4.2) as types.

An extractor that sees the target copies it, and a judge that sees the image answers the question itself. So the default
request type has no field for either, and neither can reach a prompt. Each ablation (section 5.5) has its own type.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion, Response, Rubric
from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.verifier_table import VERIFIERS

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

Exposure = Literal["text", "image", "targets", "unverified"]
"""Parts of a sample that a judge sees, in addition to the response. For a rubric with references:

text        question, criteria, names of verifiers, ground truth of fuzzy criteria: the default.
image       the image as well (VLM-as-a-Judge).
targets     the verifiers' targets as well (unlimited exposure).
unverified  no verifier: targets become ground truth in words, by which the judge gives credit.

A rubric without references is shown whole, as in RubiCap, and only `image` adds to it.
"""


@dataclass(frozen=True, slots=True)
class ExtractorItem:
    """A criterion with a verifier: the model only extracts the response's value.

    Raises:
        ValueError: `verifier` is not the name of a verifier.
    """

    criterion: str
    verifier: str
    """Name of the verifier."""

    def __post_init__(self) -> None:
        if self.verifier not in VERIFIERS:
            raise ValueError(
                f"{self.criterion!r}: an extractor is shown a verifier's name, one of {', '.join(VERIFIERS)}"
            )


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """A criterion for which the model gives credit.

    Raises:
        ValueError: `reference` is a verifier call, which would reveal a target.
    """

    criterion: str
    reference: str
    """Ground truth in words."""

    def __post_init__(self) -> None:
        if _is_call(self.reference):
            raise ValueError(f"{self.criterion!r}: the reference is a verifier's call; a judge reads words")


@dataclass(frozen=True, slots=True)
class TargetItem:
    """Ablation: a criterion with a verifier and a visible target."""

    criterion: str
    call: str
    """Verifier call of the rubric, such as `expr_verify(target='4')`."""

    @property
    def verifier(self) -> str:
        return parse_verifier_call(self.call).name


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """Default request: text only, and for each criterion only what its path needs."""

    question: str
    response: str
    essential: tuple[ExtractorItem | JudgeItem, ...]
    additional: tuple[ExtractorItem | JudgeItem, ...]


@dataclass(frozen=True, slots=True)
class RequestWithImage:
    """Ablation: the default request with the sample's images, for both paths."""

    request: ScoringRequest
    images: tuple[bytes, ...]
    """PNG or JPEG, mostly one."""


@dataclass(frozen=True, slots=True)
class RequestWithTargets:
    """Ablation: the extractor sees the targets."""

    question: str
    response: str
    essential: tuple[TargetItem | JudgeItem, ...]
    additional: tuple[TargetItem | JudgeItem, ...]


@dataclass(frozen=True, slots=True)
class RequestWithoutVerifiers:
    """Ablation: every criterion is judged, and the targets are ground truth in words."""

    question: str
    response: str
    essential: tuple[JudgeItem, ...]
    additional: tuple[JudgeItem, ...]


AnyItem = ExtractorItem | JudgeItem | TargetItem
AnyRequest = ScoringRequest | RequestWithImage | RequestWithTargets | RequestWithoutVerifiers
_Item = TypeVar("_Item")


def scoring_request(sample: "Sample", response: str | Response, rubric: Rubric) -> ScoringRequest:
    """Build the default request. The question is the sample's question, or its prompt if it has none.

    Raises:
        UserError: the response is an image.
    """
    return ScoringRequest(_question(sample), _text(sample, response), *_split_items(rubric, _minimal_item))


def request_with_exposure(sample: "Sample", response: str | Response, rubric: Rubric, exposure: Exposure) -> AnyRequest:
    """Build the request for an exposure.

    Raises:
        UserError: the response is an image, or `exposure` is image, and the sample has none.
    """
    match exposure:
        case "text":
            return scoring_request(sample, response, rubric)
        case "image":
            images = sample.require_images("exposure is 'image'")
            return RequestWithImage(scoring_request(sample, response, rubric), images)
        case "targets":
            return RequestWithTargets(_question(sample), _text(sample, response), *_split_items(rubric, _target_item))
        case "unverified":
            items = _split_items(rubric, _words_item)
            return RequestWithoutVerifiers(_question(sample), _text(sample, response), *items)


def items_of(request: AnyRequest) -> tuple[tuple[AnyItem, ...], tuple[AnyItem, ...]]:
    """Essential and additional items of a request."""
    text_request = request.request if isinstance(request, RequestWithImage) else request
    return text_request.essential, text_request.additional


def verifier_of(item: AnyItem) -> str | None:
    """Name of the verifier that checks an item, or None if a model judges it."""
    return None if isinstance(item, JudgeItem) else item.verifier


def _question(sample: "Sample") -> str:
    return sample.question or sample.prompt


def _text(sample: "Sample", response: str | Response) -> str:
    text = Response.of(response).text
    if text is None:
        raise UserError(
            f"sample {sample.label}: its rubric is a checklist, whose extractor and judge read text, and the "
            "response is an image; give its criteria without references"
        )
    return text


def _split_items(
    rubric: Rubric, make_item: Callable[[Criterion], _Item]
) -> tuple[tuple[_Item, ...], tuple[_Item, ...]]:
    essential, additional = (
        tuple(make_item(criterion) for criterion in rubric.criteria if criterion.essential is group)
        for group in (True, False)
    )
    return essential, additional


def _minimal_item(criterion: Criterion) -> ExtractorItem | JudgeItem:
    name = criterion.verifier
    return _judge_item(criterion) if name is None else ExtractorItem(criterion.criterion, name)


def _target_item(criterion: Criterion) -> TargetItem | JudgeItem:
    return (
        _judge_item(criterion) if criterion.verifier is None else TargetItem(criterion.criterion, criterion.reference)
    )


def _words_item(criterion: Criterion) -> JudgeItem:
    if criterion.verifier is None:
        return _judge_item(criterion)
    return JudgeItem(criterion.criterion, describe_target(criterion.reference))


def _judge_item(criterion: Criterion) -> JudgeItem:
    """Item for the judge; a criterion without a reference is judged by its description and rule."""
    rule = "\n".join(filter(None, (criterion.description, criterion.evaluation_rule)))
    return JudgeItem(criterion.criterion, criterion.reference or rule)


def describe_target(reference: str) -> str:
    """Describe the target of a verifier call in words."""
    arguments = parse_verifier_call(reference).arguments
    if (candidates := arguments.get("candidates")) is not None:
        options = candidates if isinstance(candidates, tuple) else (candidates,)
        words = f"one of: {' | '.join(map(_to_text, options))}"
    else:
        words = _to_text(arguments.get("target"))
    if "tformat" in arguments:
        words += f" (written as {_to_text(arguments['tformat'])})"
    if arguments.get("ignore_case") is True:
        words += " (in upper or lower case)"
    return words


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_call(text: str) -> bool:
    try:
        parse_verifier_call(text)
    except ValueError:
        return False
    return True
