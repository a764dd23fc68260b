"""The tutorials of docs/architecture.md, carried out in a copy of the tree, block by block."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rubricworks.data.tables import read_rows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<kind>\w+) title="(?P<path>[^"]+)"\n(?P<body>.*?)^(?P=indent)```$', re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A new file, or, as `diff`, a change: lines with a space or a minus become those with a space or a plus."""

    kind: str
    path: str
    body: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        if self.kind != "diff":
            assert not file.exists(), f"{self.path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.body)
            return
        lines = self.body.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        text = file.read_text()
        assert text.count(before) == 1, f"{self.path} does not hold these lines once:\n{before}"
        file.write_text(text.replace(before, after))


def blocks(heading: str) -> list[Block]:
    """The code blocks of one section of the page that name a file."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [
        Block(match["kind"], match["path"], re.sub(rf"(?m)^{match['indent']}", "", match["body"]))
        for match in BLOCK.finditer(section)
    ]


def contents(root: Path) -> dict[str, bytes]:
    """Path → bytes of every file of the copy."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def changed_files(heading: str, root: Path) -> set[str]:
    """Carry a tutorial out; the files that it changed or made."""
    before = contents(root)
    for block in blocks(heading):
        block.apply(root)
    after = contents(root)
    return {path for path, content in after.items() if before.get(path) != content}


