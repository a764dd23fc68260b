"""Probes of rubrics of images: what is changed, and which flags an image can decide."""

import io

import pytest
from PIL import Image

from rubricworks.evaluation.rubric_audit import examine, make_image_probes
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

RED, BLUE = (200, 0, 0), (0, 0, 200)


def png(colour, size=(64, 48)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def picture(probe):
    return Image.open(io.BytesIO(probe.response.image))


SQUARE = Criterion(criterion="A red square is in the picture.", key="object_presence", weight=1)
LEFT = Criterion(criterion="The square fills the picture.", key="spatial_relation", weight=1)
SIGN = Criterion(criterion='The sign reads "STOP".', key="ocr_alignment", weight=1)


def probes_of(*criteria):
    return make_image_probes(Rubric(criteria=criteria), [png(RED), png(RED, (8, 8))], [png(BLUE)])


def found(*criteria, met):
    """Finding by a judge that is `met`, from (criterion, kind of probe) to a verdict."""
    probes = probes_of(*criteria)
    cards = [
        Scorecard(
            sample_id="s",
            response=probe.response,
            judge="j",
            verdicts=tuple(
                Verdict(criterion=criterion.criterion, credit=float(met(criterion, probe.kind)))
                for criterion in probe.rubric.criteria
            ),
        )
        for probe in probes
    ]
    return examine("s", Rubric(criteria=criteria), probes, cards)


def flags(finding):
    return {(flag.flag, flag.criterion) for flag in finding.flags}


def test_without_another_prompts_image_the_rest_is_tried():
    rubric = Rubric(criteria=(SQUARE,))
    alone = {probe.kind for probe in make_image_probes(rubric, [png(RED)], [])}
    assert {probe.kind for probe in probes_of(SQUARE)} - alone == {"other", "everything"}


def test_changed_images_have_the_size_of_the_first_and_show_what_their_name_says():
    probes = {probe.kind: picture(probe) for probe in reversed(probes_of(SQUARE, SIGN))}
    made = {kind: probes[kind] for kind in ("half", "everything", "empty", "parroted")}
    assert {image.size for image in made.values()} == {(64, 48)}
    assert [made["half"].getpixel((at, 5)) for at in (5, 60)] == [RED, (128, 128, 128)]
    assert [made["everything"].getpixel((at, 5)) for at in (5, 60)] == [RED, BLUE]
    assert len(made["empty"].getcolors()) == 1
    assert len(made["parroted"].getcolors(10_000)) > 1  # writing on white
    assert probes["other"].getpixel((0, 0)) == BLUE


def test_criteria_written_in_the_image_are_parroted_unless_text_is_asked_for():
    finding = found(
        SQUARE, SIGN, met=lambda criterion, kind: kind in ("response", "parroted", "reversed", "impossible")
    )
    assert ("parroted", SQUARE.criterion) in flags(finding)
    assert ("parroted", SIGN.criterion) not in flags(finding)
    assert finding.claimed == pytest.approx(0.5)


def test_what_the_generator_cannot_draw_yet_is_no_fault_of_a_rubric():
    finding = found(SQUARE, LEFT, met=lambda criterion, kind: False)
    assert finding.flags == ()
    assert set(finding.untested) == {"presence only", "not about it", "indifferent"}
    drawn = found(SQUARE, LEFT, met=lambda criterion, kind: kind in ("response", "everything"))
    assert flags(drawn) == {("presence only", "")}
