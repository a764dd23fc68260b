import re
from pathlib import Path

import pytest
import synthetic_balcaprl_run as balcaprl
import synthetic_run as folder
from report_page import Page, text_of, write_balcaprl_report

from rubricworks.errors import UserError
from rubricworks.methods.balcaprl.sections import reward_steps, success_lines
from rubricworks.reports.run_summary import RunSummary


def percent(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")  # noqa: RUF001  as the page writes minus


def test_headline_sorts_scores_by_what_their_intervals_carry(tmp_path: Path) -> None:
    captions = balcaprl.write_whole_run(tmp_path / "run-1")
    html, summary = write_balcaprl_report(tmp_path / "run-1")
    text, gain = text_of(html), captions.gain("policy", "b_capscore")
    assert (summary["run"], summary["simulated"]) == ("run-1", False)
    assert list(summary["scores"]) == ["b_capscore", "dc_score", "caption_qa", "oracle_f1", "length_tokens"]
    assert summary["scores"]["b_capscore"]["gain"] == gain.model_dump()
    assert summary["oracle_f1"].items() < summary["scores"]["oracle_f1"].items()
    assert summary["win_rate"]["value"] == pytest.approx(22 / 30)
    training = summary["details"]["training"]
    assert (training["steps"], training["unjudged"], list(training["rewards"])) == (
        12,
        0,
        ["precision", "recall", "linguistic"],
    )
    assert gain.low > 0
    line = f"+{percent(gain.value)} points ({percent(gain.low)} to {percent(gain.high)})."
    assert f"The policy writes better captions than its base model: b-CapScore 50.0 → 54.1, {line}" in text
    better, worse, open_ = (
        re.search(rf"{word}: ([^.]*(?:\.\d[^.]*)*)\.", text) for word in ("Better", "Worse", "Not distinguishable")
    )
    assert better
    assert worse
    assert open_
    assert all(name in better[1] for name in ("recall", "linguistic", "DCScore", "Oracle F1", "arena 73"))
    assert worse[1].startswith("precision −14.0")  # noqa: RUF001
    assert open_[1].startswith("CaptionQA +0.0")
    assert "Length: longer, 20.0 → 32.8 tokens" in text


@pytest.mark.parametrize(
    ("gain", "images", "message"),
    [
        (-0.3, 30, "The policy writes worse captions than its base model"),
        (0.0, 30, "The policy's captions are not distinguishable from its base model's"),
        (0.4, 6, "Too few captions to tell"),
    ],
)
def test_headline_claims_no_more_than_the_interval_carries(
    tmp_path: Path, gain: float, images: int, message: str
) -> None:
    rows = [
        balcaprl.score_row(f"i{number}", model, recall=0.5 + (gain + (-1) ** number * 0.05 if model == "policy" else 0))
        for number in range(images)
        for model in ("base", "policy")
    ]
    balcaprl.write_captions(tmp_path, rows)
    text = text_of(write_balcaprl_report(tmp_path)[0])
    assert message in text
    assert ("Too few images to tell: precision" in text) is (images < 20)
    assert "Better: " not in text or images >= 20


def test_table_has_both_models_and_paired_differences(tmp_path: Path) -> None:
    captions = balcaprl.write_whole_run(tmp_path)
    text = text_of(write_balcaprl_report(tmp_path)[0])
    for name, label in (
        ("b_capscore_recall", "b-CapScore, recall"),
        ("dc_score", "DCScore"),
        ("oracle_f1", "Oracle F1"),
    ):
        base, policy = captions.mean("base", name), captions.mean("policy", name)
        gain = captions.gain("policy", name)
        row = f"{label} {percent(base.value)} {percent(base.low)} to {percent(base.high)} {percent(policy.value)} "
        row += f"{percent(policy.low)} to {percent(policy.high)} +{percent(gain.value)} {percent(gain.low)} to "
        assert f"{row}{percent(gain.high)} 30" in text


def test_score_that_was_not_measured_is_left_out(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("dc_score", "dc_f1", "dc_precision", "dc_recall", "caption_qa", "oracle_f1"))
    rows = [balcaprl.score_row(f"i{n}", model, **nothing) for n in range(25) for model in ("base", "policy")]
    balcaprl.write_captions(tmp_path, rows)
    html, summary = write_balcaprl_report(tmp_path)
    hero = text_of(html[html.index("hero") : html.index('id="training"')])
    assert "b-CapScore 50.0 50.0 to 50.0" in hero
    assert not re.search(r"DCScore|CaptionQA|Oracle F1|Arena", hero)
    assert summary["win_rate"] is None


def test_unjudged_captions_are_counted_not_scored(tmp_path: Path) -> None:
    rows = balcaprl.scored(25)
    nothing = dict.fromkeys(("precision", "recall", "linguistic", "b_capscore"))
    card = balcaprl.unread(balcaprl.graded("image-0", "a cat"), "<b>bad JSON</b>")
    rows[1] |= nothing | {"graded": card.model_dump_json()}
    balcaprl.write_captions(tmp_path, rows)
    html, _ = write_balcaprl_report(tmp_path, examples=25)
    assert "24 1 not judged" in text_of(html)
    assert "Could not be judged: <b>bad JSON</b>" in text_of(html)


def test_claims_are_marked_as_the_judge_marked_them(tmp_path: Path) -> None:
    verified, covered = (3, 2), (0, 0)
    rows = [
        balcaprl.score_row(
            "a", model, graded=balcaprl.graded("a", model, verified=v, covered=c, rating=6).model_dump_json()
        )
        for model, (v, c) in (("base", covered), ("policy", verified))
    ]
    balcaprl.write_captions(tmp_path, rows)
    folder.write_table(tmp_path / "prepare", "samples", [folder.sample("a", folder.picture("red"))])
    html, _ = write_balcaprl_report(tmp_path)
    page = Page(html[html.index('id="examples-1"') : html.index('id="method"')])
    labels = [a["aria-label"] for tag, a in page.tags if a.get("role") == "img"]
    assert labels == ["not verified"] * 3 + ["not covered"] * 2 + ["verified"] * 3 + ["covered"] * 2
    text = " ".join(" ".join(page.words).split())
    assert "Claims of the caption (clarity 6, fluency 7, coherency 5): 0 of 3 verified" in text
    assert "Claims of the reference: 2 of 2 covered" in text
    assert next(a["src"] or "" for tag, a in page.tags if tag == "img").startswith("data:image/png;base64,")


def test_steps_average_what_was_paid_over_what_was_judged() -> None:
    rows = [
        balcaprl.grade(1, "a", (0.2, 0.4, 0.9), gated=True, tokens=50, reference_tokens=20),
        balcaprl.grade(1, "a", (0.4, 0.6, 0.5), tokens=10, reference_tokens=20),
        balcaprl.grade(1, "a", None, tokens=30, reference_tokens=20),
        balcaprl.grade(2, "a", None, tokens=30, reference_tokens=20),
    ]
    first, second = reward_steps(rows)
    assert first.rewards == pytest.approx({"precision": 0.3, "recall": 0.5, "linguistic": 0.25})
    assert (first.rollouts, first.unjudged, first.shut) == (3, 1, 0.5)
    assert (first.tokens, first.ratio) == (30, pytest.approx(1.5))
    assert (second.rewards, second.shut, second.unjudged) == ({}, None, 1)


def test_curves_show_rewards_lengths_and_shut_gates(tmp_path: Path) -> None:
    rows = [balcaprl.grade(step, "a", (0.1 * step, 0.5, 0.5), gated=step < 3) for step in range(1, 6)]
    balcaprl.write_grades(tmp_path, rows)
    page = Page(write_balcaprl_report(tmp_path)[0])
    labels = [a["aria-label"] or "" for _, a in page.tags if "over training steps" in (a.get("aria-label") or "")]
    assert labels[0].startswith("Rewards over training steps: Precision from 0.10 to 0.50, Recall from 0.50 to 0.50")
    assert labels[0].endswith("Linguistic from 0.00 to 0.50")
    assert [label.split(" over")[0] for label in labels[1:]] == [
        "Tokens by tokens of the reference",
        "Share of shut gates",
        "Tokens per caption",
    ]
    assert "from 1.00 to 0.00" in labels[2]


JUDGE = {"url": "http://judges:8000/v1", "model": "judge-x"}
SCORES = {"type": "caption_scores", "judge": JUDGE}


def policy(reward: dict, advantages: str = "c-gdpo") -> dict:
    return {"reward": reward, "algorithm": {"type": "grpo", "advantages": advantages}}


EXAM = {"type": "exam", "writer": JUDGE, "taker": JUDGE}


def test_training_on_one_number_shows_that_reward(tmp_path: Path) -> None:
    folder.write_recipe(tmp_path, balcaprl.RECIPE | {"policy": policy(EXAM)})
    rollouts = [folder.rollout(step, "a cat", 20, step / 10) for step in range(1, 4)]
    folder.write_table(tmp_path / "train_balcaprl" / "rollouts", "rollouts", rollouts)
    text = text_of(write_balcaprl_report(tmp_path)[0])
    assert "Reward 0.10 → 0.30" in text
    assert "The reward is that of CapRL" in text


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (policy(SCORES), "linguistic is 0 unless the caption has 0.5 to 2 times the tokens of its reference"),
        (policy(SCORES), "Weights: precision 0.1, recall 0.3, linguistic 0.3."),
        (policy(SCORES), "each reward normalised in its group before they are added by weight (c-GDPO)"),
        (policy(SCORES, advantages="group"), "GRPO trains on it: loss dr_grpo, rewards normalised in their group."),
        (policy(SCORES | {"length": {"type": "linear", "upper": 3.0}}), "falls linearly outside 0.5 to 3 times"),
        (policy(SCORES | {"length": None}), "nothing controls the length"),
        (policy(SCORES | {"pointability": "off"}), "true of the image, pointable or not"),
        (policy({"type": "rubric", "judge": JUDGE}), "The reward is the weight of the rubric's criteria"),
        (
            {"reward": None, "algorithm": {"type": "sft"}},
            "trained on the captions that came with the images (SFT), without any reward",
        ),
    ],
)
def test_method_tells_the_ablation_that_was_run(tmp_path: Path, section: dict, message: str) -> None:
    folder.write_recipe(tmp_path, balcaprl.RECIPE | {"policy": section})
    assert message in text_of(write_balcaprl_report(tmp_path)[0])


