"""A trained run that has something for every page of the service."""

import json
from pathlib import Path

from stored_audit import write_audit
from trained_run import STAGE, finish_tables, write_rubrics, write_run, write_table

from rubricworks.reports.rubric_audit import AUDIT_PAGE


def write_whole_run(folder: Path, name: str = "today-1") -> Path:
    """A finished run with rubrics, an audit, an alarm, scores, dead letters, logs, a ledger and written pages."""
    run = write_run(folder, name)
    finish_tables(run)
    write_rubrics(run)
    write_audit(run / "audit")
    steps = [
        {
            "step": at,
            "reward": 0.4 + at / 100,
            "objects": 2 + at / 20,
            "length": 9.0,
            "held_out": 0.5 if at % 9 == 1 else None,
        }
        for at in range(1, 61)
    ]
    (run / STAGE / "steps.jsonl").write_text("\n".join(map(json.dumps, steps)))
    (run / STAGE / "alarm.json").write_text(json.dumps({"step": 52, "reasons": ["objects went from 2.0 to 3.2"]}))
    (run / "logs" / f"{STAGE}.log").write_text("".join(f"line {at}\n" for at in range(1, 301)))
    (run / "ledger.jsonl").write_text('{"stage": "prepare", "seconds": 3}\n{"stage": "train_policy", "seconds": 90}\n')
    models = {"base": (0.2, 0.4, 0.3), "policy": (0.6, 0.5, 0.9)}
    scored = {"decoding": "greedy", "revision": "r", "version": "1"}
    rows = [
        {"sample_id": sample, "model": model, "scorer": "oracle", "part": "f1", "value": value} | scored
        for model, values in models.items()
        for sample, value in zip("abc", values, strict=True)
    ]
    write_table(run / "score", "scores", rows)
    answers = [row | {"response": f"{row['model']} sees {row['sample_id']} " * 9} for row in rows]
    columns = ("sample_id", "model", "revision", "decoding", "response")
    write_table(run / "score" / "responses", "responses", [{name: row[name] for name in columns} for row in answers])
    letter = {"sample_id": "a", "stage": "prepare", "purpose": "caption", "reason": "malformed", "message": "m " * 60}
    write_table(run / "prepare" / "dead_letters", "dead_letters", [letter | {"raw": "{" * 300, "request": "r"}])
    (run / "report.html").write_text("<!doctype html><html lang=en><title>Report</title><h1>Report</h1></html>")
    page = "<!doctype html><html lang=en><title>Audit</title><h1>Audit</h1></html>"
    (run / "synthesize_rubrics" / AUDIT_PAGE).write_text(page)
    return run
