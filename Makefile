# Two commands matter to a newcomer: `make demo` and `make test`. Each makes its own environment first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SOURCES := manifests planner executors fleetctl tests examples

.DEFAULT_GOAL := help
.PHONY: help env demo test check bench soak docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' Makefile

env: $(STAMP) ## make .venv and install the project with its development tools

# Redone only when pyproject.toml changes; the stamp is written last, so a broken install is not taken for one.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than 3.11; set PYTHON=python3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "make: $(PYTHON) has no venv module; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing fleetctl and its tools into $(VENV) (once; a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