def test_run_without_anything_says_what_is_missing(tmp_path: Path) -> None:
    html, summary = write_balcaprl_report(tmp_path / "empty")
    text = text_of(html)
    assert (summary["scores"], summary["details"], summary["promoted"]) == ({}, {"training": None}, False)
    for message in (
        "have not been compared with those of its base model",
        "the score stage has not finished",
        "the train_balcaprl stage has not finished",
        "There is no group to show",
        "no held-out responses to show",
        "so its reward is not known here",
    ):
        assert message in text


@pytest.mark.parametrize(
    "hostile", ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"]
)
def test_foreign_text_is_never_markup_and_no_script_but_the_viewer_runs(tmp_path: Path, hostile: str) -> None:
    grades = [balcaprl.grade(1, hostile, (0.1 * n, 0.5, 0.2 * n), response=hostile, graded=hostile) for n in range(4)]
    balcaprl.write_grades(tmp_path, grades)
    card = balcaprl.graded("a", hostile).model_dump_json()
    rows = [balcaprl.score_row("a", m, caption=hostile, graded=card, judgment=hostile) for m in ("base", "policy")]
    rows[1]["win"] = 1.0
    balcaprl.write_captions(tmp_path, rows)
    page = Page(write_balcaprl_report(tmp_path)[0])
    assert "".join(page.words).count(hostile) >= 10
    assert [a.get("type") for tag, a in page.tags if tag == "script"] == ["application/json", None]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not [a for tag, a in page.tags if tag == "img"]
    policy = next(a["content"] or "" for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert re.search(r"default-src 'none';.*script-src 'sha256-[\w+/]{43}='$", policy)


def test_lines_for_the_terminal_tell_scores_and_alarm(tmp_path: Path) -> None:
    captions = balcaprl.write_whole_run(tmp_path)
    folder.write_json(tmp_path / "train_balcaprl" / "alarm.json", {"step": 7, "reasons": ["length doubled"]})
    html, summary = write_balcaprl_report(tmp_path)
    lines = success_lines(RunSummary.model_validate(summary))
    gain = captions.gain("policy", "caption_qa")
    assert lines[0].startswith("b-CapScore: 50.0 → 54.1, +4.1 points [")
    assert (
        f"CaptionQA: 50.0 → 50.0, +0.0 points [{percent(gain.low)} to {percent(gain.high)}], not distinguishable"
        in lines
    )
    assert lines[-1] == "ALARM: step 7: length doubled"
    assert "Hacking alarm at step 7" in text_of(html)


def test_damaged_figures_name_file_and_stage(tmp_path: Path) -> None:
    folder.write_json(tmp_path / "score" / "scores.json", {"models": {}})
    with pytest.raises(
        UserError, match=r"scores\.json: base: Field required; delete .*score and run the stage score again"
    ):
        write_balcaprl_report(tmp_path)
