"""Every refusal of the package is held by a test."""

import pytest

from tests.refusal_texts import Refusal, all_refusals, runs_of_tests, untested

# Refusals without a test of their own, each with the reason; a text that is gone or tested must leave this list.
DAMAGED = "only a file that somebody changed has it; it becomes '... is damaged', and tests/fuzz reads such files"
BEHIND = "a second check behind others that users meet first"
NUMERIC = "a guard of floats; no input is known that reaches it"
ALLOWED = {
    "the runs of X do not make up its table; the file is damaged": DAMAGED,
    "it restricts a table that is too large, or without words": DAMAGED,
    "more seeded reports than reports": DAMAGED,
    "counts of another shape": DAMAGED,
    "its plan does not have its fingerprint": DAMAGED,
    "its items have fields that do not belong there": DAMAGED,
    "it has neither a matrix of queries nor running totals": DAMAGED,
    "its names are not those of its trees": DAMAGED,
    "its families have no spread": DAMAGED,
    "its exact nodes imply others": DAMAGED,
    "the array X does not hold integers": DAMAGED,
    "the array X does not hold numbers": DAMAGED,
    "a strategy has no shape": DAMAGED,
    "a baseline does not sum to 1": DAMAGED,
    "a baseline is not X numbers that sum to 1": DAMAGED,
    "its solutions are not those of its residuals": DAMAGED,
    "its parts are on different domains": DAMAGED,
    "its integer plan has fields that do not belong there": DAMAGED,
    "its noise costs more than its budget": DAMAGED,
    "its queries have no name": DAMAGED,
    "its side counts have no rules, or no people": DAMAGED,
    "its side counts are not as many as they should be": DAMAGED,
    "its side counts state another sensitivity than they have": DAMAGED,
    "an array of it holds text that is not Unicode": DAMAGED,
    "it is of another kind of X": DAMAGED,
    "its checksum is wrong": DAMAGED,
    "the axes X of a part must be a tuple in ascending order": BEHIND,
    "this stream was opened before a fork; only the process that opened it can add to it": BEHIND,
    "noise of variance X is too little to be drawn; use larger targets": NUMERIC,
    "the tables cannot be pooled: their targets are too different; pool similar ones": NUMERIC,
    "rows on X values are too much alike to be rounded; use solver 'fourier'": NUMERIC,
    "Fourier coefficients of X cells differ too much to be rounded; use coarser values": NUMERIC,
}


@pytest.mark.long
def test_every_refusal_is_tested():
    """A new message needs a test with some words that are its own, best one that follows its advice."""
    found = untested(all_refusals(), runs_of_tests(but=__file__))
    assert not (new := [str(r) for r in found if r.texts[0] not in ALLOWED]), "\n".join(new)
    assert not (old := set(ALLOWED) - {r.texts[0] for r in found}), f"these are tested or gone: {sorted(old)}"


def test_words_that_others_have_hold_nothing():
    one = Refusal("a.py", 1, ("X bins are too many; use coarser values",))
    other = Refusal("b.py", 1, ("X rows are too many; use coarser values",))
    assert untested([one, other], {"use coarser values"}) == [one, other]
    assert untested([one, other], {"use coarser values", "bins are too"}) == [other]
