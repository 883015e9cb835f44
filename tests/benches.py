"""Benchmarks as they are called: the exit code, and the document that they end with."""

import importlib
import json

import pytest


def run(name: str, arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict]:
    code = importlib.import_module(f"bench.{name}").main(arguments.split())
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])
