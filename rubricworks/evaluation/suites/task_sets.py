"""Sets of benchmarks that the papers report, each with its task in lmms-eval, or in ms-vlmeval where that has none.

Where the answers of a test split are not public, the task is the validation split, and the note says so.
"""

from typing import NamedTuple

from rubricworks.evaluation.suites.harness import Harness
from rubricworks.evaluation.suites.lmms_eval import LMMS_EVAL
from rubricworks.evaluation.suites.vlmeval import VLMEVAL

_VALIDATION = "validation split: the answers of the test split are not public"


class Benchmark(NamedTuple):
    """One benchmark of a set."""

    name: str
    """As the paper writes it."""
    task: str
    """Task or group of the harness."""
    metric: str
    """Metric of the task that the paper reports; of ms-vlmeval, the column of a sample's score."""
    note: str = ""
    harness: Harness = LMMS_EVAL


_AI2D = Benchmark("AI2D", "ai2d", "exact_match")
_BLINK = Benchmark("BLINK", "blink", "blink_acc")
_CHARTQA = Benchmark("ChartQA", "chartqa", "relaxed_overall")
_DOCVQA = Benchmark("DocVQA", "docvqa_val", "anls", _VALIDATION)
_INFOVQA = Benchmark("InfoVQA", "infovqa_val", "anls", _VALIDATION)
_MMBENCH = Benchmark("MMBench", "mmbench_en_dev", "gpt_eval_score", "a judge reads answers without a letter")
_MMSTAR = Benchmark("MMStar", "mmstar", "average")
_OCRBENCH = Benchmark("OCRBench", "ocrbench", "ocrbench_accuracy")
_SCIENCEQA = Benchmark("ScienceQA", "scienceqa_img", "exact_match")
_SEEDBENCH = Benchmark("SEEDBench", "seedbench", "seed_image")
_TEXTVQA = Benchmark("TextVQA", "textvqa_val", "exact_match", _VALIDATION)

TASK_SETS: dict[str, tuple[Benchmark, ...]] = {
    # RubiCap, section 4.3
    "rubicap-10": (
        Benchmark("GQA", "gqa", "exact_match"),
        _BLINK,
        _AI2D,
        Benchmark("RealWorldQA", "realworldqa", "exact_match"),
        _OCRBENCH,
        _TEXTVQA,
        Benchmark("OCRVQA", "OCRVQA_TESTCORE", "eval_score", "VLMEvalKit's core of the test split", VLMEVAL),
        _INFOVQA,
        _DOCVQA,
        _CHARTQA,
    ),
    # RubiCap, appendix H, tables 5 and 6
    "rubicap-9": (
        _SEEDBENCH,
        Benchmark("A-OKVQA", "A-OKVQA", "hit", "letters are read without a judge", VLMEVAL),
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
        Benchmark("MathVista, CoT", "mathvista_testmini_cot", "llm_as_judge_eval", "a judge reads the answers"),
        Benchmark("MathVista, format", "mathvista_testmini_format", "llm_as_judge_eval", "a judge reads the answers"),
        Benchmark(
            "MathVista, solution", "mathvista_testmini_solution", "llm_as_judge_eval", "a judge reads the answers"
        ),
        _MMBENCH,
        Benchmark("MMMU", "mmmu_val", "mmmu_acc"),
        Benchmark("MM-Vet", "mmvet", "gpt_eval_score", "a judge reads the answers"),
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
        Benchmark("We-Math", "wemath_testmini_reasoning", "acc_score"),
        Benchmark("DynaMath", "dynamath_reasoning", "dynamath_average"),
        Benchmark("MathVision", "mathvision_reason_test_reasoning", "acc_score"),
        Benchmark("MathVerse (mini)", "mathverse_testmini_reasoning", "acc_score"),
        Benchmark("MathVista (mini)", "mathvista_testmini_cot_reasoning", "acc_score"),
        Benchmark("MMMU-Pro", "mmmu_pro_reasoning", "acc_score"),
        Benchmark("RealWorldQA", "realworldqa_reasoning", "acc_score"),
        Benchmark("MMStar", "mmstar_reasoning", "acc_score"),
        Benchmark("SimpleVQA", "simplevqa", "exact_match", "lmms-eval's own prompt: it has no boxed form"),
        Benchmark("CountBenchQA", "countbenchqa_reasoning", "acc_score"),
        Benchmark("InfoVQA", "infovqa_val_reasoning", "anls", _VALIDATION),
        Benchmark("DocVQA", "docvqa_val_reasoning", "anls", _VALIDATION),
        Benchmark("ChartQA", "chartqa_reasoning", "relaxed_overall_acc_score"),
        Benchmark("CharXiv (DQ)", "charxiv_val_descriptive_cot", "acc_score", _VALIDATION),
        Benchmark("CharXiv (RQ)", "charxiv_val_reasoning_cot", "acc_score", _VALIDATION),
    ),
    # The scene world's own, exported by `rubricworks world export --benchmarks`
    "scene-5": tuple(
        Benchmark(name.capitalize(), f"scene_{name}", "right")
        for name in ("count", "colour", "relation", "reading", "box")
    ),
}
"""Set → its benchmarks, in the paper's order."""
