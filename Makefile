# `make demo` and `make test` each work alone on a fresh machine: they create .venv, install, and run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# --no-compile: Python compiles what is imported; compiling all that torch brings would be more than half of the work.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
RUNTIME := $(VENV)/.installed-runtime

# Whatever the machine says: hundreds of processes of demo and tests would each compile what they import.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo paper test tests-front tests-middle tests-back lint docs bench versions clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   see it work on an embedded cohort (about a minute after installation)"
	@echo "make test   lint, type check, layer contract, docs, tests"
	@echo "make docs   build the documentation into site/, warnings are errors"
	@echo "make paper DATA=ABIDE_pcp OUT=paper ARGS='--atlas aal'  every table and figure of the CORE paper (hours)"
	@echo "make bench  speed, as ratios against named competitors"
	@echo "make versions  a study with every supported Python, newest and lowest dependencies (needs uv and a package index)"

# constraints.txt pins torch: where a CPU wheel of that version is at hand, pip takes it instead of gigabytes of CUDA.
$(RUNTIME): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[torch]'
	touch $@

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade 'pip>=25.1'  # the first that installs dependency groups
	$(INSTALL) -e '.[torch,dask]' --group dev
	touch $@ $(RUNTIME)

demo: $(RUNTIME)
	$(BIN)/brainroam demo --out demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python scripts/reference.py
	$(BIN)/zensical build --strict
	$(BIN)/python scripts/notebooks.py docs/tutorials site/notebooks

# Plain processes rather than pytest-xdist, whose workers have stood still for hours with nothing left to do.
# Two of them: a third saves nothing on two cores, and a test that kills a Dask worker failed once beside it.
test: $(STAMP)
	$(MAKE) --no-print-directory -j3 lint docs tests-front tests-back LEDGER="$$(mktemp)"

tests-front tests-middle tests-back: tests-%: $(STAMP)
	$(BIN)/python -m pytest -q --from=$* --ledger=$(LEDGER)

# OUT is a folder; what is finished in it is kept. ARGS are further options, see: python -m reproduction --help
paper: $(RUNTIME)
	$(BIN)/python -m reproduction $(DATA) --out $(OUT) $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks

versions:
	$(PYTHON) scripts/check_versions.py

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache
