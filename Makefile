PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
RUNS := .venv/.runs
# Two workers with one linear-algebra thread each; more threads than cores slow everything down.
WORKERS ?= 2
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
NAME ?=
ARGS ?=
FOLDER ?=

.PHONY: install setup engines demo quick test slow check format bench docs packages clean

# What running needs, about 620 MB; `setup` adds the tools of development and all engines, about 2.5 GB.
install: $(RUNS)

$(RUNS): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $(RUNS)

setup: $(STAMP)

$(STAMP): $(RUNS)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

# A server, a cluster and a browser for the tests that need them; what cannot be installed is named after the tests.
engines: .venv/.engines

.venv/.engines: tests/engines/install.sh $(STAMP)
	sh tests/engines/install.sh
	touch $@

demo: install
	$(BIN)/leastnoise demo $(FOLDER)

# For daily work: the first case of every test, without long ones and engines; says what it leaves out.
quick: setup
	$(PYTEST) -n $(WORKERS) --dist loadgroup --quick

test: setup engines
	$(PYTEST) -n $(WORKERS) --dist loadgroup -m "not slow"

# Slow tests, cases that a covering subset leaves out, properties with all of their examples, and Spark on a cluster.
slow: export LEASTNOISE_SPARK ?= local-cluster[2,1,1024]
slow: setup engines
	$(PYTEST) -n $(WORKERS) --dist loadgroup -m "slow or hypothesis or spark" --hypothesis-profile full

check: setup
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/ruff check src tests bench tools
	$(BIN)/mypy src
	$(PYTEST) tests/test_layers.py tests/test_style.py tests/test_guarantees.py

format: setup
	$(BIN)/ruff format src tests bench tools
	$(BIN)/ruff check --fix .

bench: setup
	@test -n "$(NAME)" || { echo "name a benchmark: make bench NAME=..., one of the modules in bench/"; exit 2; }
	$(BIN)/python -m bench.$(NAME) $(ARGS)

# The reference of the command line, written from the commands.
.PHONY: reference
reference: setup
	$(BIN)/python -m tools.cli_reference

# The documentation as a site in site/; fails on a warning or a dead link.
docs: setup
	$(BIN)/python -m tools.site_build

# A wheel and an sdist in dist/, installed into fresh environments outside the checkout, where the demo must run.
packages:
	sh tools/packages.sh $(PYTHON)

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
