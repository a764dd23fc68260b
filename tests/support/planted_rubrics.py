"""Rubrics of scenes, some with a planted fault: what an audit has to find is known, because it was put there.

Each scene has captions by the five teachers; the strict writer writes a rubric from them, with its guards. A fault is
put into one criterion, or into the rubric as a whole: written by the lenient writer without guards, which listing
guesses satisfies; generic, so that any scene's caption meets it; or with those criteria alone that half a caption
meets. Each fault has six wordings: rules that read a criterion's text were written against the first, and changed after
what they missed of the second, of the third and of the fourth; the fifth was written after their last change. The sixth
was written after a judge reads the text instead, and nothing was changed for it: its frames are those of criteria in
ResearchRubrics, ResearcherBench and RiceChem, as they stand in the examples of github.com/delip/autorubric.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import make_probes
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.writer import WriterTask, write_rubric
from rubricworks.world.scene.rules import holds, parse_rule
from rubricworks.world.scene.scene import COLOURS, generate_scenes

FAULTS = (
    "compound",
    "overlaps",
    "contradicts",
    "always met",
    "never met",
    "leaks",
    "parroted",
    "presence only",
    "not about it",
    "indifferent",
)
OF_RUBRICS = ("presence only", "not about it", "indifferent")
"""Faults of a rubric as a whole."""


Wording = Literal["first", "second", "third", "fourth", "fifth", "sixth"]


class _Phrases(NamedTuple):
    """Frames of a wording, each with a place for what is asked."""

    leaks: tuple[str, ...]
    compound: tuple[str, ...]
    parroted: tuple[str, ...]
    overlaps: tuple[str, ...]
    contradicts: tuple[str, ...]


_PHRASES = {
    "second": _Phrases(
        leaks=("The reference reads: {}", "As the best answer puts it, {}", "Expected text: {}"),
        compound=("{}; {}", "{}, and also {}", "{}. It also {}", "Both {} and {}", "{}, and it {}", "{} while it {}"),
        parroted=(
            *("Comments on {}", "Goes into {}", "Gives an account of {}", "Talks about {}"),
            *("Clarifies {}", "Examines {}"),
        ),
        overlaps=("It can be read from the caption that {}", "Makes clear: {}", "A reader learns of {}"),
        contradicts=("Calls it: {}", "Has it that {}", "Makes out that {}"),
    ),
    "third": _Phrases(
        leaks=("Should come close to: {}", "Model answer: {}", "(Gold: {})"),
        compound=(
            *("{}, in addition to which it {}", "{} - and {}", "{}, then {}", "Not only {} but {}"),
            *("{}. The caption further {}", "{}, besides which it {}"),
        ),
        parroted=(
            *("Deals with {}", "Sheds light on {}", "Pays attention to {}", "Dwells on {}"),
            *("Is informative about {}", "Treats {} in depth"),
        ),
        overlaps=("Leaves no doubt that {}", "Tells the reader: {}", "Whoever reads it knows {}"),
        contradicts=("Claims {}", "Would have us believe: {}", "Shows {}"),
    ),
    "fourth": _Phrases(
        leaks=("A full answer is: {}", "{} (as in the key)", "Compare: {}"),
        compound=(
            *("{}, on top of which it {}", "{} and, secondly, {}", "It {} as well as it {}", "{} / {}"),
            *("{}. In the same text it {}", "{}, not forgetting that it {}"),
        ),
        parroted=(
            *("Gets to grips with {}", "Puts {} in context", "Devotes a sentence to {}", "Brings up {}"),
            *("Makes sense of {}", "Has something on {}"),
        ),
        overlaps=("One finds in it that {}", "Conveys the following: {}", "The text has {}"),
        contradicts=("Insists on {}", "Paints it thus: {}", "The text has {}"),
    ),
    "fifth": _Phrases(
        leaks=("An ideal completion would be: {}", "Justification: the expert wrote {}", "For example: {}"),
        compound=(
            *("Meets two conditions: it {}, it {}", "{}, with attention to whether it {}", "{}. Additionally, {}"),
            *("Besides the fact that it {}, it {}", "{}, all the while making sure that it {}", "{} (and {})"),
        ),
        parroted=(
            *("Demonstrates an understanding of {}", "Acknowledges {}", "Provides adequate coverage of {}"),
            *("There is some treatment of {}", "Is sensitive to {}", "Contains a section on {}"),
        ),
        overlaps=("Correctly establishes that {}", "The completion has {}", "As to content: {}"),
        contradicts=("Asserts {}", "Has the reader believe {}", "The completion has {}"),
    ),
    "sixth": _Phrases(
        leaks=("(e.g., {})", "(i.e., {})", "Explaining sentence 1: {}"),
        compound=(
            *("The response {} and {} (e.g., in one sentence).", "{} while acknowledging what else it {}"),
            *("The response both {} and clearly {}.", "{}, including a statement that {}"),
            *("The response {} and offers more in that it {}.", "FULLY {}, addressing too that it {}"),
        ),
        parroted=(
            *("The response evaluates {}.", "Emphasizes the role of {}", "Discusses the value of {}"),
            *("The response includes rationales for {}.", "The response articulates {}.", "PARTIALLY explains {}"),
        ),
        overlaps=("Correctly states that {}", "The response notes {}.", "The response accurately gives {}."),
        contradicts=("The response posits {}.", "The response notes {}.", "Correctly states that {}"),
    ),
}


class PlantedRubric(NamedTuple):
    entry: RubricEntry
    captions: list[str]
    """The teachers', the most accurate first."""
    fault: str
    """Name of the fault, or "" without one."""
    title: str
    """Criterion that was put there; empty if the fault is the rubric's, or there is none."""


