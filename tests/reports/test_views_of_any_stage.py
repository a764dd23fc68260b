"""Properties of every Kubeflow UI view, whatever files a stage left."""

import json
import math

import pytest
import synthetic_run as folder
from report_page import Page, text_of
from shown_stages import caption, pictures, shown, write_samples, write_training

from rubricworks.reports.costs import ModelCalls
from rubricworks.reports.headline import promotion
from rubricworks.reports.record import call_row, cost_of
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.stage_page import show_stage
from rubricworks.rubrics import Criterion, Rubric


def test_a_stage_without_a_view_of_its_own_shows_what_it_wrote(tmp_path):
    checks = [{"name": "storage", "problem": None, "detail": "can be written"}]
    folder.write_json(tmp_path / "preflight" / "checks.json", checks)
    folder.write_json(tmp_path / "preflight" / "summary.json", {"outcome": "all well", "inner": {"seconds": 2}})
    folder.write_json(tmp_path / "preflight" / "done.json", {"digest": "0123"})
    folder.write_ledger(tmp_path, [{"stage": "preflight", "seconds": 2.0, "checks": 1, "missing": 0}])
    html, metrics = shown(tmp_path, "preflight")
    assert metrics == {"seconds": 2.0, "checks": 1, "missing": 0}
    assert "Name Problem Detail storage – can be written" in text_of(html)  # noqa: RUF001
    assert "inner.seconds 2" in text_of(html)
    assert '<p class="headline open" dir="auto">all well</p>' in html
    assert "0123" not in html


def test_calls_and_dead_letters_of_the_stage_stand_below(tmp_path):
    write_training(tmp_path)
    call = {"purpose": "judge", "model": "judge-x", "calls": 10, "cached": 4, "prompt_tokens": 70, "cost": 0.25}
    other = {"purpose": "caption", "model": "teacher-x", "calls": 3}
    entries = [
        {"stage": "train_policy", "seconds": 1.0, "calls": [call]},
        {"stage": "caption_committee", "calls": [other]},
    ]
    folder.write_ledger(tmp_path, entries)
    letters = [folder.letter("train_policy", "not JSON")] * 2
    folder.write_table(tmp_path / "train_policy" / "dead_letters", "dead_letters", letters)
    html, metrics = shown(tmp_path, "train_policy", samples="prepare")
    assert (metrics["calls"], metrics["dollars"]) == (10, 0.25)
    assert "judge-x judge 10 4 0 70 0 0 $0.25" in text_of(html)
    assert "teacher-x" not in html
    assert "judge malformed 2 not JSON" in text_of(html)


@pytest.mark.parametrize(("sent", "cost", "shown_as"), [(70, 0.0, "–"), (70, 0.25, "$0.25"), (0, 0.0, "$0")])  # noqa: RUF001
def test_cost_of_a_model_without_a_price_is_not_known(sent, cost, shown_as):
    call = ModelCalls(stage="score", purpose="judge", model="m", calls=3, prompt_tokens=sent, cost=cost)
    assert call_row(call)[-1] == shown_as
    assert cost_of([call, call], "score") == shown_as.replace("0.25", "0.50")
    assert cost_of([call], "prepare") == "$0"


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"])
def test_what_models_write_is_text_never_markup(tmp_path, hostile):
    folder.write_small_run(tmp_path, caption=hostile)
    rubric = Rubric(criteria=(Criterion(criterion=hostile, evaluation_rule=hostile, weight=3),))
    folder.write_table(tmp_path / "write_checklists", "rubrics", [folder.rubric_row("a", rubric)])
    for stage in ("score", "write_checklists"):
        html, _ = shown(tmp_path, stage, samples="prepare")
        assert hostile in "".join(Page(html).words)
        tags = Page(html).tags
        assert not [tag for tag, attributes in tags if tag == "script" or "onerror" in attributes]
        assert "default-src 'none'" in html


def test_figures_that_are_no_json_numbers_are_not_told(tmp_path):
    (tmp_path / "some_stage").mkdir()
    line = {"stage": "some_stage", "seconds": 1.0, "loss": math.nan, "rate": math.inf, "done": True, "name": "x"}
    (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    _, metrics = shown(tmp_path, "some_stage")
    assert metrics == {"seconds": 1.0}


def test_a_view_that_cannot_be_made_says_so_and_spoils_nothing(tmp_path):
    folder.write_json(tmp_path / "promote" / "promotion.json", {"passed": "perhaps"})
    metrics: dict[str, float] = {}
    view = tmp_path / "view"
    show_stage(RunFolder(tmp_path, "promote"), lambda: [promotion], str(view), metrics.__setitem__)
    assert "promotion.json: passed" in text_of(view.read_text())
    assert "the stage itself is done" in text_of(view.read_text())
    assert metrics == {}


def test_a_place_that_cannot_be_written_spoils_nothing(tmp_path):
    folder.write_json(tmp_path / "promote" / "promotion.json", {})
    (tmp_path / "file").touch()
    metrics: dict[str, float] = {}
    show_stage(
        RunFolder(tmp_path, "promote"), lambda: [promotion], str(tmp_path / "file" / "view"), metrics.__setitem__
    )
    assert metrics["promoted"] == 0.0


def test_a_view_stays_small_whatever_models_write(tmp_path, monkeypatch):
    write_samples(tmp_path)
    rows = [caption(key, f"teacher-{number}", "word " * 100_000) for key in "ab" for number in range(3)]
    folder.write_table(tmp_path / "caption_committee", "captions", rows)
    html, _ = shown(tmp_path, "caption_committee", samples="prepare")
    assert len(html) < 100_000
    assert "more characters)" in html
    monkeypatch.setattr("rubricworks.reports.stage_page.MAX_BYTES", 20_000)
    html, _ = shown(tmp_path, "caption_committee", samples="prepare")
    assert "2 cards are left out" in text_of(html)
    assert not pictures(html)


def test_a_simulation_is_called_one(tmp_path):
    write_training(tmp_path)
    assert "Simulated." not in text_of(shown(tmp_path, "train_policy", samples="prepare")[0])
    folder.write_recipe(tmp_path, {"world": {"scenes": 10}})
    assert "Simulated." in text_of(shown(tmp_path, "train_policy", samples="prepare")[0])
