"""LoRA: adapters while training, a plain model directory afterwards."""

from pathlib import Path

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel, ProcessorMixin

from rubricworks.training.config import LoraOptions
from rubricworks.training.progress import no_progress_bars


def with_adapters(model: PreTrainedModel, options: LoraOptions) -> PeftModel:
    """The model with fresh adapters, the only weights that train."""
    targets = options.targets if isinstance(options.targets, str) else list(options.targets)
    adapters = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, adapters)


def save_plain_model(model: PreTrainedModel | PeftModel, processor: ProcessorMixin, out: Path) -> Path:
    """Write a plain Hugging Face model directory; adapters are merged into the weights (and the model is changed)."""
    if isinstance(model, PeftModel):
        model = model.merge_and_unload()
    with no_progress_bars():
        model.save_pretrained(out)
        processor.save_pretrained(out)
    return out
