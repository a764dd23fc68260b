"""Stage 2 of the baseline: the same questions, order and steps."""

from rubricworks.methods.recaption_pretrain.stages.tune_vlm import Config, prepare_inputs, run

__all__ = ["Config", "prepare_inputs", "run"]
