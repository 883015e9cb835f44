"""Exact noise: rounded Gaussians from secure bits."""

from leastnoise.noise.bits import Bits, BoundBits, SecureBits, SeededBits
from leastnoise.noise.gaussian import rounded_gaussian

__all__ = ["Bits", "BoundBits", "SecureBits", "SeededBits", "rounded_gaussian"]
