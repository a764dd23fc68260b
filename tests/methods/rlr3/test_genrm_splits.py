"""The draw of a GenRM's train and test data, for any set of labelled responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.errors import UserError
from rubricworks.methods.rlr3.stages.genrm_splits import LabelledResponse, draw_genrm_splits

ROWS = st.lists(
    st.builds(
        lambda image, question, loses: LabelledResponse(f"{image}-{question}", f"picture {image}", loses),
        st.integers(0, 9),
        st.integers(0, 2),
        st.booleans(),
    ),
    min_size=4,
    max_size=80,
)


@given(ROWS, st.integers(1, 12), st.booleans(), st.integers(0, 3))
def test_splits_share_no_image_are_balanced_and_the_test_is_as_large_as_asked(rows, test, balance, seed):
    try:
        splits = draw_genrm_splits(rows, test=test, balance=balance, seed=seed)
    except UserError:
        return
    by_split = {
        name: [rows[number] for number, split in splits.items() if split == name]
        for name in ("train", "test", "left_out")
    }
    images = {name: {row.image_digest for row in remaining} for name, remaining in by_split.items()}
    assert not (images["train"] | images["left_out"]) & images["test"]
    assert len(by_split["test"]) == (test + test % 2 if balance else test)
    assert by_split["train"]
    for name in ("train", "test") if balance else ():
        assert 2 * sum(row.loses_credit for row in by_split[name]) == len(by_split[name])
    assert len({row.loses_credit for row in by_split["left_out"]}) <= balance
    held = {row.image_digest for row in by_split["test"]}
    rest = sum(row.image_digest not in held for row in rows)
    assert len(by_split["train"]) + len(by_split["left_out"]) <= rest


@pytest.mark.parametrize("balance", [True, False])
def test_test_has_every_input_once_where_half_of_the_images_suffice(balance):
    # Of every sample two responses lose credit and two do not; of each tenth all lose it.
    rows = [
        LabelledResponse(str(number // 4), f"picture {number // 8}", number % 2 == 0 or number // 4 % 10 == 0)
        for number in range(4 * 400)
    ]
    splits = draw_genrm_splits(rows, test=160, balance=balance, seed=1)
    tested = [rows[number] for number, split in splits.items() if split == "test"]
    assert len({row.sample_id for row in tested}) == len(tested) == 160
    if balance:
        assert sum(row.loses_credit for row in tested) == 80
    # More than half of the images would be needed for one response each.
    splits = draw_genrm_splits(rows, test=300, balance=balance, seed=1)
    assert sum(split == "test" for split in splits.values()) == 300


def test_draw_depends_on_the_seed_and_not_on_chance():
    rows = [LabelledResponse(str(number), str(number // 2), number % 3 == 0) for number in range(60)]
    first, again, other = (draw_genrm_splits(rows, test=8, balance=True, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_test_that_takes_more_than_half_of_the_images_is_refused():
    rows = [LabelledResponse(str(number), str(number), number % 2 == 0) for number in range(10)]
    with pytest.raises(UserError, match="lower it"):
        draw_genrm_splits(rows, test=8, balance=False, seed=1)


def test_responses_of_one_kind_cannot_be_balanced():
    rows = [LabelledResponse(str(number), str(number), True) for number in range(10)]
    with pytest.raises(UserError, match="balance"):
        draw_genrm_splits(rows, test=2, balance=True, seed=1)
