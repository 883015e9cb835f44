"""Exact noise: rounded Gaussians from secure bits."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.noise.bits import Bits, BoundBits, SecureBits, SeededBits
    from leastnoise.noise.gaussian import rounded_gaussian

__all__ = ["Bits", "BoundBits", "SecureBits", "SeededBits", "rounded_gaussian"]

export_lazily(__name__)
