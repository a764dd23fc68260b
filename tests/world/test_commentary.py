"""Habits of the captions that come with the images: commentary, which is never read as an object, and repetition."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from rubricworks.cli.world import world
from rubricworks.errors import UserError
from rubricworks.recipe import WorldConfig
from rubricworks.world.scene.captions import COMMENTARY
from rubricworks.world.scene.export import export_scenes, noisy_caption
from rubricworks.world.scene.parsing import Mentions, mentions
from rubricworks.world.scene.scene import generate_scenes

SEED, COUNT = 7, 400


def captions(folder: Path) -> list[str]:
    rows = (folder / "images" / "metadata.jsonl").read_text().splitlines()
    return [json.loads(row)["text"] for row in rows]


@pytest.mark.parametrize("sentence", COMMENTARY)
def test_commentary_states_nothing_that_the_world_knows(sentence: str):
    assert mentions(sentence) == Mentions()


def test_without_commentary_the_exported_bytes_are_those_of_before(tmp_path: Path):
    export_scenes(tmp_path, seed=4, count=12)
    content = (tmp_path / "images" / "metadata.jsonl").read_bytes()
    assert hashlib.sha256(content).hexdigest() == "2ab4292e8cda126b8c7ff4e80f1919f6a40396818f74af1f110e94e6f859050b"


@pytest.mark.slow
def test_stated_share_of_captions_ends_with_one_sentence(tmp_path: Path):
    plain = [noisy_caption(scene, SEED, index) for index, scene in enumerate(generate_scenes(SEED, COUNT))]
    export_scenes(tmp_path, seed=SEED, count=COUNT, commentary=0.3)
    ends = []
    for before, after in zip(plain, captions(tmp_path), strict=True):
        assert after.startswith(before)
        if after != before:
            ends.append(after.removeprefix(before).strip())
    assert len(ends) / COUNT == pytest.approx(0.3, abs=0.06)
    assert set(ends) == set(COMMENTARY)


def test_commentary_is_a_share_in_the_recipe_and_in_the_command(tmp_path: Path):
    assert WorldConfig().commentary == 0
    with pytest.raises(ValidationError, match="commentary"):
        WorldConfig(commentary=1.2)
    with pytest.raises(UserError, match=r"commentary is 1\.2"):
        export_scenes(tmp_path, seed=1, count=2, commentary=1.2)
    arguments = ["export", str(tmp_path), "--scenes", "3", "--commentary", "1"]
    assert CliRunner().invoke(world, arguments).exit_code == 0
    assert all(caption.endswith(COMMENTARY) for caption in captions(tmp_path))


@pytest.mark.slow
def test_stated_share_of_the_captions_says_one_of_its_own_sentences_again(tmp_path: Path):
    plain = [noisy_caption(scene, SEED, index) for index, scene in enumerate(generate_scenes(SEED, COUNT))]
    export_scenes(tmp_path, seed=SEED, count=COUNT, repetition=0.3)
    again = 0
    for before, after in zip(plain, captions(tmp_path), strict=True):
        sentence = after.removeprefix(before).strip()
        assert not sentence or f"{sentence} " in f"{before} "
        assert sentence.count(" .") <= 1
        again += bool(sentence)
    assert again / COUNT == pytest.approx(0.3, abs=0.06)
    with pytest.raises(UserError, match="repetition is -1"):
        export_scenes(tmp_path, seed=1, count=2, repetition=-1)
