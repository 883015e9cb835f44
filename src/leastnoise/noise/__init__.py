"""Exact noise: rounded Gaussians from secure bits."""

from leastnoise.noise.bits import Bits, SecureBits, SeededBits
from leastnoise.noise.gaussian import rounded_gaussian

__all__ = ["Bits", "SecureBits", "SeededBits", "rounded_gaussian"]
