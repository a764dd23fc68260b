"""Warnings of a stage in its line of the ledger."""

import json
import logging
import warnings

import pytest
from trained_run import png

from rubricworks.runtime.launch import launch
from rubricworks.runtime.stage_warnings import collect_warnings


def test_the_ledger_keeps_the_warnings_of_a_stage_which_are_printed_as_ever(tmp_path):
    photographs = tmp_path / "photos"
    photographs.mkdir()
    for colour in ("red", "green", "blue"):
        (photographs / f"{colour}.png").write_bytes(png(colour))
    (photographs / "notes.jpg").write_text("a shopping list")
    config = json.dumps({"source": str(photographs), "held_out": 1})
    with pytest.warns(UserWarning, match="1 rejected, 3 images used"):
        launch("prepare", config, str(tmp_path / "run"), {})
    (line,) = map(json.loads, (tmp_path / "run" / "ledger.jsonl").read_text().splitlines())
    (message,) = line["warnings"]
    assert message.startswith("1 rejected, 3 images used: ")


def test_only_this_librarys_warnings_are_kept_each_once_and_without_secrets():
    messages: list[str] = []
    log = logging.getLogger("rubricworks.somewhere")
    with collect_warnings(messages):
        with pytest.warns(UserWarning, match="of a test"):
            warnings.warn("of a test", stacklevel=1)
        for _ in range(2):
            log.warning("%s answers slowly", "https://me:pa55word@judge/v1")
        log.info("step 3")
    log.warning("afterwards")
    (message,) = messages
    assert message.endswith("judge/v1 answers slowly")
    assert "pa55word" not in message
