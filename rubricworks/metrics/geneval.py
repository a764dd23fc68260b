"""GenEval: detected objects of a generated image against its prompt's requirements (djghosh13/geneval).

`metadata` of a prompt holds `include`, the required objects, and optionally `exclude`, objects that are too many. An
entry has `class` and `count`; a required one may have `color`, and `position`, a relation and the number of an earlier
entry. `detections` holds, for each class, the objects found in the image, the most confident first: mappings with
`box`, [x1, y1, x2, y2] with or without the confidence behind, and `color`, needed where the prompt asks for one.
`confident_detections` applies the official thresholds, which depend on the prompt's task; the rules take what is left.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Box = Sequence[float]
Metadata = Mapping[str, Any]
Detection = Mapping[str, Any]

COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
"""Colours that a detection may have, in the order of the reasons."""

_CONFIDENCE, _COUNTING_CONFIDENCE = 0.3, 0.9
"""Confidence that a detection must exceed, and that it must where objects are counted."""
_MAX_OBJECTS = 16
"""Most objects of a class in an image."""
_POSITION_THRESHOLD = 0.1
"""Share of both objects' sizes that their centres' distance must exceed."""
_NO_OFFSET = 1e-3


def confident_detections(
    metadata: Metadata, detections: Mapping[str, Sequence[Detection]]
) -> dict[str, list[Detection]]:
    """Detections that GenEval counts: above 0.9 for prompts that count (`tag`), else above 0.3; at most 16 of a class.

    A box without a confidence is certain. Each class is sorted, the most confident first.
    """
    threshold = _COUNTING_CONFIDENCE if metadata.get("tag") == "counting" else _CONFIDENCE
    confident: dict[str, list[Detection]] = {}
    for name, objects in detections.items():
        certain = [detection for detection in objects if _confidence(detection) > threshold]
        if certain:
            confident[name] = sorted(certain, key=_confidence, reverse=True)[:_MAX_OBJECTS]
    return confident


def _confidence(detection: Detection) -> float:
    box = detection["box"]
    return float(box[4]) if len(box) > 4 else 1.0


def geneval_correct(metadata: Metadata, detections: Mapping[str, Sequence[Detection]]) -> tuple[bool, list[str]]:
    """Check one image against its prompt.

    Colour and position are checked on the first `count` objects of a class. `include` asks for at least `count`
    objects; an upper limit comes from `exclude` alone, which fails from `count` objects on.

    Returns:
        True if nothing fails; and the words of all reasons in alphabetical order, as the conformance cases hold them,
        since the reference code leaves the order of relations in a reason open. `geneval_reasons` has the sentences.
    Raises:
        ValueError: a position refers to no earlier entry, or a detection lacks a colour that the prompt asks for.
    """
    reasons = geneval_reasons(metadata, detections)
    return not reasons, sorted(word for reason in reasons for word in reason.split())


def geneval_reasons(metadata: Metadata, detections: Mapping[str, Sequence[Detection]]) -> list[str]:
    """Reasons why an image does not show its prompt, one sentence each; empty for a correct image.

    Args and errors are those of `geneval_correct`.
    """
    reasons: list[str] = []
    groups: list[Sequence[Detection] | None] = []  # objects of each entry of `include`, None where it fails
    for entry in metadata.get("include", ()):
        objects = detections.get(entry["class"], ())[: entry["count"]]
        reason = _inclusion_failure(entry, objects, groups)
        groups.append(None if reason else objects)
        if reason:
            reasons.append(reason)
    for entry in metadata.get("exclude", ()):
        number = len(detections.get(entry["class"], ()))
        if number >= entry["count"]:
            reasons.append(f"expected {entry['class']}<{entry['count']}, found {number}")
    return reasons


def _inclusion_failure(
    entry: Metadata, objects: Sequence[Detection], groups: Sequence[Sequence[Detection] | None]
) -> str | None:
    name, count = entry["class"], entry["count"]
    if len(objects) < count:
        return f"expected {name}>={count}, found {len(objects)}"
    if "color" in entry:
        if any("color" not in detection for detection in objects):
            raise ValueError(f"the prompt asks for the colour of {name}, and a detection of it has no color")
        color, colors = entry["color"], [detection["color"] for detection in objects]
        if colors.count(color) < count:
            others = ", ".join(f"{colors.count(other)} {other}" for other in COLORS if other in colors)
            return f"expected {color} {name}>={count}, found {colors.count(color)} {color}; and {others}"
    if "position" not in entry:
        return None
    relation, target = entry["position"]
    if not 0 <= target < len(groups):
        raise ValueError(f"the position of {name} refers to entry {target}; {len(groups)} come before it")
    targets = groups[target]
    if targets is None:
        return f"no target for {name} to be {relation}"
    for detection in objects:
        for other in targets:
            relations = relative_position(detection["box"], other["box"])
            if relation not in relations:
                return f"expected {name} {relation} target, found {' and '.join(relations)} target"
    return None


def relative_position(a: Box, b: Box) -> list[str]:
    """Relations of box a to box b, of "above", "below", "left of" and "right of", in alphabetical order.

    The distance of the centres is reduced by a tenth of both sizes in each direction, and a direction counts if what
    is left is more than half of the distance.

    Args:
        a, b: [x1, y1, x2, y2]; numbers behind these are ignored. y grows downwards.
    """
    (center_a, size_a), (center_b, size_b) = _center_and_size(a), _center_and_size(b)
    offset = [first - second for first, second in zip(center_a, center_b, strict=True)]
    reach = [
        math.copysign(max(abs(distance) - _POSITION_THRESHOLD * (first + second), 0.0), distance)
        for distance, first, second in zip(offset, size_a, size_b, strict=True)
    ]
    if all(abs(distance) < _NO_OFFSET for distance in reach):
        return []
    length = math.sqrt(sum(distance**2 for distance in offset))
    dx, dy = (distance / length for distance in reach)
    relations = {"above": dy < -0.5, "below": dy > 0.5, "left of": dx < -0.5, "right of": dx > 0.5}
    return [relation for relation, holds in relations.items() if holds]


def box_iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes in whole pixels: a side is x2 - x1 + 1 long.

    Args:
        a, b: [x1, y1, x2, y2]; numbers behind these are ignored.
    """
    common = _area([max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])])
    union = _area(a) + _area(b) - common
    return common / union if union else 0.0


