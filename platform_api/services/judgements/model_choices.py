"""Two models on the same samples, blind: which response is better, and how often each model wins."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Choice, RunTable
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.schemas.judgements import ComparableModels, StandingBody
from rubricworks.platform_api.services.judgements.blind_choices import (
    MODELS,
    WHOLE,
    Comparison,
    Subject,
    choices_of_run,
    count,
    next_key,
)
from rubricworks.platform_api.services.recent_values import remember
from rubricworks.platform_api.services.runs import open_table
from rubricworks.runs.store import RunStore


class Answer(NamedTuple):
    """A model's response to a sample."""

    response: str
    response_type: str | None


class Pair(NamedTuple):
    """Two responses to a sample, in random order."""

    sample_id: str
    left: Answer
    right: Answer


async def responses(store: RunStore, table: RunTable) -> dict[str, dict[str, Answer]]:
    """Model → sample → its response; a model is named with its step and decoding."""
    return await remember(_read, (store.uri, table.run, table.path, table.modified), store, table)


async def compare_models(store: RunStore, table: RunTable, first: str, second: str) -> Comparison:
    """Two models by their names.

    Raises:
        NotFound: there is no such model.
        BadRequest: they are the same.
    """
    models = await responses(store, table)
    for name in (first, second):
        if name not in models:
            raise NotFound(f"{table.run} has no responses of {name!r}; it has those of {', '.join(models)}")
    if first == second:
        raise BadRequest("second: name another model than the first")
    both = [sample for sample in models[first] if sample in models[second]]

    def subject(sample: str) -> Subject:
        if sample not in models[first] or sample not in models[second]:
            raise NotFound(f"{first} and {second} do not both have a response to sample {sample!r}")
        return Subject(sample, "", (WHOLE,))

    return Comparison(MODELS, table.run, first, second, [both], lambda sample, _: sample, subject)


async def next_pair(
    session: AsyncSession, store: RunStore, table: RunTable, comparison: Comparison, rater: str
) -> Pair | None:
    """Next sample without this person's choice; None after the last."""
    sample = await next_key(session, comparison, rater)
    if sample is None:
        return None
    models = await responses(store, table)
    sides = [models[name][sample] for name in (comparison.first, comparison.second)]
    return Pair(sample, *(reversed(sides) if comparison.swaps(sample, rater) else sides))


async def comparable_models(session: AsyncSession, store: RunStore, table: RunTable) -> ComparableModels:
    """Models whose responses can be compared, and the results so far."""
    models = await responses(store, table)
    choices: defaultdict[tuple[str, str], list[Choice]] = defaultdict(list)
    for choice in await choices_of_run(session, MODELS, table.run):
        choices[choice.first, choice.second].append(choice)
    return ComparableModels(
        models={name: len(of_model) for name, of_model in models.items()},
        standings=[
            StandingBody(first=first, second=second, **dict(count(of_pair)))
            for (first, second), of_pair in choices.items()
        ],
    )


def other_model(models: Sequence[str], first: str) -> str:
    """A model to compare with the first: one of another name before the same at another step or in another decoding."""
    others = [model for model in models if model != first]
    return next((model for model in others if _bare_name(model) != _bare_name(first)), others[0] if others else first)


def _read(store: RunStore, table: RunTable) -> dict[str, dict[str, Answer]]:
    models: dict[str, dict[str, Answer]] = {}
    for row in open_table(store, table):
        at = "" if row["step"] is None else f" at {row['step']}"
        name = f"{row['model']}{at}" + ("" if row["decoding"] == "greedy" else f", {row['decoding']}")
        models.setdefault(name, {}).setdefault(row["sample_id"], Answer(row["response"], row["response_type"]))
    return models


def _bare_name(model: str) -> str:
    """A model's name without its step and decoding."""
    return model.partition(", ")[0].partition(" at ")[0]
