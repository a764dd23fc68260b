"""The page of an audit: its figure's geometry, its table, its cases, and that it shows foreign text as text."""

import json
import re

import pytest
from report_page import Page, text_of

from rubricworks.evaluation.audit.summary import AuditRow, AuditSummary, Cell, ResponseCount, Share, table_cells
from rubricworks.evaluation.audit.values import Annotation
from rubricworks.reports.judge_audit import (
    audit_figure,
    audit_headline,
    audit_page,
    audit_sentences,
    bar_chart,
    table_rows,
)
from rubricworks.reports.judge_audit_cases import worst_cases
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

EVIL = "</p><script>alert(1)</script>&\u202e"
NUMBER = Criterion(criterion=f"Number {EVIL}", reference="expr_verify(target='3')", weight=3)
COLOUR = Criterion(criterion="Colour", reference="red", weight=1, essential=False)
RUBRIC = Rubric(criteria=(NUMBER, COLOUR))


def judged(sample_id, credits, *, mode="adversarial", setting="text", response="r", error=False):
    annotations = tuple(
        Annotation(criterion=criterion.criterion, credit=0, rationale=EVIL) for criterion in RUBRIC.criteria
    )
    verdicts = tuple(
        Verdict(criterion=criterion.criterion, error=ErrorClass.MALFORMED)
        if error
        else Verdict(criterion=criterion.criterion, credit=credit, reasoning=f"because {EVIL}", call="")
        for criterion, credit in zip(RUBRIC.criteria, credits, strict=True)
    )
    card = Scorecard(sample_id=sample_id, response=response, judge="j", verdicts=verdicts)
    attack = "symbolic_bluff" if mode == "adversarial" else None
    return AuditRow(sample_id, mode, attack, setting, f"q {EVIL}", response, RUBRIC, annotations, card)


def figures(rows, **changes):
    fields = {
        "judge": f"judge {EVIL}",
        "settings": table_cells(rows),
        "responses": {"regular": ResponseCount(wanted=1, found=1), "adversarial": ResponseCount(wanted=5, found=2)},
        "attacks": {"symbolic_bluff": 2},
        **changes,
    }
    return AuditSummary.model_validate_json(AuditSummary.model_validate(fields).model_dump_json())


def share(value, low, high):
    return Share(value=value, low=low, high=high, count=1, criteria=10, inputs=5)


def simple(**rates):
    """Figures with these averages: setting → (mode → (value, low, high))."""
    cells = {
        setting: {
            mode: Cell(average=share(*numbers), arguments=None, credit=None, unjudged=0)
            for mode, numbers in modes.items()
        }
        for setting, modes in rates.items()
    }
    return figures([], settings=cells)


def test_bars_have_the_height_of_their_rates_and_whiskers_of_their_intervals():
    chart = bar_chart(
        simple(
            text={"irrelevant": (0.1, 0.05, 0.2)}, image={"irrelevant": (0.3, 0.2, 0.4), "adversarial": (0.2, 0, 0.4)}
        )
    )
    assert [tick.label for tick in chart.ticks] == [f"{n}\u202f%" for n in (0, 10, 20, 30, 40)]
    irrelevant, adversarial = chart.groups
    assert [bar.height for bar in irrelevant.bars] == pytest.approx([25, 75])
    assert [bar.top for bar in irrelevant.bars] == pytest.approx([75, 25])
    assert irrelevant.bars[0].whisker == pytest.approx((50, 87.5))
    assert [bar.setting for bar in adversarial.bars] == ["image"]
    # Bars stand beside each other within their half, in the settings' order.
    edges = [edge for group in chart.groups for bar in group.bars for edge in (bar.left, bar.left + bar.width)]
    assert edges == sorted(edges)
    assert all(edge <= 50 for edge in edges[:4])
    assert all(edge >= 50 for edge in edges[4:])
    # What only one setting has stands in that setting's place.
    assert adversarial.bars[0].left - 50 == pytest.approx(irrelevant.bars[1].left)


def test_figure_of_nothing_is_a_sentence():
    assert bar_chart(simple(text={"regular": (0.9, 0.8, 1.0)})) is None
    assert "No false-positive rate" in audit_figure(simple(text={"regular": (0.9, 0.8, 1.0)}))


