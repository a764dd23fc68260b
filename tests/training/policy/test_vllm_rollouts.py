"""Image prompts, encoder cache and alarm of rollouts by vLLM; tests/vllm_cpu/test_colocate.py runs vLLM itself."""

import inspect
from types import SimpleNamespace

import pytest
from trl.generation.vllm_generation import VLLMGeneration

from rubricworks.errors import UserError
from rubricworks.training.generate import load_model
from rubricworks.training.policy.vllm_rollouts import (
    PATIENCE,
    SamplerAgreement,
    check_expansion,
    collapse_images,
    mend_generation,
)

IMAGE, START, END = 7, 5, 6


@pytest.mark.parametrize(
    ("prompt", "images", "expected"),
    [
        ([1, START, IMAGE, IMAGE, IMAGE, END, 2], 1, [1, START, IMAGE, END, 2]),
        ([START, IMAGE, END, START, IMAGE, IMAGE, END], 2, [START, IMAGE, END, START, IMAGE, END]),
        ([IMAGE, IMAGE], 1, [IMAGE]),
        ([1, 2, 2, 3], 0, [1, 2, 2, 3]),
    ],
)
def test_each_image_keeps_one_of_its_tokens(prompt, images, expected):
    assert collapse_images(prompt, IMAGE, images) == expected


@pytest.mark.parametrize(("prompt", "images"), [([IMAGE] * 6, 2), ([IMAGE, 1, IMAGE], 1), ([1, 2], 1)])
def test_runs_that_cannot_be_assigned_to_images_are_refused(prompt, images):
    with pytest.raises(UserError, match=rf"with {images} images has \d runs"):
        collapse_images(prompt, IMAGE, images)


class Generation:
    """TRL's generation with an engine that expands an image token to three."""

    def __init__(self, processor, mode="colocate", expands=True):
        self.processing_class, self.mode, self.expands = processor, mode, expands
        self.calls, self.sent = [], []
        engine = SimpleNamespace(reset_encoder_cache=lambda: self.calls.append("reset_encoder_cache"))
        self.llm = SimpleNamespace(llm_engine=engine)
        self.accelerator = SimpleNamespace(is_main_process=True)
        self._iter_named_params = lambda: iter([])
        session = SimpleNamespace(post=self._post)
        self.vllm_client = SimpleNamespace(base_url="http://server", session=session)
        self.status = 200

    def _post(self, url):
        self.calls.append(url)
        return SimpleNamespace(status_code=self.status)

    def sync_weights(self):
        self.calls.append("sync_weights")

    def generate(self, prompts, images, num_generations, profiler=None):
        self.sent = prompts
        image = self.processing_class.image_token_id if images else None
        read = [[item for token in ids for item in [token] * (3 if token == image else 1)] for ids in prompts]
        return (read if self.expands else prompts), "completions", "logprobs", "ids"


@pytest.fixture(scope="module")
def processor(student):
    return load_model(student)[1]


def test_colocated_vllm_gets_one_token_per_image_and_forgets_old_images(processor):
    generation, image = Generation(processor), processor.image_token_id
    mend_generation(generation)
    prompts = [[1, image, image, image, 2], [3, 4]]
    result = generation.generate(prompts=prompts, images=[["picture"], None], num_generations=2, profiler=None)
    assert generation.sent == [[1, image, 2], [3, 4]]
    assert result == (prompts, "completions", "logprobs", "ids")
    generation.sync_weights()
    assert generation.calls == ["sync_weights", "reset_encoder_cache"]


def test_a_server_gets_expanded_prompts_and_forgets_encoded_images_too(processor):
    generation, image = Generation(processor, mode="server"), processor.image_token_id
    mend_generation(generation)
    prompts = [[1, image, image, image, 2]]
    generation.generate(prompts=prompts, images=[["picture"]], num_generations=1)
    assert generation.sent == prompts
    generation.sync_weights()
    assert generation.calls == ["sync_weights", "http://server/reset_encoder_cache"]
    generation.status = 404
    with pytest.raises(UserError, match="VLLM_SERVER_DEV_MODE=1"):
        generation.sync_weights()


def test_an_engine_that_reads_another_prompt_is_refused(processor):
    generation, image = Generation(processor, expands=False), processor.image_token_id
    mend_generation(generation)
    with pytest.raises(UserError, match="as 1 tokens, and the trainer as 3"):
        generation.generate([[image] * 3], [["picture"]], 1)
    check_expansion([[1, 2]], [[1, 2]])


def test_prompts_of_a_text_model_are_left_as_they_are(processor):
    generation = Generation(processor.tokenizer)
    mend_generation(generation)
    assert "generate" not in vars(generation)
    assert "sync_weights" not in vars(generation)


def test_alarm_needs_the_limit_to_be_exceeded_step_after_step():
    agreement = SamplerAgreement(0.1)
    for step in range(1, PATIENCE):
        agreement.update(step, 0.5)
    agreement.update(PATIENCE, 0.1)
    for step in range(PATIENCE + 1, 2 * PATIENCE):
        agreement.update(step, 0.7)
    with pytest.raises(UserError, match=rf"by 0\.7 nats a token in the last 5 steps \(up to step {2 * PATIENCE}\)"):
        agreement.update(2 * PATIENCE, 0.7)
    for step in range(20):
        SamplerAgreement(None).update(step, 9.0)


def test_trl_has_the_methods_that_are_wrapped():
    assert list(inspect.signature(VLLMGeneration.sync_weights).parameters) == ["self"]
    expected = ["self", "prompts", "images", "num_generations", "profiler"]
    assert list(inspect.signature(VLLMGeneration.generate).parameters) == expected
    source = inspect.getsource(VLLMGeneration)
    # A failure here means that TRL has changed: see whether `mend_generation` is still needed.
    assert 'row = {"prompt_token_ids": ids}' in source
    assert "reset_encoder_cache" not in source
    assert "weight_conversion" not in source
    assert inspect.getsource(VLLMGeneration.sync_weights).count("self._iter_named_params()") == 4