def planted_rubrics(
    count: int, *, seed: int = 0, clean: float = 0.4, wording: Wording = "first"
) -> list[PlantedRubric]:
    """Rubrics of `count` scenes, a share of them without a fault."""
    rng = random.Random(seed)
    scenes = generate_scenes(seed, count)
    return [_planted(scene, f"scene-{at}", rng, clean, wording) for at, scene in enumerate(scenes)]


def _planted(scene, name: str, rng: random.Random, clean: float, wording: Wording) -> PlantedRubric:
    captions = {model: teacher_caption(model, scene, name) for model in TEACHERS}
    fault = "" if rng.random() < clean else rng.choice(FAULTS)
    lenient = fault == "presence only"
    task = WriterTask((), captions, threshold=3, coverage="full", guards=not lenient)
    written = [_criterion(fields) for fields in write_rubric(task, lenient=lenient)]
    faulty, title = written, ""
    if fault == "not about it":
        faulty = [_generic(count, wording) for count in (1, 2)]
    elif fault == "indifferent":
        faulty = _met_by_half(written, next(iter(captions.values())))
    elif fault and not lenient:
        caption = next(iter(captions.values()))
        phrases = _PHRASES.get(wording)
        if phrases is None:
            faulty, title = plant(written, fault, rng, caption)
        else:
            faulty, title = _plant_in_other_words(written, fault, rng, caption, phrases)
    entry = RubricEntry(name, Rubric(criteria=tuple(faulty)))
    return PlantedRubric(entry, list(captions.values()), fault, title)


def _criterion(fields) -> Criterion:
    return Criterion(**{**fields, "reference_teachers": tuple(fields["reference_teachers"])})


def _generic(count: int, wording: Wording) -> Criterion:
    rule = f"Passes if the caption says that there are {count} objects or names at least {count}. Fails otherwise."
    title = f"Names {count} or more objects" if wording == "first" else f"At least {count} of what is seen is mentioned"
    return Criterion(criterion=title, evaluation_rule=rule, weight=2)


def _met_by_half(criteria: Sequence[Criterion], caption: str) -> list[Criterion]:
    """Criteria that the first half of a caption meets as the whole does, all if there are not two."""
    half = next(
        probe.text for probe in make_probes(Rubric(criteria=tuple(criteria)), [caption], [""]) if probe.kind == "half"
    )
    rules = [(criterion, parse_rule(criterion.evaluation_rule)) for criterion in criteria]
    met = [criterion for criterion, rule in rules if rule and holds(rule, half) and holds(rule, caption)]
    return met if sum(criterion.weight > 0 for criterion in met) > 1 else list(criteria)


