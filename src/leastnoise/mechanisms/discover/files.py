"""Releases of keys as folders: header, noisy counts and keys of one, and back; anything wrong is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.plan import MOST_AT_LEAST, DiscoverPlan
from leastnoise.mechanisms.discover.release import MOST_KEYS, KeysRelease, holdable
from leastnoise.mechanisms.discover.threshold import LEAST
from leastnoise.noise.gaussian import LARGEST_VARIANCE, LEAST_VARIANCE
from leastnoise.privacy.cost import read_positive_fraction
from leastnoise.privacy.neighbours import MOST_ROWS, Change, Neighbours, Size
from leastnoise.release.files import folders
from leastnoise.release.files.folders import Once
from leastnoise.storage.archive import integers, narrow
from leastnoise.storage.records import Record, Saved, Text


class Found(Record):
    """names.json: the keys, all texts or all whole numbers."""

    keys: list[str] | list[int]


class Header(Once):
    """release.json."""

    format = folders.release_format("leastnoise_keys")
    names = Found

    attribute: Text
    neighbours: Change
    rows_per_person: Annotated[int, Field(gt=0, le=MOST_ROWS)]
    size: Size
    exact: None
    max_keys: Annotated[int, Field(gt=0, le=MOST_ROWS)]
    variance: Text
    at_least: Annotated[int, Field(gt=LEAST, le=MOST_AT_LEAST)]
    least: Annotated[int, Field(ge=LEAST)]
    stated_delta: Annotated[float, Field(gt=0, lt=1)]


def record(release: KeysRelease) -> Saved[Header]:
    """Header, noisy counts and keys of a release."""
    header = Header(**folders.run_fields(release, release.plan.fingerprint), **release.plan.fields)
    return Saved(header, {"noisy": narrow(release.noisy)}, Found(keys=list(release.keys)))  # type: ignore[arg-type]


def from_record(saved: Saved[Header]) -> KeysRelease:
    """A release from its header, arrays and keys.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    plan, keys = _plan(saved.header), tuple(saved.names.keys)
    if set(saved.arrays) != {"noisy"}:
        raise LeastnoiseError("it has other arrays than noisy counts")
    noisy = integers(saved.arrays["noisy"], "noisy")
    if noisy.shape != (len(keys),) or len(keys) > MOST_KEYS:
        raise LeastnoiseError("it does not have a count for each key")
    order = [(-count, key) for count, key in zip(noisy.tolist(), keys, strict=True)]
    if order != sorted(order) or len(set(keys)) < len(keys) or not all(map(holdable, keys)):
        raise LeastnoiseError("its keys are not different values, from the largest count on")
    if len(keys) and int(noisy[-1]) < plan.at_least:
        raise LeastnoiseError("it has counts below its threshold")
    return KeysRelease(plan, keys, noisy, **folders.once(saved.header))


def _plan(header: Header) -> DiscoverPlan:
    variance = read_positive_fraction(header.variance)
    if not LEAST_VARIANCE <= variance <= LARGEST_VARIANCE or header.least >= header.at_least:
        raise LeastnoiseError("its noise and its threshold are none of a plan")
    hidden = Neighbours(header.neighbours, header.rows_per_person, header.size)
    plan = DiscoverPlan(
        header.attribute, hidden, header.max_keys, variance, header.at_least, header.least, header.stated_delta
    )
    if plan.fingerprint != header.fingerprint:
        raise LeastnoiseError("its plan does not have its fingerprint")
    return plan
