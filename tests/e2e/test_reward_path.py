"""From the start of a policy training to its first reward: a profiler sees no file that the walk does not name."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
MOST = 75
"""Files that a reader of one reward has to open; the number may fall."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> tuple[list[str], set[str]]:
    """Files that a small training enters, in order, and those of the walk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        for variable in ("RUBRICWORKS_WORLD_URL", "RUBRICWORKS_WORLD_DIR"):
            patch.setenv(variable, "")  # the world that is served sets both
        from benchmarks.reward_path import reward_path, walk_files

        return reward_path(tmp_path_factory.mktemp("quickstart")), walk_files()


def test_walk_names_every_file_between_a_training_and_its_first_reward(paths):
    files, walk = paths
    assert files[0] == "rubricworks/stages/training/train_policy.py"
    assert files[-1] == "rubricworks/rewards/weighted.py"
    assert [file for file in files if file not in walk] == []


def test_path_to_the_first_reward_does_not_grow(paths):
    files, _ = paths
    assert len(files) <= MOST


def test_files_beside_the_walk_are_on_the_path(paths):
    files, walk = paths
    assert {file for file in walk if file.startswith(("rubricworks/llm/", "rubricworks/policy/"))} <= set(files)
