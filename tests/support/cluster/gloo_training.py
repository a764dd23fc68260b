"""Trainings by two processes on this machine: `run_processes` starts this file through torchrun, once per process.

Accelerate shards a model over accelerators only. Here each process is told that it has one, and computes on the CPU:
sharding, gathering, checkpoints and loading are those of FSDP 2 on GPUs, over gloo.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from training_configs import code_grpo_config, grpo_config, nft_config, sft_config

RESULT = "result-{rank}.json"
_MAX_SECONDS = 240.0
"""Seconds after which a process shows where it stands and ends; an operation that one of them misses waits for ever."""
RUBRIC = {"criteria": [{"criterion": "It names a colour.", "reference": "red", "weight": 1, "essential": True}]}
ITEM = {"criterion": "It names a colour.", "rationale": "", "credit": 1}
LABEL = json.dumps({"thought": "", "essential": [ITEM], "additional": []})
WRONG = json.dumps({"thought": "", "essential": [ITEM | {"credit": 0}], "additional": []})
QUESTION = "score {number} :"


def run_processes(
    tasks: dict[str, dict[str, Any]], folder: Path, *, processes: int = 2, sharded: bool = True
) -> list[dict[str, Any]]:
    """Run tasks of this file, one after the other, in each process and return what each wrote.

    Args:
        tasks: name → arguments.
    Raises:
        RuntimeError: the processes failed; the message is the end of their output.
    """
    from rubricworks.kubernetes.config import TrainJobConfig
    from rubricworks.kubernetes.train_job import fsdp_environment

    folder.mkdir(parents=True, exist_ok=True)
    from support_paths import SUPPORT_PATHS

    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([*SUPPORT_PATHS, os.environ.get("PYTHONPATH", "")])
    environment |= fsdp_environment(TrainJobConfig(sharding="fsdp" if sharded else "none"))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, __file__, str(folder), json.dumps(tasks)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-40000:])
    return [json.loads((folder / RESULT.format(rank=rank)).read_text()) for rank in range(processes)]


def sft(folder: Path, model: str, config: dict[str, Any]) -> dict[str, Any]:
    from coloured_squares import squares

    from rubricworks.training.sft import train_sft

    steps: list[int] = []
    train_sft(model, squares(), folder / "sft", sft_config(**config), on_log=lambda log: steps.append(log.step))
    return {"steps": steps}


def text_sft(folder: Path, model: str, config: dict[str, Any]) -> dict[str, Any]:
    """SFT on texts without images."""
    from coloured_squares import squares

    from rubricworks.training.sft import train_sft

    steps: list[int] = []
    texts = [(None, prompt, caption) for _, prompt, caption in squares()]
    train_sft(model, texts, folder / "text_sft", sft_config(**config), on_log=lambda log: steps.append(log.step))
    return {"steps": steps}


def vlm(folder: Path, model: str, config: dict[str, Any], instructions: str = "") -> dict[str, Any]:
    """Stages of a LLaVA's pretraining: the projector alone, the whole model at two learning rates, and instructions.

    Args:
        instructions: table for the last stage, which is left out without.
    """
    from coloured_squares import squares

    from rubricworks.training.examples import StoredConversations
    from rubricworks.training.llava import PROJECTOR, VISION_TOWER
    from rubricworks.training.module_rates import ModuleRates
    from rubricworks.training.sft import train_sft

    steps: dict[str, list[int]] = {}
    stages = {"aligned": ModuleRates((PROJECTOR,)), "whole": ModuleRates(rates={VISION_TOWER: 1e-3})}
    if instructions:
        stages["tuned"] = stages["whole"]
    for name, modules in stages.items():
        log = steps.setdefault(name, [])
        model = str(
            train_sft(
                model,
                StoredConversations(Path(instructions)) if name == "tuned" else squares(),
                folder / name,
                sft_config(**config),
                on_log=lambda line, log=log: log.append(line.step),  # type: ignore[misc]
                modules=modules,
                plain=name == "aligned",
            )
        )
    return {"steps": steps}


def load(folder: Path, model: str) -> dict[str, Any]:
    """Load a model as trainings do; bytes of its weights, and by how many the process grew."""
    from rubricworks.training.generate import load_model
    from rubricworks.training.processes import main_process_first

    with main_process_first():
        before = _resident_bytes()
    loaded, _ = load_model(model, dtype="bfloat16", on_device=False)  # float32 would stay a mapped file
    grown = _resident_bytes() - before
    return {
        "weights": sum(parameter.numel() * parameter.element_size() for parameter in loaded.parameters()),
        "grown": grown,
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def policy(folder: Path, model: str, config: dict[str, Any], recorded: bool = True) -> dict[str, Any]:
    """Policy training on squares; a recorded group says the colours in turn, and red pays."""
    from coloured_squares import policy_rows

    from rubricworks.training.policy.grpo import train_policy

    async def says_red(prompts: Any, completions: Any, **columns: Any) -> list[float]:
        return [float("red" in completion[0]["content"]) for completion in completions]

    if recorded:
        answers = [f"at top-left a {colour} square ." for colour in ("red", "green", "blue", "red")]
        _record_rollouts({row["sample_id"]: answers for row in policy_rows()})
    folder = folder / ("policy" if recorded else "drawn")
    result = train_policy(model, policy_rows(), says_red, folder, grpo_config(**config))
    return {"rewards": [step.reward for step in result.history]}


def genrm(folder: Path, model: str, config: dict[str, Any]) -> dict[str, Any]:
    """RLVR of a GenRM on labels; a recorded group is right twice, wrong once and malformed once."""
    from rubricworks.adapters.genrm import ExecutionReward
    from rubricworks.training.policy.grpo import train_policy

    rows = [
        {"sample_id": f"g{number}", "prompt": QUESTION.format(number=number), "label": LABEL}
        | {"rubric": json.dumps(RUBRIC)}
        for number in range(8)
    ]
    _record_rollouts({row["sample_id"]: [LABEL, WRONG, LABEL[:20], LABEL] for row in rows})
    result = train_policy(model, rows, ExecutionReward(), folder / "genrm", grpo_config(**config))
    return {"rewards": [step.reward for step in result.history]}


def genrm_sft(folder: Path, model: str, config: dict[str, Any]) -> dict[str, Any]:
    """SFT of a GenRM on labels, with prompts of several lengths."""
    from rubricworks.training.sft import train_sft

    steps: list[int] = []
    rows = [(None, QUESTION.format(number=number) * (1 + number % 3), LABEL) for number in range(8)]
    train_sft(model, rows, folder / "genrm_sft", sft_config(**config), on_log=lambda log: steps.append(log.step))
    return {"steps": steps}


def generator(folder: Path, model: str, config: dict[str, Any], recorded: bool = True) -> dict[str, Any]:
    """Policy training of an image generator; of recorded images, some prompts have no signal and give way."""
    import torch

    from rubricworks.training.generators.autoregressive import CodeGenerator, SampledCodes
    from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
    from rubricworks.training.generators.policy import train_image_policy

    group = config["group_size"]

    def draw(self: Any, prompts: Any, **options: Any) -> SampledCodes:
        rows = [torch.Generator().manual_seed(100 * len(prompt) + at % group) for at, prompt in enumerate(prompts)]
        codes = [torch.randint(self.codec.codes, (self.codec.length,), generator=row) for row in rows]
        return SampledCodes(torch.stack(codes), torch.zeros(len(codes), self.codec.length))

    async def rewards(prompts: Any, completions: Any, sample_id: Any, **columns: Any) -> list[float]:
        return [float(name in ("s0", "s1")) or (at % group) / group for at, name in enumerate(sample_id)]

    if recorded:
        CodeGenerator.sample = draw  # type: ignore[method-assign, assignment]
    words = ["a", "a red", "a red circle", "a blue circle a", "a circle a red circle", "a a a a a a"]
    rows = [{"sample_id": f"s{at}", "prompt": prompt, "rubric": "{}"} for at, prompt in enumerate(words)]
    steps: list[Any] = []
    result = train_image_policy(
        model, rows, [rewards], folder / "generator", code_grpo_config(**config), statistics=IMAGE_STATISTICS,
        on_step=steps.append,
    )  # fmt: skip
    trained = [
        sorted(
            {name for name, advantage in zip(step.sample_ids, step.advantages, strict=True) if advantage is not None}
        )
        for step in steps
    ]
    return {"rewards": [step.reward for step in result.history], "trained": trained}


def diffusion(folder: Path, model: str, config: dict[str, Any]) -> dict[str, Any]:
    """DiffusionNFT of a flow-matching generator; a picture earns more the bluer its corner, and some earn alike."""
    import io

    import numpy as np
    from PIL import Image

    from rubricworks.training.generators.flow_matching.diffusion_policy import train_diffusion_policy
    from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS

    async def likes_blue(prompts: Any, completions: Any, sample_id: Any, **columns: Any) -> list[float]:
        asked.extend(sample_id)
        pixels = [np.asarray(Image.open(io.BytesIO(image.image)).convert("RGB"), float) for image in completions]
        blue = [0.5 + float((image[:9, :9, 2] - image[:9, :9, 0]).mean()) / 50 for image in pixels]
        return [0.0 if name == "s0" else value for name, value in zip(sample_id, blue, strict=True)]

    asked: list[str] = []
    """Samples that this process has judged in this step."""
    words = ["a red circle", "a blue circle", "a red circle", "a blue circle", "a red circle", "a blue circle"]
    rows = [{"sample_id": f"s{at}", "prompt": prompt, "rubric": "{}"} for at, prompt in enumerate(words)]
    steps: list[dict[str, Any]] = []

    def record(step: Any) -> None:
        steps.append({"own": list(asked), "names": step.sample_ids, "advantages": step.advantages})
        asked.clear()

    result = train_diffusion_policy(
        model, rows, [likes_blue], folder / "diffusion", nft_config(**config), statistics=IMAGE_STATISTICS,
        on_step=record,
    )  # fmt: skip
    return {"rewards": [step.reward for step in result.history], "steps": steps}


def count_gathers(folder: Path, **tasks: Any) -> dict[str, Any]:
    """Run SFT several times; in each, count how often a shard of the model was gathered and how often modules ran."""
    import torch
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    counts = {"gathers": 0, "runs": 0}
    gather = _fsdp_param_group.foreach_all_gather

    def counted(*args: Any, **options: Any) -> Any:
        counts["gathers"] += 1
        return gather(*args, **options)

    def ran(*_: Any) -> None:
        counts["runs"] += 1

    _fsdp_param_group.foreach_all_gather = counted
    hook = torch.nn.modules.module.register_module_forward_pre_hook(ran)
    of_tasks = {}
    for name, arguments in tasks.items():
        counts |= {"gathers": 0, "runs": 0}
        sft(folder / name, **arguments)
        of_tasks[name] = dict(counts)
    hook.remove()
    _fsdp_param_group.foreach_all_gather = gather
    return of_tasks


def _record_rollouts(answers: dict[str, list[str]]) -> None:
    """Make the trainer draw these texts, by sample and position in the group."""
    from rubricworks.training.policy.rollouts import PolicyTrainer
    from rubricworks.training.processing import tokenizer_of

    score = PolicyTrainer.__dict__["_generate_and_score_completions"]
    score = getattr(score, "drawn", score)

    def remember(self: Any, inputs: Any) -> Any:
        self.drawn_for = [row["sample_id"] for row in inputs]
        return score(self, inputs)

    def draw(self: Any, *args: Any, **options: Any) -> tuple[list[list[int]], None]:
        tokenizer = tokenizer_of(self.processing_class)
        texts = [answers[name][at % len(answers[name])] for at, name in enumerate(self.drawn_for)]
        return [[*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id] for text in texts], None

    remember.drawn = score  # type: ignore[attr-defined]
    PolicyTrainer._generate_and_score_completions = remember  # type: ignore[method-assign]
    PolicyTrainer._generate_single_turn = draw  # type: ignore[method-assign]


def kill_at(folder: Path, file: str, rank: int = 1) -> dict[str, Any]:
    """Kill the process of this rank as soon as the file exists."""
    if int(os.environ["RANK"]) == rank:
        threading.Thread(target=_kill_when, args=(folder / file,), daemon=True).start()
    return {}


def _kill_when(file: Path) -> None:
    while not file.exists():
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


TASKS = {
    function.__name__: function
    for function in (load, sft, text_sft, vlm, policy, genrm, genrm_sft, generator, diffusion, kill_at, count_gathers)
}


class HeldParameters:
    """Most bytes of the model's parameters that this process holds while it trains: its shards, and what it gathers."""

    def __init__(self) -> None:
        self.whole = self.most = 0
        self._model: Any = None

    def watch(self) -> None:
        """Watch every model that a trainer loads from now on."""
        import torch

        from rubricworks.training import sft
        from rubricworks.training.policy import grpo

        def load_model(*args: Any, **options: Any) -> Any:
            model, processor = self._load(*args, **options)
            self._model = model
            self.whole = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
            self.most = 0
            return model, processor

        self._load = sft.load_model
        sft.load_model = grpo.load_model = load_model
        torch.nn.modules.module.register_module_forward_pre_hook(self._count)
        torch.nn.modules.module.register_module_forward_hook(self._count)

    def _count(self, module: Any, *_: Any) -> None:
        if self._model is None:  # a trainer that loads its model by itself
            return
        parts = [getattr(parameter, "_local_tensor", parameter) for parameter in self._model.parameters()]
        self.most = max(self.most, sum(part.numel() * part.element_size() for part in parts))


def main() -> None:
    faulthandler.enable()
    faulthandler.dump_traceback_later(_MAX_SECONDS, exit=True)
    folder, tasks = Path(sys.argv[1]), json.loads(sys.argv[2])
    import torch

    from rubricworks.training.processes import shard_on_cpu

    torch.set_num_threads(1)
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        shard_on_cpu()
    held, results = HeldParameters(), {}
    held.watch()
    for name, arguments in tasks.items():
        results[name] = TASKS[name](folder, **arguments)
        results[name] |= {"whole": held.whole, "most": held.most}
    (folder / RESULT.format(rank=os.environ["RANK"])).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
