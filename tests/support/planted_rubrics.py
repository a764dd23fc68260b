"""Rubrics of scenes, some with a planted fault: what an audit has to find is known, because it was put there.

Each scene has captions by the five teachers; the strict writer writes a rubric from them, with its guards. A fault is
put into one criterion, or the rubric is written by the lenient writer without guards, which listing guesses satisfies.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.writer import WriterTask, write_rubric
from rubricworks.world.scene.scene import COLOURS, generate_scenes

FAULTS = ("compound", "overlaps", "contradicts", "always met", "never met", "presence only")


class PlantedRubric(NamedTuple):
    entry: RubricEntry
    captions: list[str]
    """The teachers', the most accurate first."""
    fault: str
    """Name of the fault, or "" without one."""
    title: str
    """Criterion that was put there; empty if the fault is the rubric's, or there is none."""


def planted_rubrics(count: int, *, seed: int = 0, clean: float = 0.4) -> list[PlantedRubric]:
    """Rubrics of `count` scenes, a share of them without a fault."""
    rng = random.Random(seed)
    return [_planted(scene, f"scene-{at}", rng, clean) for at, scene in enumerate(generate_scenes(seed, count))]


def _planted(scene, name: str, rng: random.Random, clean: float) -> PlantedRubric:
    captions = {model: teacher_caption(model, scene, name) for model in TEACHERS}
    fault = "" if rng.random() < clean else rng.choice(FAULTS)
    lenient = fault == "presence only"
    task = WriterTask((), captions, threshold=3, coverage="full", guards=not lenient)
    written = [_criterion(fields) for fields in write_rubric(task, lenient=lenient)]
    faulty, title = (written, "") if lenient or not fault else plant(written, fault, rng)
    entry = RubricEntry(name, Rubric(criteria=tuple(faulty)))
    return PlantedRubric(entry, list(captions.values()), fault, title)


def _criterion(fields) -> Criterion:
    return Criterion(**{**fields, "reference_teachers": tuple(fields["reference_teachers"])})


def plant(criteria: Sequence[Criterion], fault: str, rng: random.Random) -> tuple[list[Criterion], str]:
    """Criteria with one fault more, and the title of the one that has it."""
    named = [one for one in criteria if one.criterion.startswith(("Names the ", "Says that the object"))]
    coloured = [one for one in criteria if one.criterion.split()[-1] in COLOURS]
    chosen = rng.choice(coloured if fault == "contradicts" and coloured else named or list(criteria))
    title = chosen.criterion
    if fault == "compound":
        other = rng.choice([one for one in criteria if one is not chosen])
        joined = f"{title} and {other.criterion[0].lower()}{other.criterion[1:]}"
        made = chosen.model_copy(update={"criterion": joined})
        return [made if one is chosen else one for one in criteria], joined
    if fault == "overlaps":
        made = chosen.model_copy(update={"criterion": f"{title}, as it is seen"})
    elif fault == "contradicts":
        colour = title.split()[-1]
        other_colour = rng.choice([one for one in COLOURS if one != colour]) if coloured else "another"
        rule = chosen.evaluation_rule.replace(f"is {colour}", f"is {other_colour}")
        made = chosen.model_copy(
            update={"criterion": title.replace(colour, other_colour), "evaluation_rule": rule, "description": ""}
        )
    elif fault == "always met":
        rule = "Passes if the caption says that there are 0 objects or names at least 0. Fails otherwise."
        made = Criterion(criterion="Names any number of objects", evaluation_rule=rule, weight=2)
    else:
        rule = "Passes if the caption conveys the photographer's mood on that day. Fails otherwise."
        made = Criterion(criterion="Conveys the mood of the photographer", evaluation_rule=rule, weight=2)
    return [*criteria, made], made.criterion
