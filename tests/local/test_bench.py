"""The benchmark runs on a tiny setting."""

import json

import pytest

from bench.local import main


@pytest.mark.long
def test_bench_local_runs(capsys):
    words = "--workloads histogram cdf marginals --devices 20000 --cells 16 --seeds 1".split()
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["ok"] is True
    assert {f["method"] for f in document["figures"]} >= {"local hashing", "hierarchical intervals", "ours, cap"}
