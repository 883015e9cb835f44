"""Attributes and their values: domains, encodings, hierarchies."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.domain.attributes import (
        Attribute,
        Domain,
        amount,
        bins,
        dates,
        hierarchy,
        labelled,
        or_unknown,
        sized,
    )

__all__ = ["Attribute", "Domain", "amount", "bins", "dates", "hierarchy", "labelled", "or_unknown", "sized"]

export_lazily(__name__)
