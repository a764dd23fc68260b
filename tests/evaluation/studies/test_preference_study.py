"""Preference studies: who is shown beside whom, results against counts by hand, and what people may write wrong."""

import csv
import json
from collections import Counter

import pytest
from image_judge import plain_image

from rubricworks.errors import UserError
from rubricworks.evaluation.studies.label_file import write_label_file
from rubricworks.evaluation.studies.preference_study import (
    COLUMNS,
    LETTERS,
    Candidate,
    preference_tasks,
    preferences,
    write_key,
)
from rubricworks.reports.study_page import preference_page

MODELS = ("clip", "rubric", "sft")


def candidates(prompts=30, images=2):
    """Images whose model can be told by their reward: clip low, sft middle, rubric high."""
    rewards = {"clip": 0.2, "sft": 0.5, "rubric": 0.8}
    return {
        f"prompt {at}": {
            model: [
                Candidate(model, f"{model}{at}{number}", plain_image("red"), rewards[model] + number / 100)
                for number in range(images)
            ]
            for model in MODELS
        }
        for at in range(prompts)
    }


def answer(folder, tasks, protocol, choose, raters=("",)):
    """Write key and labels; `choose(task)` gives the index of the image that people prefer, or None for equal."""
    write_key(folder / "key.json", tasks, protocol)
    rows = []
    for rater in raters:
        for task in tasks:
            picked = choose(task)
            letter = "Equal" if picked is None else LETTERS[picked]
            rows.append({"task": task.task, "prompt": task.prompt, "choice": letter, "rater": rater})
    write_label_file(folder / "labels.csv", COLUMNS, rows)
    return preferences(folder / "labels.csv", folder / "key.json")


def index_of(task, model):
    return next(at for at, image in enumerate(task.images) if image.model == model)


def test_top_rank_shows_every_model_once_in_a_random_order_and_counts_the_picks(tmp_path):
    tasks = preference_tasks(candidates(), "top", 20, seed=1)
    assert len({task.prompt for task in tasks}) == 20
    assert all(sorted(image.model for image in task.images) == sorted(MODELS) for task in tasks)
    firsts = Counter(task.images[0].model for task in tasks)
    assert len(firsts) == 3
    # People prefer rubric in three of four tasks, clip in the rest.
    result = answer(tmp_path, tasks, "top", lambda task: index_of(task, "clip" if task.task[-1] in "05" else "rubric"))
    clip = sum(task.task[-1] in "05" for task in tasks) / 20
    shares = {model.model: model.share for model in result.models}
    assert {name: share.value for name, share in shares.items()} == {"clip": clip, "rubric": 1 - clip, "sft": 0}
    assert shares["rubric"].low < 1 - clip < shares["rubric"].high
    # The reward always prefers rubric.
    assert result.agreement.value == pytest.approx(1 - clip)
    assert result.equal is None


def test_pairs_come_equally_often_and_equal_counts_one_half(tmp_path):
    tasks = preference_tasks(candidates(), "pairs", 30, seed=2)
    met = Counter(frozenset(image.model for image in task.images) for task in tasks)
    assert set(met.values()) == {10}
    sides = Counter(task.images[0].model for task in tasks)
    assert all(5 <= count <= 15 for count in sides.values())

    def choose(task):
        models = {image.model for image in task.images}
        return index_of(task, "rubric") if "rubric" in models else None

    result = answer(tmp_path, tasks, "pairs", choose, raters=("ann", "bob"))
    assert (result.answers, result.raters) == (60, 2)
    assert {model.model: model.share.value for model in result.models} == {"clip": 0.25, "rubric": 1, "sft": 0.25}
    assert result.equal.value == pytest.approx(1 / 3)
    assert result.agreement.value == 1
    assert result.agreement.samples == 40


