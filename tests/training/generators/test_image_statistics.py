"""Image statistics that the alarm watches: closed forms, and images that no decoder reads."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from rubricworks.data.images import NO_PIXELS, png_bytes
from rubricworks.rubrics import Response
from rubricworks.training.generators.image_statistics import (
    DIVERSITY,
    DRAWN,
    HIGH_FREQUENCY,
    IMAGE_STATISTICS,
    SATURATION,
    diversity,
)
from rubricworks.training.policy.alarm import HackingAlarm, step_stats


def flat(*colour, side=40):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(buffer, "PNG")
    return Response.of_image(buffer.getvalue())


BROKEN = Response.of_image(NO_PIXELS)
BLACK, WHITE, RED = flat(0, 0, 0), flat(255, 255, 255), flat(255, 0, 0)


def test_statistics_of_flat_and_striped_images_are_their_closed_forms():
    assert SATURATION.measure(RED, 1) == 1
    assert SATURATION.measure(WHITE, 1) == SATURATION.measure(BLACK, 1) == 0
    assert DRAWN.measure(RED, 1) == 0
    stripes = np.zeros((40, 40, 3), np.uint8)
    stripes[::2] = 255
    image = Response.of_image(png_bytes(stripes))
    assert HIGH_FREQUENCY.measure(image, 1) == pytest.approx(1)
    assert DRAWN.measure(image, 1) == 0.5


def test_diversity_is_the_mean_distance_of_all_pairs():
    # Black to white is 1; either to red is a root mean square over three channels.
    expected = (1 + math.sqrt(1 / 3) + math.sqrt(2 / 3)) / 3
    assert DIVERSITY.of_groups([[BLACK, WHITE, RED]]) == pytest.approx(expected)
    assert DIVERSITY.of_groups([[RED, RED, RED]]) == 0
    rng = np.random.default_rng(0)
    images = [rng.random((4, 4, 3)) for _ in range(5)]
    pairs = [np.sqrt(((a - b) ** 2).mean()) for at, a in enumerate(images) for b in images[:at]]
    assert diversity(images) == pytest.approx(sum(pairs) / 10)


def test_an_unreadable_image_has_no_value_and_leaves_the_others_theirs():
    assert all(math.isnan(image_statistic.measure(BROKEN, 1)) for image_statistic in IMAGE_STATISTICS)
    assert DIVERSITY.of_groups([[BLACK, BROKEN, WHITE]]) == pytest.approx(1)
    assert math.isnan(DIVERSITY.of_groups([[BLACK, BROKEN]]))
    stats = step_stats(
        1, [RED, BROKEN, BLACK, WHITE], [1] * 4, [1.0] * 4, statistics=(SATURATION, DIVERSITY), group_size=2
    )
    assert stats.values == pytest.approx({"saturation": 1 / 3, "diversity": 1})
    nothing = step_stats(1, [BROKEN] * 2, [1] * 2, [None] * 2, statistics=(SATURATION, DIVERSITY), group_size=2)
    assert all(map(math.isnan, nothing.values.values()))


@pytest.mark.parametrize(("late", "fires"), [([RED, RED], True), ([BLACK, RED], False), ([BLACK, WHITE], False)])
def test_images_that_become_one_while_the_reward_rises_fire_the_alarm(late, fires):
    alarm = HackingAlarm((DIVERSITY,))
    for step in range(40):
        images, reward = ([BLACK, WHITE], 0.4) if step < 20 else (late, 0.8)
        alarm.update(step_stats(step, images, [1, 1], [reward] * 2, statistics=(DIVERSITY,), group_size=2))
    assert (alarm.alarm is not None) is fires
    if fires:
        assert alarm.alarm.reasons[0] == "distance between images of a prompt went from 1.00 to 0.00"
