"""Audits: a test of a whole mechanism from outside."""
