"""Unknown keys."""
