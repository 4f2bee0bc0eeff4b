# `make demo` and `make test` each work alone on a fresh machine: they create .venv, install, and run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   see it work on an embedded cohort (about a minute after installation)"
	@echo "make test   lint, type check, layer contract, tests"
	@echo "make bench  speed, as ratios against named competitors"

# constraints.txt pins torch: without it pip fetches gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/brainroam demo --out demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

bench: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache
