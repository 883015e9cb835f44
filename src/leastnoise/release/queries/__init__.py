"""Linear queries: their language, and what a release can answer."""
