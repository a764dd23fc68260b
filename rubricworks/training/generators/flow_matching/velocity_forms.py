"""Three forms of a transformer that DiffusionNFT compares: trained, sampling and initial.

The sampling form is a moving average of the trained one; another one, in float32, is what is saved. With adapters the
forms share the transformer, as adapters `default` and `old`, and as none; without, each is a copy of its own.
"""

import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from diffusers.training_utils import EMAModel
from torch import Tensor, nn

from rubricworks.errors import UserError
from rubricworks.training.config import LoraOptions
from rubricworks.training.generators.files import BASE_FILE
from rubricworks.training.generators.flow_matching.generator import FlowGenerator

TRAINED, SAMPLING = "default", "old"
"""Names of the adapters."""
AVERAGE = "average"
"""Name of the average in a checkpoint."""


class VelocityForms(nn.Module):
    """The forms of a generator's transformer; its trainable parameters are those of the trained form."""

    def __init__(
        self,
        generator: FlowGenerator,
        lora: LoraOptions | None,
        *,
        keep_initial: bool,
        ema_decay: float | None = None,
        seed: int = 0,
    ) -> None:
        """Args: lora: adapters to train; None trains all weights. keep_initial: keep the initial form, which costs a
        copy unless there are adapters. ema_decay: decay of the average that is saved; None saves the trained form.
        """
        super().__init__()
        self.lora, self._generator = lora, [generator]  # in a list, as it is no module
        self.transformer: Any = generator.transformer
        self._old: nn.Module | None = None
        self._initial: nn.Module | None = None
        if lora is None:
            self._old = _frozen_copy(self.transformer)
            self._initial = _frozen_copy(self.transformer) if keep_initial else None
            self.transformer.requires_grad_(True)
            old = dict(self._old.named_parameters())
            self._pairs = {name: (trained, old[name]) for name, trained in self.transformer.named_parameters()}
        else:
            _add_adapters(self.transformer, lora, seed)
            parameters = dict(self.transformer.named_parameters())
            self._pairs = {
                name: (trained, parameters[name.replace(f".{TRAINED}.", f".{SAMPLING}.")])
                for name, trained in parameters.items()
                if f".{TRAINED}." in name
            }
            self.blend(0.0)
        self._average: EMAModel | None = None
        if ema_decay is not None:
            self._average = EMAModel(self._trained, decay=ema_decay)
            self._average.to(dtype=torch.float32)

    @property
    def _trained(self) -> list[nn.Parameter]:
        return [trained for trained, _ in self._pairs.values()]

    @property
    def _flow(self) -> FlowGenerator:
        return self._generator[0]

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """The generator uses the sampling form, without gradients."""
        with torch.no_grad(), self._swapped(self._old, SAMPLING):
            yield

    @contextmanager
    def initial(self) -> Iterator[None]:
        """The generator uses the initial form, without gradients."""
        with torch.no_grad(), self._swapped(self._initial, None):
            yield

    @contextmanager
    def _swapped(self, module: nn.Module | None, adapter: str | None) -> Iterator[None]:
        if self.lora is None:
            assert module is not None, "the initial form was not kept"
            self._flow.transformer = module
        elif adapter is not None:
            self.transformer.set_adapter(adapter)
        else:
            self.transformer.disable_adapters()
        try:
            yield
        finally:
            self._flow.transformer = self.transformer
            if self.lora is not None:
                self.transformer.enable_adapters()
                self.transformer.set_adapter(TRAINED)

    @torch.no_grad()
    def blend(self, decay: float) -> None:
        """Move the sampling form: old = decay * old + (1 - decay) * trained."""
        for trained, old in self._pairs.values():
            old.lerp_(trained.to(old.dtype), 1 - decay)

    def update_average(self, step: int) -> None:
        """Update the saved average after a number of steps."""
        if self._average is not None:
            self._average.optimization_step = step - 1  # a checkpoint holds no count of its own
            self._average.step(self._trained)

    def use_average(self) -> None:
        """Make the average the trained form, at the end of the training."""
        if self._average is not None:
            self._average.copy_to(self._trained)

    def tensors(self) -> dict[str, Tensor]:
        """Weights that a checkpoint holds, of the trained and the sampling form, and of the average."""
        averages = [] if self._average is None else self._average.shadow_params
        return {f"{AVERAGE}/{name}": weight for name, weight in zip(self._pairs, averages, strict=False)} | {
            f"{form}/{name}": weight.detach().contiguous()
            for name, pair in self._pairs.items()
            for form, weight in zip((TRAINED, SAMPLING), pair, strict=True)
        }

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights of `tensors`."""
        for name, weight in self.tensors().items():
            weight.copy_(tensors[name])

    def save_adapter(self, folder: Path, base: Path, digest: str) -> None:
        """Write the trained adapter, for `load_lora_weights` of the base's pipeline.

        Args:
            base: pipeline that the adapter is for.
            digest: digest of its files.
        """
        from diffusers import QwenImagePipeline  # the format is the same for every pipeline with a transformer
        from peft import get_peft_model_state_dict

        config = self.transformer.peft_config[TRAINED].to_dict()
        # A set has another order in every process.
        config = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        QwenImagePipeline.save_lora_weights(
            part,
            get_peft_model_state_dict(self.transformer, adapter_name=TRAINED),
            transformer_lora_adapter_metadata=config,
        )
        (part / BASE_FILE).write_text(json.dumps({"model": base.resolve().name, "sha256": digest}, indent=2) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)

    def merge(self) -> None:
        """Leave the generator with the trained form as a plain transformer."""
        if self.lora is not None:
            self.transformer.fuse_lora(adapter_names=[TRAINED])
            self.transformer.unload_lora()
        self.transformer.requires_grad_(False)


def _frozen_copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).requires_grad_(False)


def _add_adapters(transformer: Any, lora: LoraOptions, seed: int) -> None:
    from peft import LoraConfig

    transformer.requires_grad_(False)
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets,
        init_lora_weights="gaussian",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            for name in (TRAINED, SAMPLING):
                transformer.add_adapter(config, adapter_name=name)
        except ValueError as error:
            raise UserError(f"policy.algorithm.optimizer.lora: {str(error).splitlines()[0]}") from error
    # Adapters are trained in float32, whatever the precision of what they adapt.
    for name, parameter in transformer.named_parameters():
        if f".{TRAINED}." in name or f".{SAMPLING}." in name:
            parameter.data = parameter.data.float()
    transformer.set_adapter(TRAINED)
