"""The scenes of a run are drawn once: a run that goes on finds them, and one that takes from another copies them."""

import pytest

from rubricworks.cli import world
from rubricworks.cli.world import DRAWN, serve_world
from rubricworks.recipe import WorldConfig

SMALL = WorldConfig(scenes=3, questions=1, seed=4)


def files(folder) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "server.log")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def draws(monkeypatch):
    worlds = []
    export = world._export
    monkeypatch.setattr(world, "_export", lambda folder, config: (worlds.append(folder.name), export(folder, config)))
    return worlds


@pytest.mark.slow
def test_drawn_once_and_copied_where_it_is_the_same(tmp_path, draws):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with serve_world(SMALL, first):
        pass
    with serve_world(SMALL, first):
        pass
    with serve_world(SMALL, second, [tmp_path / "gone", first]):
        pass
    assert draws == ["first"]
    assert len(files(second)) == 3 + 4  # pictures; captions, truth, questions, and what they were drawn from
    assert files(second) == files(first)
    with serve_world(SMALL.model_copy(update={"scenes": 2}), third, [first]):
        pass
    assert draws == ["first", "third"]
    assert len(list((third / "images").glob("*.png"))) == 2


@pytest.mark.slow
def test_half_a_world_is_drawn_again(tmp_path, draws):
    with serve_world(SMALL, tmp_path / "cut"):
        whole = files(tmp_path / "cut")
    (tmp_path / "cut" / DRAWN).unlink()
    (tmp_path / "cut" / "images" / "scene-00001.png").unlink()
    with serve_world(SMALL, tmp_path / "cut"):
        assert files(tmp_path / "cut") == whole
    assert draws == ["cut", "cut"]
