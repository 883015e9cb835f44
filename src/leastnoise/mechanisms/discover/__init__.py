"""Unknown keys: values of an attribute that nobody listed, found by noisy counts of their people."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.mechanisms.discover.plan import DiscoverPlan, discover
    from leastnoise.mechanisms.discover.release import KeysRelease

__all__ = ["DiscoverPlan", "KeysRelease", "discover"]

export_lazily(__name__)
