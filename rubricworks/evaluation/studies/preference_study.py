"""Preferences among images of several models, without their names (RubricRL, section 4.3 and appendix C).

top      the best image of all models for a prompt
pairs    the better of two models' images, or equal; each pair of models equally often
within   the better of two images of one model, or equal: how well its reward agrees with people

Images stand in a random order. Which model made which is in the key, which the page does not hold.
"""

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.errors import UserError
from rubricworks.evaluation.studies.label_file import choice, read_label_file
from rubricworks.metrics import Interval, mean_interval
from rubricworks.reports.samples import draw_samples, sample_rows
from rubricworks.reports.scores import STAGE, scored_ids, scored_responses

Protocol = Literal["top", "pairs", "within"]
COLUMNS = ("task", "prompt", "choice")
EQUAL = "equal"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Candidate(NamedTuple):
    """An image that may be shown."""

    model: str
    digest: str
    image: bytes
    reward: float | None
    """By rubric, in the run's evaluation; within one model, by its run's own reward. None if it was not judged."""


class PreferenceTask(NamedTuple):
    """Images for one prompt, in the order in which they are shown."""

    task: str
    prompt: str
    images: tuple[Candidate, ...]


class ModelShare(BaseModel, extra="forbid", frozen=True):
    """One model's result."""

    model: str
    share: Interval | None
    """Share of its tasks that it won; an equal pair counts one half. None within one model."""
    agreement: Interval | None
    """Share of pairs in which its reward and people prefer the same image, among pairs in which both prefer one."""


class Preferences(BaseModel, extra="forbid", frozen=True):
    """Result of a study."""

    protocol: Protocol
    answers: int
    raters: int
    equal: Interval | None
    """Share of the pairs that people called equal."""
    models: tuple[ModelShare, ...]
    agreement: Interval | None
    """Share of all answers in which the preferred image has the highest reward, where rewards differ."""


