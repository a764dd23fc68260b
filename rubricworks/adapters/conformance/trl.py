"""TRL under the cases: its own `GRPOTrainer` takes a step with a language model of one layer.

Written against TRL 1.16. Reward functions are asynchronous, as those that ask a judge are.
"""

import logging
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from rubricworks.adapters.conformance.cases import Batch, Failure, number
from rubricworks.adapters.conformance.findings import Outcome, line_of

_WORDS = ("<pad>", "<eos>", "describe", "it", "a", "red", "circle")
_MODEL = GPT2Config(
    vocab_size=len(_WORDS),
    n_positions=16,
    n_embd=8,
    n_layer=1,
    n_head=1,
    bos_token_id=1,
    eos_token_id=1,
    pad_token_id=0,
)


class _OneStep(GRPOTrainer):
    """Keeps the advantages of its first step."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.first_advantages = output["advantages"].tolist()
        return output


class TrlTrainer:
    """TRL's advantages of a batch."""

    package = "trl"
    left_out = Outcome.MASKED

    def advantages(self, batch: Batch) -> Sequence[float]:
        """Return the advantages of TRL's first step with these rewards."""
        for name in ("trl", "transformers"):  # they warn of every row without a reward
            logging.getLogger(name).setLevel(logging.ERROR)
        rows = len(batch.rewards_NK)
        with tempfile.TemporaryDirectory() as folder:
            arguments = GRPOConfig(
                output_dir=folder,
                max_steps=1,
                per_device_train_batch_size=rows,
                num_generations=batch.group_size,
                max_completion_length=2,
                multi_objective_aggregation="sum_then_normalize"
                if batch.aggregation == "sum"
                else "normalize_then_sum",
                use_cpu=True,
                bf16=False,
                activation_checkpointing=False,
                save_strategy="no",
                logging_strategy="no",
                dataloader_pin_memory=False,
                disable_tqdm=True,
                report_to="none",
            )
            trainer = _OneStep(
                model=GPT2LMHeadModel(_MODEL),
                reward_funcs=[_scripted(batch, column) for column in range(len(batch.rewards_NK[0]))],
                args=arguments,
                train_dataset=Dataset.from_list([{"prompt": "describe it"}] * rows),
                processing_class=_tokenizer(),
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        advantages: list[float] = trainer.first_advantages
        return advantages

    def line(self, batch: Batch) -> str:
        """Line that sums the rewards that are there, or that keeps an unjudged row out."""
        partly = any(0 < sum(isinstance(cell, Failure) for cell in row) < len(row) for row in batch.rewards_NK)
        text = {"sum": "(rewards_per_func * self", "decoupled": "(reward_k * self"}[batch.aggregation]
        return line_of(GRPOTrainer._generate_and_score_completions, text if partly else "unscorable_mask = ")


def _scripted(batch: Batch, column: int) -> Callable[..., Any]:
    async def reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return [number(row[column]) for row in batch.rewards_NK]

    reward.__name__ = f"reward_{column}"
    return reward


def _tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel({word: at for at, word in enumerate(_WORDS)}, unk_token="it"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
