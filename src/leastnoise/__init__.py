"""Differentially private statistics with the least noise that is provably possible."""

__version__ = "0.1.0"
