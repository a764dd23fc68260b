"""Texts of a model by vLLM's offline engine: the same prompts, limits and end tokens as `generate_captions`.

Greedy texts equal those of Transformers in the same precision, except for near ties. Sampled texts depend on the seed
and differ.
"""

import atexit
import gc
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, GenerationConfig, PreTrainedTokenizerBase, ProcessorMixin

from rubricworks.data.hub import model_place
from rubricworks.errors import UserError
from rubricworks.training.config import EngineOptions
from rubricworks.training.generate import Processor, decode_image, end_ids, load_model_processor
from rubricworks.training.llava import LLAVAS
from rubricworks.training.processing import Messages, images_of, prompt_token_ids, tokenizer_of
from rubricworks.training.vllm_weights import layout_digest


def check_vllm_installed() -> None:
    """Raise UserError if vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise UserError('engine.kind is vllm, but vllm is not installed: pip install "rubricworks[gpu]"')


class VllmEngine:
    """Generator of texts; `close` frees the GPU for the next model."""

    def __init__(self, model: str | Path, options: EngineOptions) -> None:
        """
        Raises:
            UserError: vLLM is not installed, or one of the two cannot load the model; the message has the reason.
        """
        check_vllm_installed()
        self._options = options
        self._llm: Any = None
        self._start(model)

    def _start(self, model: str | Path) -> None:
        import vllm

        # At its end the interpreter waits for the engine's process, which vLLM may stop only afterwards. Handlers run
        # in reverse order, and the import has registered the wait.
        atexit.register(self.close)
        options = self._options
        self.processor: Processor = load_model_processor(model)
        model = model_place(str(model))
        processor = self.processor
        config: Any = AutoConfig.from_pretrained(str(model))
        # vLLM takes float32 weights for float16 ones, which the values of a model trained in bfloat16 may exceed.
        whole = str(config.dtype).removeprefix("torch.") == "float32"
        limits = {"image": 1, "video": 0} if isinstance(processor, ProcessorMixin) else {}
        try:
            self._llm = vllm.LLM(
                model=str(model),
                dtype=("bfloat16" if torch.cuda.is_available() else "float32") if whole else "auto",
                tensor_parallel_size=options.tensor_parallel,
                gpu_memory_utilization=options.gpu_memory,
                max_model_len=options.max_model_length,
                limit_mm_per_prompt=limits,
                # What a model's own file says of temperature and penalties is not what the caller asks for.
                generation_config="vllm",
                disable_log_stats=True,
            )
        except (ValueError, RuntimeError, OSError) as error:
            if config.model_type in LLAVAS:
                raise UserError(
                    f"vLLM {vllm.__version__} reads no LLaVA beside Transformers {transformers.__version__} (it does "
                    f"beside 5.16); set engine.kind to generate for {model}"
                ) from error
            raise UserError(f"vLLM cannot load {model}: {_first_line(error)}; see engine.* in the recipe") from error
        self._image_token = getattr(config, "image_token_id", None)
        self._ends = _end_ids(model, tokenizer_of(processor))
        self._layout = layout_digest(model) if Path(model).is_dir() else model

    def __call__(
        self,
        images: Sequence[bytes | None],
        prompts: Sequence[str | Messages],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[tuple[str, int]]:
        """Return texts and token counts, end token included, as `generate_captions` does.

        Raises:
            UserError: a prompt leaves no room for an answer.
        """
        from vllm import SamplingParams

        requests: list[dict[str, Any]] = []
        sampling = []
        for number, (image, prompt) in enumerate(zip(images, prompts, strict=True)):
            pixels = None if image is None else decode_image(image)
            request: dict[str, Any] = {"prompt_token_ids": prompt_token_ids(self.processor, pixels, prompt)}
            if pixels is not None or images_of(prompt):
                request["multi_modal_data"] = {"image": pixels if pixels is not None else images_of(prompt)}
            requests.append(request)
            sampling.append(
                SamplingParams(
                    max_tokens=max_new_tokens,
                    temperature=temperature,
                    top_p=top_p,
                    seed=seed + number,  # equal prompts of a batch are samples of their own
                    stop_token_ids=self._ends,
                    detokenize=False,
                    logit_bias=None if self._image_token is None else {self._image_token: -100.0},
                )
            )
        try:
            outputs = self._llm.generate(requests, sampling_params=sampling, use_tqdm=False)
        except ValueError as error:
            raise UserError(f"vLLM refuses a prompt: {_first_line(error)}; see engine.max_model_length") from error
        tokenizer = tokenizer_of(self.processor)
        token_ids = [list(output.outputs[0].token_ids) for output in outputs]
        return [(str(tokenizer.decode(ids, skip_special_tokens=True)), len(ids)) for ids in token_ids]

    def load(self, model: str | Path) -> None:
        """Answer as another model, by the running engine if only its weights differ."""
        place = model_place(str(model))
        if not Path(place).is_dir() or layout_digest(place) != self._layout:
            self.close()
            self._start(model)
            return
        self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(Path(place).resolve())})
        self._llm.reset_prefix_cache()
        self._llm.llm_engine.reset_encoder_cache()

    def close(self) -> None:
        if self._llm is None:  # another model could not be loaded
            return
        atexit.unregister(self.close)
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _end_ids(model: str | Path, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    try:
        declared = GenerationConfig.from_pretrained(str(model)).eos_token_id
    except OSError:  # a model without the file
        declared = None
    return end_ids(declared, tokenizer)


def _first_line(error: Exception) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    # The engine is a process of its own, whose errors are in the log only.
    return line.partition(" See root cause above")[0] + (
        " Its cause is in the log above" if "root cause" in line else ""
    )