def geneval_summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """GenEval's figures over many images.

    Args:
        rows: one per image, with `tag` (the task), `correct`, and the prompt's `metadata` (its JSON text, or any other
            text that tells prompts apart).
    Returns:
        `overall`, the unweighted mean over tasks; each task → share of correct images, in order of first appearance;
        `images` and `prompts`, their numbers; `correct_images`, the share of correct ones; `correct_prompts`, the share
        of prompts with at least one correct image.
    Raises:
        ValueError: there is no row.
    """
    tasks: dict[str, list[bool]] = defaultdict(list)
    prompts: dict[str, bool] = {}
    for row in rows:
        tasks[row["tag"]].append(bool(row["correct"]))
        prompts[row["metadata"]] = prompts.get(row["metadata"], False) or bool(row["correct"])
    if not tasks:
        raise ValueError("there is no image to summarize")
    shares = {task: sum(row) / len(row) for task, row in tasks.items()}
    images = [correct for row in tasks.values() for correct in row]
    return {
        "overall": sum(shares.values()) / len(shares),
        **shares,
        "images": len(images),
        "prompts": len(prompts),
        "correct_images": sum(images) / len(images),
        "correct_prompts": sum(prompts.values()) / len(prompts),
    }


def _center_and_size(box: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    x1, y1, x2, y2 = box[:4]
    return ((x1 + x2) / 2, (y1 + y2) / 2), (abs(x2 - x1), abs(y2 - y1))


def _area(box: Box) -> float:
    return max(box[2] - box[0] + 1, 0.0) * max(box[3] - box[1] + 1, 0.0)