def read_candidates(
    sources: Mapping[str, tuple[Path, str]], *, decoding: str = "sampled"
) -> dict[str, dict[str, list[Candidate]]]:
    """Read prompt → model's name → images.

    Args:
        sources: name in the study → run and its model.
    Raises:
        UserError: a run has no images of the model.
    """
    by_prompt: dict[str, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for name, (run, model) in sources.items():
        ids = scored_ids(run, model)
        prompts = sample_rows(run / "prepare_prompts", set(ids), ["prompt"])
        images = ResponseImages(run / STAGE / "responses" / IMAGES)
        answered = 0
        for (sample_id, of), response in scored_responses(run, ids, decoding=decoding).items():
            if of != model or not response.response.is_image or sample_id not in prompts:
                continue
            image = images.read(response.response).image or b""
            candidate = Candidate(name, response.response.digest, image, response.values.get("rubric_reward"))
            by_prompt[prompts[sample_id]["prompt"]][name].append(candidate)
            answered += 1
        if not answered:
            raise UserError(f"{run}: the evaluation has no images of {model}; name another as NAME=RUN:MODEL")
    return by_prompt


def preference_tasks(
    candidates: Mapping[str, Mapping[str, Sequence[Candidate]]], protocol: Protocol, count: int, *, seed: int
) -> list[PreferenceTask]:
    """Draw tasks, each of another prompt unless there are fewer prompts, with the images in a random order.

    Raises:
        UserError: no prompt has images enough.
    """
    names = list(dict.fromkeys(name for by_model in candidates.values() for name in by_model))
    rng = random.Random(f"preferences {protocol} {seed}")
    enough = {
        "top": lambda by_model: len(names) > 1 and all(by_model.get(name) for name in names),
        "pairs": lambda by_model: sum(bool(images) for images in by_model.values()) > 1,
        "within": lambda by_model: any(len(images) > 1 for images in by_model.values()),
    }[protocol]
    usable = [prompt for prompt, by_model in candidates.items() if enough(by_model)]
    if not usable:
        needs = "two images of one model" if protocol == "within" else "images of two models"
        raise UserError(f"no prompt has {needs}, which the protocol {protocol} shows beside each other")
    pairs = list(itertools.combinations(names, 2))
    tasks = []
    for number, prompt in enumerate(draw_samples(usable, count, seed), start=1):
        by_model = candidates[prompt]
        if protocol == "top":
            shown = [rng.choice(by_model[name]) for name in names]
        elif protocol == "pairs":
            # In turn, so that each pair of models comes equally often.
            present = [pair for pair in pairs if all(by_model.get(name) for name in pair)]
            shown = [rng.choice(by_model[name]) for name in present[number % len(present)]]
        else:
            several = [name for name in names if len(by_model.get(name, ())) > 1]
            shown = rng.sample(list(by_model[several[number % len(several)]]), 2)
        rng.shuffle(shown)
        tasks.append(PreferenceTask(f"task-{number:03d}", prompt, tuple(shown)))
    return tasks


def write_key(path: Path, tasks: Sequence[PreferenceTask], protocol: Protocol) -> None:
    """Write which model made which image, with its reward."""
    shown = {task.task: [[image.model, image.digest, image.reward] for image in task.images] for task in tasks}
    path.write_text(json.dumps({"kind": "preferences", "protocol": protocol, "tasks": shown}), encoding="utf-8")


def preferences(labels: Path, key: Path) -> Preferences:
    """Compute the results from a filled-in file; a task that a person left empty does not count.

    Raises:
        UserError: a choice is none of the letters shown, a task is none of the study's, or nothing is filled in.
    """
    content = json.loads(key.read_text(encoding="utf-8"))
    protocol: Protocol = content["protocol"]
    wins: dict[str, list[float | None]] = defaultdict(list)
    clusters: dict[str, list[str]] = defaultdict(list)
    agreements: dict[str, list[float | None]] = defaultdict(list)
    agreeing: dict[str, list[str]] = defaultdict(list)
    equals: list[float | None] = []
    tasks: list[str] = []
    raters = set()
    for row in read_label_file(labels, COLUMNS):
        shown = content["tasks"].get(row["task"])
        if shown is None:
            raise UserError(f"{labels}: line {row['line']}: {row['task']!r} is no task of the study {key.parent}")
        letters = {letter.lower(): float(at) for at, letter in enumerate(LETTERS[: len(shown)])}
        picked = choice(labels, row, "choice", letters if protocol == "top" else {**letters, EQUAL: -1.0})
        if picked is None:
            continue
        tasks.append(row["task"])
        raters.add(row["rater"])
        equals.append(float(picked < 0))
        for at, (model, _, _) in enumerate(shown):
            if protocol != "within":
                wins[model].append(0.5 if picked < 0 else float(at == picked))
                clusters[model].append(row["task"])
        rewards = [reward for *_, reward in shown]
        if picked < 0 or None in rewards or rewards.count(max(rewards)) != 1:
            continue
        agrees = float(rewards.index(max(rewards)) == picked)
        for model in {"", *(model for model, *_ in shown if protocol == "within")}:
            agreements[model].append(agrees)
            agreeing[model].append(row["task"])
    if not tasks:
        raise UserError(f"{labels}: nothing is filled in; write a letter in choice")

    def share(values: list[float | None], of: list[str]) -> Interval | None:
        return mean_interval(values, clusters=of) if values else None

    names = sorted({model for shown in content["tasks"].values() for model, *_ in shown})
    models = []
    for name in names:
        won, agreed = share(wins[name], clusters[name]), share(agreements[name], agreeing[name])
        if won or agreed:
            models.append(ModelShare(model=name, share=won, agreement=agreed))
    return Preferences(
        protocol=protocol,
        answers=len(tasks),
        raters=len(raters),
        equal=None if protocol == "top" else share(equals, tasks),
        models=tuple(models),
        agreement=share(agreements[""], agreeing[""]),
    )
