import torch
from coloured_squares import PROMPT, squares

from rubricworks.training.generate import decode_image, load_model
from rubricworks.training.policy.shared_images import encode_images_once
from rubricworks.training.processing import encode_prompts


def test_rollouts_of_one_image_pass_the_tower_once(student):
    first, second = (decode_image(image) for image in [image for image, _, _ in squares()][:2])
    plain, processor = load_model(student)
    inputs = encode_prompts(processor, [first, first, second, first], [PROMPT] * 4)
    hooked, _ = load_model(student)
    assert encode_images_once(hooked)
    sizes = []
    hooked.model.visual.patch_embed.register_forward_hook(lambda _, args, __: sizes.append(len(args[0])))

    logits, gradients = zip(*(_forward_and_back(model, inputs) for model in (plain, hooked)), strict=True)

    patches = len(inputs["pixel_values"]) // 4
    assert sizes == [2 * patches]
    torch.testing.assert_close(*logits)
    torch.testing.assert_close(*gradients)


def test_generation_is_the_same_with_shared_images(student):
    model, processor = load_model(student)
    images = [decode_image(image) for image, _, _ in squares()][:3]
    inputs = encode_prompts(processor, [images[0], images[0], images[1], images[2]], [PROMPT] * 4)
    before = model.generate(**inputs, max_new_tokens=5, do_sample=False)
    assert encode_images_once(model)
    assert torch.equal(model.generate(**inputs, max_new_tokens=5, do_sample=False), before)


def test_a_model_without_such_a_tower_is_left_alone():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    assert not encode_images_once(LlamaForCausalLM(LlamaConfig(vocab_size=8, **sizes)))


def _forward_and_back(model, inputs):
    logits = model(**inputs).logits
    logits.float().logsumexp(-1).sum().backward()
    return logits, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
