"""Fuzzing of everything that reads input; `python -m tests.fuzz` says how to run and replay it."""
