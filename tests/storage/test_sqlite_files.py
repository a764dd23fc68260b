"""SQLite files of somebody else's run folder: nothing is deleted, nothing is computed, nothing takes for ever."""

import sqlite3
from contextlib import closing

import pytest
from hostile_runs import journal_naming

from rubricworks.errors import UserError
from rubricworks.llm.cache import AnswerCache, find_answer
from rubricworks.llm.spending import Spending, merge_spending, read_spending


@pytest.fixture
def attacked(tmp_path):
    """Opens of a ledger whose journal names another file: that file, and the ledger."""
    ledger, victim = tmp_path / "run" / "spending.sqlite", tmp_path / "platform.db"
    ledger.parent.mkdir()
    Spending(ledger, "stage").close()
    victim.write_bytes(b"somebody's")
    (ledger.parent / "spending.sqlite-journal").write_bytes(journal_naming(victim, ledger))
    return ledger, victim


def test_sqlite_itself_deletes_what_the_journal_names(attacked):
    ledger, victim = attacked
    with closing(sqlite3.connect(ledger)) as file:
        file.execute("SELECT * FROM spending").fetchall()
    assert not victim.exists()


def test_reading_a_ledger_deletes_no_file_that_its_journal_names(attacked):
    ledger, victim = attacked
    assert read_spending(ledger) == []
    assert victim.read_bytes() == b"somebody's"
    assert (ledger.parent / "spending.sqlite-journal").exists()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda ledger: Spending(ledger, "stage"), id="ledger"),
        pytest.param(lambda ledger: merge_spending(ledger, []), id="merge"),
        pytest.param(AnswerCache, id="cache"),
    ],
)
def test_a_run_whose_journal_names_a_file_is_refused_and_nothing_deleted(begin, attacked):
    ledger, victim = attacked
    with pytest.raises(UserError, match=r"spending\.sqlite-journal names a file that SQLite would delete"):
        begin(ledger)
    assert victim.exists()


def test_a_cache_that_is_read_keeps_the_files_that_its_journal_names(attacked, tmp_path):
    ledger, victim = attacked
    with pytest.raises(UserError, match="no table answers"):
        find_answer(ledger, b"key")
    assert victim.exists()


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t"
COLUMNS = "calls, cached, requests, prompt_tokens, completion_tokens, cost, seconds, cached_tokens"


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(f"CREATE VIEW spending AS SELECT x stage, x purpose, x model FROM ({ENDLESS})", id="view"),
        pytest.param(
            f"CREATE TABLE spending (stage AS (hex(zeroblob(30000000))), purpose, model, {COLUMNS})", id="generated"
        ),
        pytest.param("CREATE VIRTUAL TABLE spending USING fts5(stage, purpose, model)", id="virtual"),
    ],
)
def test_rows_that_would_have_to_be_computed_are_not_read(table, tmp_path):
    ledger = tmp_path / "spending.sqlite"
    with closing(sqlite3.connect(ledger)) as file:
        file.execute(table)
        file.execute("CREATE TABLE failures (stage, purpose, model, class, count)")
    with pytest.raises(UserError, match="it has no table spending of stored rows"):
        read_spending(ledger)


@pytest.mark.parametrize("figure", ["'many'", "-1", "1e999", "NULL", "x'00'"])
def test_a_figure_that_is_no_number_makes_a_ledger_unreadable(figure, tmp_path):
    ledger = tmp_path / "spending.sqlite"
    with closing(sqlite3.connect(ledger)) as file:
        file.execute(f"CREATE TABLE spending (stage, purpose, model, {COLUMNS})")
        file.execute("CREATE TABLE failures (stage, purpose, model, class, count)")
        file.execute(f"INSERT INTO spending VALUES ('s', 'p', 'm', {figure}, 0, 0, 0, 0, 0, 0, 0)")
        file.commit()
    with pytest.raises(UserError, match=r"spending\.sqlite cannot be read"):
        read_spending(ledger)


def test_a_ledger_in_place_of_which_a_link_stands_is_refused(tmp_path):
    other = tmp_path / "other.sqlite"
    Spending(other, "stage").close()
    (tmp_path / "spending.sqlite").symlink_to(other)
    with pytest.raises(UserError, match=r"spending\.sqlite is a link"):
        Spending(tmp_path / "spending.sqlite", "stage")
