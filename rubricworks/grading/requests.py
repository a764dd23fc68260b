"""What one scoring call may show: RLR³'s minimal exposure (section 4.2), as types.

An extractor that sees the target copies it, and a judge that sees the image answers by itself. So the request of the
default has no field for either: what does not fit the type cannot reach a prompt. Each ablation (section 5.5) shows
what it shows through a type of its own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.calls import SIGNATURES

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

Exposure = Literal["text", "image", "targets", "unverified"]
"""What a judge sees of a sample beside the response. For a rubric with references:

text        question, criteria, names of verifiers, ground truth of fuzzy criteria: the default.
image       the image as well (VLM-as-a-Judge).
targets     the verifiers' targets as well (unlimited exposure).
unverified  no verifier: targets become ground truth in words, which the judge gives credit by.

A rubric without references is shown whole, as RubiCap does, and only `image` adds to it.
"""


@dataclass(frozen=True, slots=True)
class ExtractorItem:
    """A criterion that a verifier checks: the model says what the response gives, nothing more.

    Raises:
        ValueError: `verifier` is not the bare name of one.
    """

    criterion: str
    verifier: str
    """Its name."""

    def __post_init__(self) -> None:
        if self.verifier not in SIGNATURES:
            raise ValueError(
                f"{self.criterion!r}: an extractor is shown a verifier's name, one of {', '.join(SIGNATURES)}"
            )


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """A criterion that the model gives credit for.

    Raises:
        ValueError: `reference` is a verifier's call, which would show a target.
    """

    criterion: str
    reference: str
    """The ground truth in words."""

    def __post_init__(self) -> None:
        if _is_call(self.reference):
            raise ValueError(f"{self.criterion!r}: the reference is a verifier's call; a judge reads words")


@dataclass(frozen=True, slots=True)
class TargetItem:
    """Ablation: a criterion that a verifier checks, with the target in sight."""

    criterion: str
    call: str
    """The rubric's: `expr_verify(target='4')`."""

    @property
    def verifier(self) -> str:
        return parse_verifier_call(self.call).name


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """The default: text, and of each criterion what its path needs."""

    question: str
    response: str
    essential: tuple[ExtractorItem | JudgeItem, ...]
    additional: tuple[ExtractorItem | JudgeItem, ...]


@dataclass(frozen=True, slots=True)
class ImageShown:
    """Ablation: the same with the sample's image, for both paths."""

    request: ScoringRequest
    image: bytes
    """PNG or JPEG."""


@dataclass(frozen=True, slots=True)
class TargetsShown:
    """Ablation: the extractor sees the targets."""

    question: str
    response: str
    essential: tuple[TargetItem | JudgeItem, ...]
    additional: tuple[TargetItem | JudgeItem, ...]


@dataclass(frozen=True, slots=True)
class Unverified:
    """Ablation: everything is judged, and the targets are ground truth in words."""

    question: str
    response: str
    essential: tuple[JudgeItem, ...]
    additional: tuple[JudgeItem, ...]


AnyItem = ExtractorItem | JudgeItem | TargetItem
AnyRequest = ScoringRequest | ImageShown | TargetsShown | Unverified
_Item = TypeVar("_Item")


def scoring_request(sample: "Sample", response: str, rubric: Rubric) -> ScoringRequest:
    """The request of the default. The text prompt is the sample's question, or its prompt where it has none."""
    return ScoringRequest(_question(sample), response, *_parts(rubric, _minimal))


def exposed_request(sample: "Sample", response: str, rubric: Rubric, exposure: Exposure) -> AnyRequest:
    """The request that shows what `exposure` says.

    Raises:
        UserError: the image is to be shown, and the sample has none.
    """
    match exposure:
        case "text":
            return scoring_request(sample, response, rubric)
        case "image":
            if not sample.image:
                raise UserError(f"sample {sample.sample_id}: exposure is 'image', and the sample has no image")
            return ImageShown(scoring_request(sample, response, rubric), sample.image)
        case "targets":
            return TargetsShown(_question(sample), response, *_parts(rubric, _with_target))
        case "unverified":
            return Unverified(_question(sample), response, *_parts(rubric, _in_words))


def items_of(request: AnyRequest) -> tuple[tuple[AnyItem, ...], tuple[AnyItem, ...]]:
    """Its essential and its additional criteria."""
    shown = request.request if isinstance(request, ImageShown) else request
    return shown.essential, shown.additional


def verifier_of(item: AnyItem) -> str | None:
    """The verifier that a call is wanted for; None where credit is."""
    return None if isinstance(item, JudgeItem) else item.verifier


def _question(sample: "Sample") -> str:
    return sample.question or sample.prompt


def _parts(rubric: Rubric, item: Callable[[Criterion], _Item]) -> tuple[tuple[_Item, ...], tuple[_Item, ...]]:
    essential, additional = (
        tuple(item(criterion) for criterion in rubric.criteria if criterion.essential is wanted)
        for wanted in (True, False)
    )
    return essential, additional


def _minimal(criterion: Criterion) -> ExtractorItem | JudgeItem:
    name = criterion.verifier
    return _judged(criterion) if name is None else ExtractorItem(criterion.criterion, name)


def _with_target(criterion: Criterion) -> TargetItem | JudgeItem:
    return _judged(criterion) if criterion.verifier is None else TargetItem(criterion.criterion, criterion.reference)


def _in_words(criterion: Criterion) -> JudgeItem:
    if criterion.verifier is None:
        return _judged(criterion)
    return JudgeItem(criterion.criterion, target_in_words(criterion.reference))


def _judged(criterion: Criterion) -> JudgeItem:
    """A criterion without a reference among others that have one is judged by its rule."""
    rule = "\n".join(filter(None, (criterion.description, criterion.evaluation_rule)))
    return JudgeItem(criterion.criterion, criterion.reference or rule)


def target_in_words(reference: str) -> str:
    """The target of a verifier's call as ground truth that a reader understands."""
    arguments = parse_verifier_call(reference).arguments
    if (several := arguments.get("candidates")) is not None:
        options = several if isinstance(several, tuple) else (several,)
        words = f"one of: {' | '.join(map(_plain, options))}"
    else:
        words = _plain(arguments.get("target"))
    if "tformat" in arguments:
        words += f" (written as {_plain(arguments['tformat'])})"
    if arguments.get("ignore_case") is True:
        words += " (in upper or lower case)"
    return words


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_call(text: str) -> bool:
    try:
        parse_verifier_call(text)
    except ValueError:
        return False
    return True
