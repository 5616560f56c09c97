# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
# `make check` is the quick part of `make test`; docs/testing.md says more.
.DEFAULT_GOAL := help
.PHONY: help setup programs static check test flaky lint types docs site demo requirements base-image sbom \
  quix bench clean

PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# uv installs it with much less work than pip; pip does where only pip knows the package index.
EVERYTHING := --constraint constraints.txt --editable '.[dev]'
# Where the compiled form is measured; the environment itself runs the sources.
COMPILED := $(VENV)/compiled
# A peer to measure, apart: it wants an older client than ours.
QUIX := $(VENV)/quix
QUIX_STREAMS := quixstreams==3.28.1
# Three times the cores: many tests wait, for a session to end or a broker to start.
WORKERS ?= 6
# What `make flaky` runs how often; how is an option of `python -m tests.flaky`.
TIMES ?= 5
TESTS ?=
FLAKY ?= --both

# Hundreds of processes start in the tests: none of them should compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Show the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3.11-venv" >&2; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq python3.11-venv && rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); \
	  else exit 1; fi; }
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet $(EVERYTHING) || $(BIN)/python -m pip install --quiet --no-compile $(EVERYTHING)
	@touch $@

setup: $(READY) programs  ## Make the virtual environment and install everything

programs:  # what the tests drive besides Python: a broker's Java, Prometheus, a browser
	@scripts/debian-packages

lint: $(READY)  ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## Check types, strictly, tests too
	$(BIN)/mypy

docs: $(READY)  ## Write docs/api.md and docs/configuration.md from the sources
	$(BIN)/python -m scripts.api_reference > docs/api.new
	mv docs/api.new docs/api.md
	$(BIN)/python -m scripts.configuration > docs/configuration.new
	mv docs/configuration.new docs/configuration.md

site: $(READY)  ## Build the pages into a site, build/site; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -c docs -d build/doctrees . build/site

static: $(READY)  # the three side by side, each with its output in one piece
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types site

check: static  ## Lint, types, the site and the fast tests: no Java, no browser
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "not heavy and not slow"

flaky: $(READY) programs  ## Run TESTS (default: all) TIMES times, idle and busy, and say what failed
	$(BIN)/python -m tests.flaky --times $(TIMES) $(FLAKY) $(TESTS)

test: programs static  ## Lint, types, the site and the whole test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=10

requirements: $(READY)  ## Write deploy/*requirements.txt: what the image installs, with hashes
	PATH="$(BIN):$$PATH" $(BIN)/python -m scripts.requirements

base-image: $(READY)  ## Pin the image's base by the digest that its tag has now; asks its registry
	$(BIN)/python -m scripts.base_image

sbom: $(READY)  ## Write build/sbom.json: what the service needs, as installed here (CycloneDX)
	mkdir -p build
	$(BIN)/python -m scripts.sbom > build/sbom.json

demo: $(READY)  ## See it at work
	$(BIN)/python -m fair_allocator demo

quix: $(READY)  # -I: the bench's PYTHONPATH is not for it
	@$(PYTHON) -m venv $(QUIX) && $(QUIX)/bin/python -I -m pip install --quiet $(QUIX_STREAMS) || { \
	  echo "make: NO QUIX STREAMS, see above: what it is measured by leaves it out" >&2; rm -rf $(QUIX); }

bench: export PYTHONPATH := $(CURDIR)/$(COMPILED)
bench: export PYTHONSAFEPATH := 1
bench: $(READY) programs quix  ## Measure everything, compiled; on a quiet machine, half an hour
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	rm -rf $(COMPILED)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target $(COMPILED) .
	$(BIN)/python -m fair_allocator --version
	$(BIN)/python -m benchmarks.decision
	$(BIN)/python -m benchmarks.subsets
	$(BIN)/python -m benchmarks.embedded
	$(BIN)/python -m benchmarks.requests
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.restart --pools 100000
	$(BIN)/python -m benchmarks.audit
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.observe
	$(BIN)/python -m benchmarks.slow_clients
	$(BIN)/python -m benchmarks.kafka --delivery exactly_once at_least_once --quix $(QUIX)/bin/python
	$(BIN)/python -m benchmarks.kafka --delivery exactly_once at_least_once --client confluent --quix $(QUIX)/bin/python
	$(BIN)/python -m benchmarks.split
	$(BIN)/python -m benchmarks.takeover
	$(BIN)/python -m benchmarks.takeover --client confluent

clean:  ## Remove what was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
