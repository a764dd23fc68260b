import io
import os
import re
from pathlib import Path

import synthetic_run as folder
from PIL import Image
from report_page import Page, text_of, write_report


def test_images_shown_are_as_many_as_asked_and_the_draw_follows_the_seed(tmp_path: Path) -> None:
    names = [f"image-{number}" for number in range(30)]
    folder.write_table(tmp_path / "prepare", "samples", [folder.sample(name, folder.picture("red")) for name in names])
    rows = [folder.evaluation(name, model, "a cat", None) for name in names for model in ("base", "policy")]
    folder.write_scores(tmp_path, "evaluate", rows)

    def shown(**config: int) -> list[str]:
        return re.findall(r"· (image-\d+)<", write_report(tmp_path, **config)[0])

    assert len(shown()) == 12
    assert shown(seed=1) == shown(seed=1)
    assert shown(seed=1) != shown(seed=2)
    assert shown(examples=0) == []
    assert len(set(shown(examples=40))) == 30


def test_a_card_and_a_stages_page_call_a_picture_by_its_file(tmp_path: Path) -> None:
    sample = folder.sample("2b71", folder.picture("red")) | {"source": "photos/house/brick & mortar.jpg"}
    folder.write_table(tmp_path / "prepare", "samples", [sample])
    folder.write_scores(tmp_path, "evaluate", [folder.evaluation("2b71", m, "red", None) for m in ("base", "policy")])
    html, _ = write_report(tmp_path)
    assert "1 · brick & mortar.jpg · 2b71" in text_of(html)
    assert 'alt="image of brick &amp; mortar.jpg"' in html


def test_large_photograph_is_scaled_down_for_the_page(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.frombytes("RGB", (900, 900), os.urandom(900 * 900 * 3)).save(buffer, "PNG")
    folder.write_table(tmp_path / "prepare", "samples", [folder.sample("a", buffer.getvalue())])
    folder.write_scores(tmp_path, "evaluate", [folder.evaluation("a", m, "noise", None) for m in ("base", "policy")])
    html, _ = write_report(tmp_path)
    assert "data:image/jpeg;base64," in html
    assert len(html) < len(buffer.getvalue()) / 2


def test_verdicts_stand_side_by_side_with_what_could_not_be_judged(tmp_path: Path) -> None:
    folder.write_table(tmp_path / "prepare", "samples", [folder.sample("a", folder.picture("red"))])
    folder.write_table(tmp_path / "synthesize_rubrics", "rubrics", [folder.rubric_row("a")])
    rows = [
        folder.evaluation("a", "base", "a thing", 0.0, scorecard=folder.scorecard("a", "", [0, 0])),
        folder.evaluation("a", "policy", "a cat", None, scorecard=folder.scorecard("a", "", [1, None]), win=1.0),
    ]
    folder.write_scores(tmp_path, "evaluate", rows)
    html, _ = write_report(tmp_path)
    labels = [
        a["aria-label"] for _, a in Page(html).tags if a.get("role") == "img" and "mark" in (a.get("class") or "")
    ]
    assert labels[:4] == ["base: not met", "policy: met", "base: not met", "policy: could not be judged"]
    assert "The pairwise judge prefers the trained policy." in text_of(html)
