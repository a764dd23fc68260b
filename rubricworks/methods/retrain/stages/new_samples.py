"""Count the samples of a source that are new, drawn as its stage would draw them.

Images are identified by location first: only those at unknown locations are opened, in the order of the draw, until
there are enough. A picture that moved or is duplicated is not new. Questions are identified by picture and wording, for
which every picture is read, as their stage reads it.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from rubricworks.data.downloads.hosts import AllowedHosts
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.data.sources import image_entries, open_images
from rubricworks.errors import UserError
from rubricworks.runtime.job import Job
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data import prepare, prepare_questions
from rubricworks.stages.data.question_survey import PictureDigests, merge_surveys
from rubricworks.stages.data.source_splits import recipe_path
from rubricworks.tracking import SampleKey, StagedRecipe

if TYPE_CHECKING:
    from rubricworks.data.downloads.fetcher import Fetcher

_BATCH_SIZE = 32


def count_new(recipe: StagedRecipe, known_samples: Iterable[SampleKey], enough: int, job: Job) -> int:
    """Count the usable samples of the recipe's source that are not among `known_samples`.

    Args:
        known_samples: samples of earlier runs of the recipe.
        enough: counting of images stops there; questions are always counted in full.
    Raises:
        UserError: the source is missing, or no stage of the recipe reads a known kind of source.
    """
    if config := recipe.stages.get("prepare"):
        return asyncio.run(new_images(prepare.Config.model_validate(config), list(known_samples), enough))
    if config := recipe.stages.get("prepare_questions"):
        return new_questions(prepare_questions.Config.model_validate(config), known_samples, job)
    raise UserError(f"{recipe.name}: none of its stages reads a source (there are {', '.join(recipe.stages)})")


async def new_images(
    config: prepare.Config, known_samples: list[SampleKey], enough: int, fetcher: "Fetcher | None" = None
) -> int:
    """`count_new` for images; tests pass a fetcher that reaches their own server."""
    from rubricworks.data.downloads.fetcher import Fetcher

    source = local_source(config.source)
    hosts = AllowedHosts(config.allowed_hosts)
    splits = prepare.draw_splits(config, source, hosts.screen(image_entries(source), source))
    known_sources, known_ids = {key.source for key in known_samples}, {key.sample_id for key in known_samples}
    candidates = (
        entry
        for entry in hosts.screen(image_entries(source), source)
        if isinstance(entry, ImageEntry)
        and entry.key in splits
        and recipe_path(entry.source, config.source, source) not in known_sources
    )
    new_ids: set[str] = set()
    async with fetcher or Fetcher(hosts) as fetch:
        while batch := list(islice(candidates, _BATCH_SIZE)):
            items: list[Any] = await open_images(batch, fetch, max_side=config.max_side)
            usable = [item for item in items if not isinstance(item, RejectedEntry)]
            new_ids |= {prepare.image_sample_id(item.image_digest) for item in usable} - known_ids
            if len(new_ids) >= enough:
                break
    return len(new_ids)


def new_questions(config: prepare_questions.Config, known_samples: Iterable[SampleKey], job: Job) -> int:
    """`count_new` for questions."""
    pictures = PictureDigests(job.scratch("pictures"), config.max_side)
    survey = merge_surveys(prepare_questions.survey_corpora(prepare_questions.config_corpora(config), pictures))
    splits = prepare_questions.question_splits(config, survey)
    return len(splits.keys() - {key.sample_id for key in known_samples})