def plant(criteria: Sequence[Criterion], fault: str, rng: random.Random, caption: str) -> tuple[list[Criterion], str]:
    """Criteria with one fault more, and the title of the one that has it.

    Args:
        caption: the best response, which a leak quotes.
    """
    if fault == "leaks":
        sentence = rng.choice(_sentences(caption))
        return _in_place(criteria, rng.choice(criteria), {"criterion": f'Says "{sentence}"'})
    named = [
        criterion for criterion in criteria if criterion.criterion.startswith(("Names the ", "Says that the object"))
    ]
    coloured = [criterion for criterion in criteria if criterion.criterion.split()[-1] in COLOURS]
    chosen = rng.choice(coloured if fault == "contradicts" and coloured else named or list(criteria))
    title = chosen.criterion
    if fault == "compound":
        other = rng.choice([criterion for criterion in criteria if criterion is not chosen])
        joined = f"{title} and {_lower(other.criterion)}"
        return _in_place(criteria, chosen, {"criterion": joined})
    if fault == "parroted":
        act = f"Describes {title.removeprefix('Names ').removeprefix('Says that ')}"
        return _in_place(criteria, chosen, {"criterion": act})
    if fault == "overlaps":
        made = chosen.model_copy(update={"criterion": f"{title}, as it is seen"})
    elif fault == "contradicts":
        colour = title.split()[-1]
        other_colour = rng.choice([name for name in COLOURS if name != colour]) if coloured else "another"
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


def _plant_in_other_words(
    criteria: Sequence[Criterion], fault: str, rng: random.Random, caption: str, phrases: _Phrases
) -> tuple[list[Criterion], str]:
    """`plant` in another wording: other verbs and joints, and rules that end otherwise."""
    named = [
        criterion for criterion in criteria if criterion.criterion.startswith(("Names the ", "Says that the object"))
    ]
    coloured = [criterion for criterion in criteria if criterion.criterion.split()[-1] in COLOURS]
    chosen = rng.choice(coloured if fault == "contradicts" and coloured else named or list(criteria))
    stem = chosen.criterion.removeprefix("Names ").removeprefix("Says that ")
    rule = f"{chosen.evaluation_rule.partition('. ')[0]}. Otherwise the caption fails."
    if fault == "leaks":
        quoted = rng.choice([" ".join(_sentences(caption)[:2]), _sentences(caption)[-1]])
        return _in_place(criteria, chosen, {"description": rng.choice(phrases.leaks).format(quoted)})
    if fault == "compound":
        other = _lower(rng.choice([criterion for criterion in criteria if criterion is not chosen]).criterion)
        joint = rng.choice(phrases.compound)
        first = chosen.criterion if joint.startswith("{") else _lower(chosen.criterion)
        return _in_place(criteria, chosen, {"criterion": joint.format(first, other)})
    if fault == "parroted":
        return _in_place(criteria, chosen, {"criterion": rng.choice(phrases.parroted).format(stem)})
    if fault == "overlaps":
        told = rng.choice(phrases.overlaps)
        fields = {"criterion": told.format(stem), "evaluation_rule": rule, "description": ""}
        made = chosen.model_copy(update=fields)
    elif fault == "contradicts":
        colour = chosen.criterion.split()[-1]
        other_colour = rng.choice([name for name in COLOURS if name != colour]) if coloured else "another"
        told = rng.choice(phrases.contradicts)
        fields = {
            "criterion": told.format(stem.replace(colour, other_colour)),
            "evaluation_rule": rule.replace(f"is {colour}", f"is {other_colour}"),
            "description": "",
        }
        made = chosen.model_copy(update=fields)
    elif fault == "always met":
        rule = "Passes if the caption says that there are 0 objects or names at least 0. No caption fails."
        title = rng.choice(("Is a caption of the picture", "Says what it says", "Is written in words"))
        made = Criterion(criterion=title, evaluation_rule=rule, weight=1)
    else:
        asked = rng.choice(("the name of the camera", "what stood there the day before", "the price of the print"))
        made = Criterion(criterion=f"Tells {asked}", evaluation_rule=f"The caption has to tell {asked}.", weight=3)
    return [*criteria, made], made.criterion


def _in_place(criteria: Sequence[Criterion], chosen: Criterion, update: dict[str, str]) -> tuple[list[Criterion], str]:
    made = chosen.model_copy(update=update)
    return [made if criterion is chosen else criterion for criterion in criteria], made.criterion


def _sentences(caption: str) -> list[str]:
    return [part.strip() for part in caption.split(" .") if part.strip()]


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]
