"""vLLM's offline engine as the engine of a stage."""

import pytest
from coloured_squares import PROMPT, squares
from vllm_on_cpu import make_vllm_fit_cpu

from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import load_engine

pytestmark = pytest.mark.vllm
IMAGES = [image for image, _, _ in squares()]
LENGTH = 12
VLLM = EngineOptions(kind="vllm", max_model_length=128)


@pytest.fixture(scope="module")
def engine(taught):
    with pytest.MonkeyPatch.context() as patch:
        make_vllm_fit_cpu(patch)
        loaded = load_engine(taught, VLLM, batch_size=5)
        yield loaded
        loaded.close()


def test_greedy_texts_and_token_counts_are_those_of_generate(engine, taught):
    generate = load_engine(taught, EngineOptions(), batch_size=5)
    expected = generate(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=LENGTH)
    assert engine(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=LENGTH) == expected
    assert len({text for text, _ in expected}) > 4
    short = generate(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=3)
    assert engine(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=3) == short
    assert {tokens for _, tokens in short} == {3}


def test_samples_of_one_prompt_differ_and_follow_their_seed(engine):
    def draw(seed: int) -> list[tuple[str, int]]:
        return engine(IMAGES[:1] * 16, [PROMPT] * 16, max_new_tokens=LENGTH, temperature=2.0, seed=seed)

    first = draw(1)
    assert draw(1) == first != draw(2)
    assert len({text for text, _ in first}) > 8


def test_prompt_without_an_image_is_answered_too(engine, taught):
    generate = load_engine(taught, EngineOptions(), batch_size=5)
    assert engine([None], [PROMPT], max_new_tokens=4) == generate([None], [PROMPT], max_new_tokens=4)


def test_one_start_writes_what_each_checkpoint_does(engine, taught, other_checkpoint):
    expected = {}
    for folder in (other_checkpoint, taught):
        generate = load_engine(folder, EngineOptions(), batch_size=12)
        expected[folder] = generate(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=LENGTH)
        generate.close()
    running = engine._llm
    texts = {}
    for folder in (other_checkpoint, taught):
        engine.load(folder)
        texts[folder] = engine(IMAGES, [PROMPT] * len(IMAGES), max_new_tokens=LENGTH)
    assert texts == expected
    assert expected[taught] != expected[other_checkpoint]
    assert engine._llm is running
