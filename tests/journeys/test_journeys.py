"""From each messy file to a report, an export and three answers, without a line of Python."""

import math
from pathlib import Path

import pytest

from tests.journeys.journey import Journey, follow
from tests.journeys.ways import JOURNEYS
from tests.shell import call

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_messy_file_becomes_a_page(
    journey: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = follow(journey, tmp_path, lambda arguments: call(capsys, *arguments))
    assert [answer["question"] for answer in answers] == [*journey.questions]
    assert all(math.isfinite(row["value"]) for answer in answers for row in answer.get("rows", [answer]))
    first = answers[0]
    if journey.truth is not None:
        assert abs(first["value"] - journey.truth(tmp_path)) < 6 * first["std_error"] + 1  # false alarms: 2e-9
    assert journey.data not in (tmp_path / "page.html").read_text()  # names of files stay here
    assert (tmp_path / "tables" / "csv-metadata.json").exists()


def test_at_most_three_edits_and_the_page_says_how_many() -> None:
    text = (ROOT / "docs" / "howto" / "messy_files.md").read_text()
    for journey in JOURNEYS:
        commands, edits = journey.length
        assert edits <= 3
        assert f"| {commands} | {edits} |" in next(line for line in text.splitlines() if f"`{journey.name}`" in line)
