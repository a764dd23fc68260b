"""A flow-matching generator small enough to learn pictures of one circle in seconds."""

from rubricworks.training.generators.config import TinyFlowConfig

TINY_FLOW = TinyFlowConfig(
    hidden=48, layers=1, heads=2, text_layers=0, steps=150, batch_size=32, learning_rate=5e-3, max_prompt_tokens=8,
    save_every=100, sampling_steps=6,
)  # fmt: skip
