"""Exact noise: rounded Gaussians from secure bits."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.noise.gaussian import rounded_gaussian
    from leastnoise.noise.random_source import BoundRandomSource, RandomSource, SecureRandomSource, SeededRandomSource

__all__ = ["BoundRandomSource", "RandomSource", "SecureRandomSource", "SeededRandomSource", "rounded_gaussian"]

export_lazily(__name__)
