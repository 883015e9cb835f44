"""Laws over lists: every case runs, and every case that fails is named."""

import pytest

from tests.every import for_every

seen: list[tuple[int, str]] = []


@pytest.mark.parametrize("shared", ["fixture or parameter"])
@for_every(number=[1, 2, 3], letter="ab")
def collects(number, letter, shared):
    seen.append((number, letter))
    assert number != 2, "even"


def test_every_case_runs_and_all_failures_are_named():
    seen.clear()
    with pytest.raises(ExceptionGroup, match="2 of 6 cases break collects") as raised:
        collects(shared="")
    assert seen == [(n, letter) for n in (1, 2, 3) for letter in "ab"]
    notes = [error.__notes__[-1] for error in raised.value.exceptions]
    assert notes == ["in the case number = 2, letter = 'a'", "in the case number = 2, letter = 'b'"]


def test_a_list_without_members_is_a_mistake():
    with pytest.raises(AssertionError, match="nothing to hold the law against in name"):
        for_every(name=[])


@for_every(case=["one", "two"])
def test_works_with_fixtures(case, tmp_path):
    (tmp_path / case).write_text(case)
    assert case in {path.name for path in tmp_path.iterdir()}
