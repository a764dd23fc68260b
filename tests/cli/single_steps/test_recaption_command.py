"""`rubricworks recaption`: captions into a table, and the plan of a large recaptioning from its rate."""

import json

import pytest
from scripted_server import say

from rubricworks.data.tables import read_rows
from rubricworks.recipe.recaption_plan import RUBICAP_SOURCES, MeasuredRate, plan_recaption
from rubricworks.world.scene.export import export_scenes


def test_recaption_writes_the_table_and_plans_millions_at_its_rate(tell, tmp_path, serve):
    export_scenes(tmp_path / "scenes", seed=3, count=3)
    images = tmp_path / "scenes" / "images"
    (images / "empty.png").write_bytes(b"")
    url = serve([say("a red circle", tokens=(900, 40))]).url
    result = tell("recaption", images, "--model", f"m@{url}", "--out", "captions")
    assert result.code == 0, result
    assert "recaption: 3 captions" in result.out
    table = tmp_path / "captions" / "recaption"
    assert [row["caption"] for row in read_rows(table)] == ["a red circle"] * 3
    assert [row["reason"] for row in read_rows(table / "rejected")] == ["the file is empty"]

    again = tell("recaption", images, "--model", f"m@{url}", "--out", "captions")
    assert "done in an earlier run" in again.err
    plan = tell("recaption", "--plan", "--out", "captions", "--images", "3500000", "--gpus", "4", "--gpu-hour", "2")
    assert plan.code == 0, plan
    rate = json.loads((tmp_path / "captions" / "ledger.jsonl").read_text())["images_per_second"]
    assert "measured on 3 images" in plan.out
    assert "40 tokens a caption" in plan.out
    hours = 3_500_000 / rate / 3_600
    cells = [cell.strip() for cell in plan.out.splitlines()[-1].split("  ") if cell.strip()]
    assert [cells[0], *cells[2:4]] == ["all", f"{hours:.1f}", f"{hours / 4:.1f}"]
    assert "".join(filter(str.isdigit, cells[1])) == "3500000"


def test_plan_without_a_measured_rate_says_what_to_run_first(tell):
    assert "run one on a thousand images first" in tell("recaption", "--plan", "--out", "nowhere").err
    assert "give SOURCEs and --model" in tell("recaption", "--out", "nowhere").err


def test_plan_of_the_papers_sources_adds_up_gpu_hours_and_call_prices():
    rate = MeasuredRate(images=1_000, images_per_second=50.0, tokens_per_caption=200, dollars_per_image=0.001)
    plan = plan_recaption(rate, gpus=8, measured_on=2, dollars_per_gpu_hour=3.0)
    assert [source.name for source in plan] == [*RUBICAP_SOURCES, "all"]
    whole = plan[-1]
    # 25 images a second on one GPU: 3.5 million take 140,000 seconds.
    assert whole.images == 3_500_000
    assert whole.gpu_hours == pytest.approx(140_000 / 3_600)
    assert whole.hours == pytest.approx(140_000 / 3_600 / 8)
    assert whole.dollars == pytest.approx(140_000 / 3_600 * 3 + 3_500)
    assert sum(source.dollars for source in plan[:-1]) == pytest.approx(whole.dollars)