def test_rate_without_bounds_has_no_whisker():
    chart = bar_chart(simple(text={"irrelevant": (0.5, None, None)}))
    assert chart.groups[0].bars[0].whisker is None
    assert "bar-whisker" not in audit_figure(simple(text={"irrelevant": (0.5, None, None)}))


def test_more_than_two_points_worse_than_the_default_is_marked():
    rows = table_rows(
        simple(
            text={"regular": (0.95, 0.9, 1), "irrelevant": (0.10, 0, 0.2), "adversarial": (0.2, 0.1, 0.3)},
            image={"regular": (0.92, 0.9, 1), "irrelevant": (0.125, 0, 0.2), "adversarial": (0.1, 0, 0.2)},
            targets={"regular": (0.98, 0.9, 1), "irrelevant": (0.115, 0, 0.2)},
        )
    )
    marked = [[cell.name for cell in row.cells if cell.worse] for row in rows]
    assert marked == [[], ["Regular", "Irrelevant"], []]


def test_headline_names_the_least_and_the_most_and_sentences_what_costs():
    result = simple(
        text={"irrelevant": (0.015, 0, 0.2), "adversarial": (0.18, 0, 0.3)}, targets={"adversarial": (0.224, 0.1, 0.3)}
    )
    assert "between 1.5 % (irrelevant) and 18.0 % (adversarial)" in audit_headline(result)
    assert audit_sentences(result) == ["Targets shown: worse by more than 2 points on adversarial."]
    assert "In the setting “image shown”" in audit_headline(simple(image={"irrelevant": (0.1, 0, 0.2)}))


def test_worst_cases_take_turns_by_mode_default_first_and_tell_equal_verdicts_once():
    rows = [
        judged("a", (0, 1)),
        judged("b", (1, 0), setting="targets"),
        judged("c", (1, 0)),
        judged("c", (1, 0), setting="targets"),
        judged("d", (0, 1), mode="irrelevant"),
        judged("e", (0, 0)),
        judged("f", (0, 0), error=True),
        judged("g", (1, 1), mode="regular"),
    ]
    cases = worst_cases(rows, {"c": b"\x89PNG..."})
    assert [case.sample_id for case in cases] == ["d", "c", "a", "b"]
    assert [case.image is not None for case in cases] == [False, True, False, False]
    (criterion,) = cases[1].criteria
    assert [(credit.settings, credit.verdict.credit) for credit in criterion.credits] == [
        (["Default", "Targets shown"], 1)
    ]
    assert [case.sample_id for case in worst_cases(rows, {}, 2)] == ["d", "c"]


def test_foreign_text_is_shown_as_text_and_nothing_is_loaded():
    rows = [judged("s", (1, 0.5), response=EVIL), judged(EVIL, (1, 1), setting="image")]
    html = audit_page(figures(rows), worst_cases(rows, {}), title=EVIL)
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object"} == set()
    assert all(not str(value).startswith(("http", "//")) for _, fields in page.tags for value in fields.values())
    assert "default-src 'none'" in html
    assert html.count("alert(1)") >= 8
    assert "Deserves 0" in text_of(html)
    assert "Not balanced." in text_of(html)
    assert re.search(r"Adversarial has 2 of 5", text_of(html))


def test_table_says_counts_and_what_was_not_judged():
    rows = [judged("s", (1, 0)), judged("t", (0, 0), error=True)]
    text = text_of(audit_page(figures(rows)))
    assert "50.0 (100.0 / 0.0)" in text
    assert "1 of 2 criteria, 2 not judged" in text


def test_attacks_are_listed_with_their_counts():
    pattern = {"name": f"p {EVIL}", "attack": "symbolic_bluff", "instruction": "do it"}
    tried = {"pattern": pattern, "tried": 5, "accepted": 4, "undeserved": 8, "credited": 2, "unjudged": 0}
    result = figures([judged("s", (1, 0))], patterns=({**tried, "rate": 0.25, "kept": True},))
    text = text_of(audit_page(result))
    assert "25 % 2 of 8 4 of 5 yes" in text
    assert json.loads(result.model_dump_json())["patterns"][0]["pattern"]["attack"] == "symbolic_bluff"


def test_what_the_scene_world_answered_is_called_simulated():
    result = figures([judged("s", (1, 0))])
    assert "Simulated." in text_of(audit_page(result, simulated=True))
    assert "Simulated." not in text_of(audit_page(result))
