"""Sets of benchmarks that the papers report, each with its task in lmms-eval, or in ms-vlmeval where that has none.

If the answers of a test split are not public, the task is the validation split, and the note says so.
"""

from typing import NamedTuple

from rubricworks.evaluation.suites.harness import Harness
from rubricworks.evaluation.suites.judge_gateway import JudgeForm
from rubricworks.evaluation.suites.lmms_eval import LMMS_EVAL
from rubricworks.evaluation.suites.vlmeval import VLMEVAL

_VALIDATION = "validation split: the answers of the test split are not public"


class Benchmark(NamedTuple):
    """One benchmark of a set."""

    name: str
    """Name, as in the paper."""
    task: str
    """Task or group of the harness."""
    metric: str
    """Metric of the task that the paper reports; of ms-vlmeval, the column of a sample's score."""
    note: str = ""
    harness: Harness = LMMS_EVAL
    judge: JudgeForm | None = None
    """Form of the judge's answer; None for a task that only rules score."""
    percent: bool = False
    """The metric is out of 100."""
    answer_tokens: int = 1024
    """The task's own limit of an answer in tokens, or the harness's if that is lower."""
    questions: int = 0
    """Number of questions, for plans."""


_REASONING_TOKENS = 49_152


def _mathvista(name: str, form: str) -> Benchmark:
    task, note = f"mathvista_testmini_{form}", "a judge reads the answers"
    return Benchmark(
        f"MathVista, {name}",
        task,
        "llm_as_judge_eval",
        note,
        judge="extraction",
        percent=True,
        answer_tokens=16_384,
        questions=1000,
    )


def _reasoning(name: str, task: str, questions: int, *, metric: str = "acc_score", note: str = "") -> Benchmark:
    """A task in lmms-eval's form for reasoning models: by rules, and by a judge where these find no match."""
    tokens = _REASONING_TOKENS
    return Benchmark(name, task, metric, note, judge="verdict", answer_tokens=tokens, questions=questions)


_AI2D = Benchmark("AI2D", "ai2d", "exact_match", questions=3088)
_BLINK = Benchmark("BLINK", "blink", "blink_acc", questions=1901)
_CHARTQA = Benchmark("ChartQA", "chartqa", "relaxed_overall", questions=2500)
_DOCVQA = Benchmark("DocVQA", "docvqa_val", "anls", _VALIDATION, questions=5349)
_INFOVQA = Benchmark("InfoVQA", "infovqa_val", "anls", _VALIDATION, questions=2801)
_MMBENCH = Benchmark(
    "MMBench",
    "mmbench_en_dev",
    "gpt_eval_score",
    "a judge reads answers without a letter",
    judge="letter",
    percent=True,
    questions=4329,
)
_MMSTAR = Benchmark("MMStar", "mmstar", "average", questions=1500)
_OCRBENCH = Benchmark("OCRBench", "ocrbench", "ocrbench_accuracy", questions=1000)
_SCIENCEQA = Benchmark("ScienceQA", "scienceqa_img", "exact_match", questions=2017)
_SEEDBENCH = Benchmark("SEEDBench", "seedbench", "seed_image", questions=17_990)
_TEXTVQA = Benchmark("TextVQA", "textvqa_val", "exact_match", _VALIDATION, questions=5000)

TASK_SETS: dict[str, tuple[Benchmark, ...]] = {
    # RubiCap, section 4.3
    "rubicap-10": (
        Benchmark("GQA", "gqa", "exact_match", questions=12_578),
        _BLINK,
        _AI2D,
        Benchmark("RealWorldQA", "realworldqa", "exact_match", questions=765),
        _OCRBENCH,
        _TEXTVQA,
        Benchmark(
            "OCRVQA", "OCRVQA_TESTCORE", "eval_score", "VLMEvalKit's core of the test split", VLMEVAL, questions=3072
        ),
        _INFOVQA,
        _DOCVQA,
        _CHARTQA,
    ),
    # RubiCap, appendix H, tables 5 and 6
    "rubicap-9": (
        _SEEDBENCH,
        Benchmark("A-OKVQA", "A-OKVQA", "hit", "letters are read without a judge", VLMEVAL, questions=1145),
        _BLINK,
        _CHARTQA,
        _SCIENCEQA,
        _DOCVQA,
        _INFOVQA,
        _TEXTVQA,
        _OCRBENCH,
    ),
    # RubiCap, table 1
    "pretrain-9": (
        _AI2D,
        _CHARTQA,
        _mathvista("CoT", "cot"),
        _mathvista("format", "format"),
        _mathvista("solution", "solution"),
        _MMBENCH,
        Benchmark("MMMU", "mmmu_val", "mmmu_acc", questions=900),
        Benchmark(
            "MM-Vet",
            "mmvet",
            "gpt_eval_score",
            "a judge scores the answers",
            judge="score",
            percent=True,
            questions=218,
        ),
        _SCIENCEQA,
    ),
    # BalCapRL, table 2
    "balcaprl-10": (
        _BLINK,
        _CHARTQA,
        _DOCVQA,
        _INFOVQA,
        _MMBENCH,
        _MMSTAR,
        _OCRBENCH,
        _SCIENCEQA,
        _SEEDBENCH,
        _TEXTVQA,
    ),
    # RLR³, section 5.1: step by step, the answer in the last box; lmms-eval's forms for reasoning models
    "rlr3-15": (
        _reasoning("We-Math", "wemath_testmini_reasoning", 1740),
        _reasoning("DynaMath", "dynamath_reasoning", 5010, metric="dynamath_average"),
        _reasoning("MathVision", "mathvision_reason_test_reasoning", 3040),
        _reasoning("MathVerse (mini)", "mathverse_testmini_reasoning", 3940),
        _reasoning("MathVista (mini)", "mathvista_testmini_cot_reasoning", 1000),
        _reasoning("MMMU-Pro", "mmmu_pro_reasoning", 3460),
        _reasoning("RealWorldQA", "realworldqa_reasoning", 765),
        _reasoning("MMStar", "mmstar_reasoning", 1500),
        Benchmark(
            "SimpleVQA", "simplevqa", "exact_match", "lmms-eval's own prompt: it has no boxed form", questions=2025
        ),
        _reasoning("CountBenchQA", "countbenchqa_reasoning", 491),
        Benchmark(
            "InfoVQA", "infovqa_val_reasoning", "anls", _VALIDATION, answer_tokens=_REASONING_TOKENS, questions=2801
        ),
        Benchmark(
            "DocVQA", "docvqa_val_reasoning", "anls", _VALIDATION, answer_tokens=_REASONING_TOKENS, questions=5349
        ),
        _reasoning("ChartQA", "chartqa_reasoning", 2500, metric="relaxed_overall_acc_score"),
        _reasoning(
            "CharXiv (DQ)",
            "charxiv_val_descriptive_cot",
            4000,
            note=f"{_VALIDATION}; lmms-eval 0.7.3 asks one of each chart's four questions, four times",
        ),
        _reasoning("CharXiv (RQ)", "charxiv_val_reasoning_cot", 1000, note=_VALIDATION),
    ),
    # The scene world's own, exported by `rubricworks world export --benchmarks`
    "scene-5": tuple(
        Benchmark(name.capitalize(), f"scene_{name}", "right")
        for name in ("count", "colour", "relation", "reading", "box")
    ),
}
"""Set → its benchmarks, in the paper's order."""
