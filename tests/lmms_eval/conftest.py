"""The public benchmarks' data sets in small, where lmms-eval looks."""

from pathlib import Path

import pytest
from benchmark_rows import write_data_sets


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    """Folder of the test; the data sets are found by their names on the Hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    write_data_sets(tmp_path / "hub")
    monkeypatch.chdir(tmp_path / "hub")
    return tmp_path
