"""Stage 1.5 of the baseline: the same images, order and steps with another captioner's captions."""

from rubricworks.methods.recaption_pretrain.stages.pretrain_vlm import Config, run

__all__ = ["Config", "run"]
