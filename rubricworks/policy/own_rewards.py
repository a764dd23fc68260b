"""Rewards of a study's images by the reward that trained each run (RubricRL, figure 5b).

A run that rubrics rewarded has the rubric rewards of its evaluation. One that endpoints rewarded, such as HPSv2, is
asked for the images shown, so its endpoints must answer. Another reward of images is not known here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.errors import UserError
from rubricworks.evaluation.studies.preference_study import PreferenceTask
from rubricworks.llm import ChatClient
from rubricworks.policy.policy import recorded_policy
from rubricworks.policy.rewards.endpoints import EndpointsReward
from rubricworks.policy.rewards.image_rubric import ImageRubricReward
from rubricworks.reports.run_folder import read_recipe
from rubricworks.rubrics import Response


class OwnRewards(NamedTuple):
    """Tasks of a preference study with the reward of each image, and the models whose runs reward no images."""

    tasks: list[PreferenceTask]
    unknown: list[str]
    """Models whose run has no reward of images."""


def with_own_rewards(tasks: Sequence[PreferenceTask], runs: Mapping[str, Path]) -> OwnRewards:
    """Give each image the reward of its model's own run.

    Args:
        runs: name in the study → run.
    Raises:
        UserError: a run's endpoints scored none of its images.
    """
    return asyncio.run(_with_own_rewards(tasks, runs))


async def _with_own_rewards(tasks: Sequence[PreferenceTask], runs: Mapping[str, Path]) -> OwnRewards:
    rewards: dict[tuple[str, str, str], float | None] = {}
    unknown = []
    async with AsyncExitStack() as stack:
        for name, run in runs.items():
            policy = recorded_policy(read_recipe(run))
            reward = policy.reward if policy else None
            shown = {
                (image.model, task.prompt, image.digest): image
                for task in tasks
                for image in task.images
                if image.model == name
            }
            if isinstance(reward, ImageRubricReward):
                rewards |= {key: image.reward for key, image in shown.items()}
            elif isinstance(reward, EndpointsReward):
                clients = [(ChatClient(endpoint, purpose="study"), endpoint.weight) for endpoint in reward.endpoints]
                for client, _ in clients:
                    await stack.enter_async_context(client)
                images = [Response.of_image(image.image) for image in shown.values()]
                scores = await ImageScoreReward(clients)([prompt for _, prompt, _ in shown], images)
                if shown and all(score is None for score in scores):
                    models = ", ".join(endpoint.model for endpoint in reward.endpoints)
                    raise UserError(f"{run}: its reward, {models}, scored none of {len(shown)} images; is it running?")
                rewards |= dict(zip(shown, scores, strict=True))
            else:
                unknown.append(name)
    rewarded = [
        task._replace(
            images=tuple(
                image._replace(reward=rewards.get((image.model, task.prompt, image.digest))) for image in task.images
            )
        )
        for task in tasks
    ]
    return OwnRewards(rewarded, unknown)
