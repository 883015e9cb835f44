"""Saved releases, exports and what other tools read."""
