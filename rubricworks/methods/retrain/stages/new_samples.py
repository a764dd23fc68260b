"""How many samples a source would give today that are not known: drawn as its stage draws them, few of them opened.

Images are told by where they lie, so that only those in places not known are opened, in the order of the draw, until
there are enough. A picture that lies in another place now, or twice, is not new. Questions are told by picture and
wording, for which every picture is read, as their stage reads it.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from rubricworks.data.hosts import AllowedHosts
from rubricworks.data.questions import question_entries
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.data.sources import image_entries, open_images
from rubricworks.errors import UserError
from rubricworks.runtime.job import Job
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data import prepare, prepare_questions
from rubricworks.stages.data.question_survey import PictureDigests, draw_splits, survey_questions
from rubricworks.stages.data.source_splits import recipe_path
from rubricworks.tracking import SampleKey, StagedRecipe

if TYPE_CHECKING:
    from rubricworks.data.remote import Fetcher

_AT_ONCE = 32


def count_new(recipe: StagedRecipe, known: Iterable[SampleKey], enough: int, job: Job) -> int:
    """Usable samples of the recipe's source that are not known.

    Args:
        known: samples of earlier runs of the recipe.
        enough: counting ends there, where it can.
    Raises:
        UserError: the source is not there, or the recipe has no source of a kind that is known here.
    """
    if config := recipe.stages.get("prepare"):
        return asyncio.run(new_images(prepare.Config.model_validate(config), list(known), enough))
    if config := recipe.stages.get("prepare_questions"):
        return new_questions(prepare_questions.Config.model_validate(config), known, job)
    raise UserError(f"{recipe.name}: none of its stages reads a source (there are {', '.join(recipe.stages)})")


async def new_images(
    config: prepare.Config, known: list[SampleKey], enough: int, fetcher: "Fetcher | None" = None
) -> int:
    """As `count_new`, of images; a test may give a fetcher that reaches its own server."""
    from rubricworks.data.remote import Fetcher

    source = local_source(config.source)
    hosts = AllowedHosts(config.allowed_hosts)
    splits, _ = prepare.draw_splits(config, source, hosts.screen(image_entries(source), source))
    places, samples = {key.source for key in known}, {key.sample_id for key in known}
    elsewhere = (
        one
        for one in hosts.screen(image_entries(source), source)
        if isinstance(one, ImageEntry)
        and one.key in splits
        and recipe_path(one.source, config.source, source) not in places
    )
    found: set[str] = set()
    async with fetcher or Fetcher(hosts) as reach:
        while batch := list(islice(elsewhere, _AT_ONCE)):
            items: list[Any] = await open_images(batch, reach, max_side=config.max_side)
            usable = [item for item in items if not isinstance(item, RejectedEntry)]
            found |= {prepare.image_sample_id(item.image_digest, config.prompt) for item in usable} - samples
            if len(found) >= enough:
                break
    return len(found)


def new_questions(config: prepare_questions.Config, known: Iterable[SampleKey], job: Job) -> int:
    """As `count_new`, of questions; all of them are counted."""
    source = local_source(config.source)
    pictures = PictureDigests(job.scratch("pictures"), config.max_side)
    survey = survey_questions(question_entries(source, config.columns), pictures)
    splits = draw_splits(
        survey.questions.values(),
        seed=config.seed,
        held_out=config.held_out,
        warm_up=config.warm_up,
        max_train=config.max_train,
    )
    return len(splits.keys() - {key.sample_id for key in known})