class Copy(NamedTuple):
    root: Path
    method: set[str]
    reward: set[str]
    stage: set[str]
    verifier: set[str]
    scorer: set[str]

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the copy; it must end well."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    """Copy of the files that git tracks, or would, with all tutorials carried out one after the other."""
    root = tmp_path_factory.mktemp("tree") / "rubricworks"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (source := ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, root / name)
    # What sits at the top is imported below `rubricworks`, as it is installed.
    for folder in ("components", "pipelines", "platform_api", "recipes"):
        (root / "rubricworks" / folder).symlink_to(root / folder, target_is_directory=True)
    return Copy(root, *(changed_files(f"Add a {what}", root) for what in Copy._fields[1:]))


@pytest.fixture(scope="module")
def run(copy) -> Path:
    copy.python("-m", "rubricworks.cli", "run", "medoid", "--run", "toy", "--set", "lengths.parts=2")
    return copy.root / "runs" / "toy"


def test_method_is_a_folder_and_few_files_outside_it(copy):
    inside = {path for path in copy.method if path.startswith("rubricworks/methods/medoid/")}
    assert inside
    assert len(copy.method) <= 8
    assert len(copy.method - inside) <= 5


def test_reward_is_a_file_and_its_line(copy):
    assert copy.reward == {"rubricworks/policy/rewards/brevity.py", "rubricworks/policy/policy.py"}


def test_stage_changes_few_files(copy):
    assert len(copy.stage) <= 5


def test_verifier_is_a_function_an_entry_and_a_test(copy):
    assert copy.verifier == {
        "rubricworks/verifiers/near.py", "rubricworks/verifiers/verifier_table.py", "tests/verifiers/test_near.py",
    }  # fmt: skip


def test_scorer_is_a_module_its_line_and_a_test(copy):
    assert copy.scorer == {
        "rubricworks/evaluation/scorers/variety.py", "rubricworks/evaluation/scorers/scorer_table.py",
        "tests/evaluation/test_variety.py",
    }  # fmt: skip


def test_scorer_measures_the_captions_that_the_method_chose(copy, run):
    responses = f"medoid={run / 'choose_captions'}"
    options = ["--with", "variety", "--out", str(run / "scored")]
    copy.python("-m", "rubricworks.cli", "evaluate", responses, "--on", str(run), *options)
    held_out = {row["sample_id"] for row in read_rows(run / "prepare") if row["split"] == "held_out"}
    words = [row["caption"].lower().split() for row in read_rows(run / "choose_captions")
             if row["sample_id"] in held_out]  # fmt: skip
    (scores,) = json.loads((run / "scored" / "score" / "scores.json").read_text())["models"]
    assert scores["means"]["variety"]["value"] == pytest.approx(
        sum(len(set(word)) / len(word) for word in words) / len(words)
    )


def test_code_of_the_tutorials_is_in_the_style_of_the_tree(copy):
    files = sorted(path for path in set().union(*copy[1:]) if path.endswith(".py"))
    copy.python("-m", "ruff", "check", *files)
    copy.python("-m", "ruff", "format", "--check", *files)


def test_method_chooses_the_caption_that_shares_most_words_with_the_others(run):
    offered: dict[str, list[str]] = {}
    for row in read_rows(run / "caption_committee"):
        offered.setdefault(row["sample_id"], []).append(row["caption"])
    chosen = {row["sample_id"]: row["caption"] for row in read_rows(run / "choose_captions")}
    assert len(chosen) == 24
    assert chosen.keys() == offered.keys()
    for sample, captions in offered.items():
        words = [set(caption.lower().split()) for caption in captions]
        sums = [0.0] * len(words)
        for (a, first), (b, other) in itertools.combinations(enumerate(words), 2):
            share = len(first & other) / len(first | other)
            sums[a] += share
            sums[b] += share
        assert chosen[sample] == captions[sums.index(max(sums))]


def test_stage_of_the_tutorial_measures_the_chosen_captions(run):
    lengths = sorted(len(row["caption"].split()) for row in read_rows(run / "choose_captions"))
    measured = json.loads((run / "caption_lengths" / "lengths.json").read_text())
    assert measured["captions"] == len(lengths)
    assert measured["mean"] == pytest.approx(sum(lengths) / len(lengths))
    assert measured["cuts"] == [(lengths[11] + lengths[12]) / 2]  # two parts: the median


def test_method_is_compiled_for_kubeflow_with_the_stage(copy):
    copy.python("-m", "rubricworks.cli", "pipelines", "compile", "medoid")
    tasks = yaml.safe_load((copy.root / "compiled" / "medoid.yaml").read_text())["root"]["dag"]["tasks"]
    after = {name: set(task.get("dependentTasks", ())) for name, task in tasks.items()}
    assert after == {
        "prepare": set(),
        "caption-committee": {"prepare"},
        "choose-captions": {"caption-committee"},
        "caption-lengths": {"choose-captions"},
    }


def test_plan_counts_the_calls_of_the_method(copy):
    plan = copy.python("-m", "rubricworks.cli", "run", "medoid", "--dry-run").stdout
    assert len(re.findall(r"caption_committee +24 +caption +teacher-\d", plan)) == 3


BREVITY = "policy.reward={type: brevity, words: 2}"


def test_reward_of_the_tutorial_is_planned_described_and_corrected(copy):
    plan = copy.python("-m", "rubricworks.cli", "run", "quickstart", "--set", BREVITY, "--dry-run").stdout
    assert re.findall(r"(?m)^train_policy +[\d,]+ +(\w+)", plan) == ["probe"]
    assert '"brevity"' in copy.python("-m", "rubricworks.cli", "recipes", "schema").stdout
    program = (
        "from rubricworks.errors import UserError\n"
        "from rubricworks.recipe.files import load_recipe, recipe_path\n"
        "print(load_recipe(recipe_path('quickstart'), ['policy.reward={type: brevity}']).policy.describe())\n"
        "try:\n"
        "    load_recipe(recipe_path('quickstart'), ['policy.reward={type: brevty}'])\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    told = copy.python("-c", program).stdout
    assert "The reward is 1 for up to 20 words" in told
    assert "did you mean brevity?" in told


def test_reward_of_the_tutorial_falls_with_the_words_beyond(copy):
    program = (
        "import asyncio\n"
        "from rubricworks.policy.rewards.brevity import Brevity\n"
        "counts = []\n"
        "reward = Brevity(2, counts.extend)\n"
        "print(asyncio.run(reward(prompts=[''] * 4, completions=['a cat', 'a red cat there', 'cat', ' '])), counts)\n"
    )
    assert copy.python("-c", program).stdout == "[1.0, 0.5, 1.0, 0.0] [1, 1, 1, 1]\n"


def test_models_are_told_of_the_verifier(copy):
    program = (
        "from rubricworks.grading.requests import request_with_exposure\n"
        "from rubricworks.data.tables import Sample\n"
        "from rubricworks.grading import scoring_messages\n"
        "from rubricworks.rubrics import Criterion, Rubric\n"
        "from rubricworks.synthesis.verifier_guide import guide_text\n"
        "reference = 'near_verify(target=42, within=1)'\n"
        "criterion = Criterion(criterion='Length', description='The length', weight=1, reference=reference)\n"
        "sample = Sample(sample_id='s', prompt='How long is it?')\n"
        "request = request_with_exposure(sample, 'About 41', Rubric(criteria=(criterion,)), 'text')\n"
        "print(scoring_messages(request)[0]['content'], guide_text(['near_verify']))\n"
    )
    told = copy.python("-c", program).stdout
    assert "near_verify(predict: str)" in told
    assert "near_verify(target: float, within: float = 0)" in told


def test_tests_of_the_tree_hold_for_what_was_added(copy):
    """None of them keeps a list of its own of stages, components, packages or rooms."""
    tests = (
        "verifiers/test_near.py",
        "evaluation/test_variety.py",
        "test_import_rule.py",
        "test_packaging.py",
        "pipelines/test_every_pipeline.py",
    )
    done = copy.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{name}" for name in tests), "-k", "not whole_pipeline"
    )  # fmt: skip
    assert " passed" in done.stdout