def test_within_one_model_its_own_reward_is_compared_with_people(tmp_path):
    tasks = preference_tasks(candidates(), "within", 30, seed=3)
    assert all(len({image.model for image in task.images}) == 1 for task in tasks)
    assert all(len({image.digest for image in task.images}) == 2 for task in tasks)

    def choose(task):
        best = max(range(2), key=lambda at: task.images[at].reward)
        return best if task.images[0].model != "clip" else 1 - best

    result = answer(tmp_path, tasks, "within", choose)
    assert {model.model: model.agreement.value for model in result.models} == {"clip": 0, "rubric": 1, "sft": 1}
    assert all(model.share is None for model in result.models)
    assert result.agreement.value == pytest.approx(2 / 3)


def test_equal_rewards_and_missing_ones_have_no_agreement(tmp_path):
    tasks = preference_tasks(candidates(), "pairs", 6, seed=2)
    for value in (None, 0.5):
        same = [task._replace(images=tuple(image._replace(reward=value) for image in task.images)) for task in tasks]
        folder = tmp_path / str(value)
        folder.mkdir()
        assert answer(folder, same, "pairs", lambda _: 0).agreement is None


def test_the_page_names_no_model_and_no_reward_and_shows_each_task(tmp_path):
    tasks = preference_tasks(candidates(), "pairs", 5, seed=1)
    page = preference_page(tasks, "pairs", title="Which?", simulated=True)
    assert not any(model in page.split("<main")[1].split("</main>")[0] for model in MODELS)
    assert page.count("<article") == 5
    assert page.count('value="equal"') == 5
    assert page.count("data:image/png") == 10
    assert "simulated" in page


def test_the_same_seed_draws_the_same_study_and_another_one_another():
    first, again, other = (preference_tasks(candidates(), "top", 10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("protocol", "choice", "message"),
    [
        ("top", "D", "line 2: choice is 'D'; write a or b or c"),
        ("top", "equal", "choice is 'equal'"),
        ("pairs", "C", "write a or b or equal"),
        ("pairs", "", "nothing is filled in"),
    ],
)
def test_a_choice_that_was_not_offered_is_one_line(tmp_path, protocol, choice, message):
    tasks = preference_tasks(candidates(), protocol, 3, seed=1)
    write_key(tmp_path / "key.json", tasks, protocol)
    write_label_file(tmp_path / "l.csv", COLUMNS, [{"task": tasks[0].task, "prompt": "p", "choice": choice}])
    with pytest.raises(UserError, match=message):
        preferences(tmp_path / "l.csv", tmp_path / "key.json")


def test_a_task_of_another_study_and_a_missing_column_are_named(tmp_path):
    tasks = preference_tasks(candidates(), "top", 3, seed=1)
    write_key(tmp_path / "key.json", tasks, "top")
    write_label_file(tmp_path / "l.csv", COLUMNS, [{"task": "task-999", "choice": "A"}])
    with pytest.raises(UserError, match="line 2: 'task-999' is no task of the study"):
        preferences(tmp_path / "l.csv", tmp_path / "key.json")
    (tmp_path / "short.csv").write_text("task,prompt\n")
    with pytest.raises(UserError, match="no column choice"):
        preferences(tmp_path / "short.csv", tmp_path / "key.json")


@pytest.mark.parametrize("protocol", ["top", "pairs", "within"])
def test_too_few_images_are_one_line(protocol):
    alone = {"p": {"clip": [Candidate("clip", "d", b"", None)]}}
    with pytest.raises(UserError, match=f"which the protocol {protocol} shows beside each other"):
        preference_tasks(alone, protocol, 3, seed=1)


def test_the_empty_file_is_one_that_spreadsheets_read(tmp_path):
    write_label_file(tmp_path / "l.csv", COLUMNS, [{"task": "t", "prompt": 'a "red", big\nthing', "images": "x"}])
    with (tmp_path / "l.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"task": "t", "prompt": 'a "red", big\nthing', "choice": "", "rater": ""}
    assert json.dumps(row)
