"""Benchmarks: one module per published table or figure, ours beside theirs. Run `make bench NAME=qs_table4`."""
