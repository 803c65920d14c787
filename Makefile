# Two commands matter to a newcomer: `make demo` and `make test`. Each makes its own environment first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TOOLS  := $(VENV)/.installed-dev
# Narrow a run, for example: make test TESTS=tests/planner
TESTS  ?= tests
# Processes that run tests; each starts the systems that its files need. JOBS=0 runs them in one.
JOBS   ?= 2
# The systems that tests start, by their names in tests/lab/install-packages.sh.
LAB    ?= base libvirt postgres
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help env demo test check format bench bench-cellz soak docs clean system-packages libvirt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(STAMP) ## run the quickstart: three real nodes, a rollout, a refusal
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/quickstart/demo.sh

test: $(TOOLS) system-packages libvirt ## run every test but the soak; install what the tests need
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not soak" $(TESTS)

# Every check runs, whichever failed before it: one run tells everything.
check: $(TOOLS) ## lint, format, types, import contracts, docs
	@failed=; \
	check() { echo "== $$1"; shift; "$$@" || failed=yes; }; \
	check lint $(BIN)/ruff check .; \
	check format $(BIN)/ruff format --check --quiet .; \
	check types $(BIN)/mypy; \
	check imports $(BIN)/lint-imports --no-logo; \
	check docs env NO_MKDOCS_2_WARNING=1 \
	  $(BIN)/mkdocs build --strict --config-file .ci/mkdocs.yml --site-dir $(CURDIR)/build/site; \
	test -z "$$failed"

format: $(TOOLS) ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(TOOLS) ## print the benchmark table; BENCH="plan ssh" for some parts of it
	$(BIN)/python -m tests.bench $(BENCH)
	$(BIN)/python -m tests.bench.libvirt

bench-cellz: $(TOOLS) ## measure the cell daemon, beside CELLZ_PEER where that is set; BENCH as above
	$(BIN)/python -m tests.cellz.bench $(BENCH)

soak: $(TOOLS) system-packages libvirt ## run the long random rounds
	$(BIN)/python -m pytest -m soak --timeout 0 $(TESTS)

docs: $(TOOLS) ## serve the documentation on http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --config-file .ci/mkdocs.yml

env: $(TOOLS) ## make .venv and install the project with its development tools

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# The stamps are written last, so that a broken install is never taken for a whole one, and they are
# redone only when pyproject.toml changes. The demo needs no development tools, hence two of them.
$(STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing fleetctl into $(VENV) (once) ..."
	@$(PIP) --editable .
	@touch $@

$(TOOLS): pyproject.toml | $(BIN)/python
	@echo "Installing fleetctl and its development tools into $(VENV) (once; a minute or two) ..."
	@$(PIP) --editable '.[dev]'
	@touch $(STAMP) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is missing or older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Real systems come from Debian's packages, and only root can install those. Elsewhere, the tests that
# need them are skipped, each with its reason.
system-packages:
	@if [ ! -f tests/lab/install-packages.sh ]; then :; \
	elif [ "$$(id -u)" -eq 0 ] && [ -f /etc/debian_version ]; then sh tests/lab/install-packages.sh $(LAB); \
	else echo "Not root on Debian or Ubuntu: system packages stay as they are; tests that miss one are skipped."; fi

# The extra compiles against libvirt's headers, so it follows the packages that bring them. Where it cannot be
# built, the tests of virtual machines are skipped.
libvirt: $(TOOLS) system-packages
	@if $(BIN)/python -c 'import libvirt, pycdlib' 2>/dev/null; then :; \
	elif pkg-config --exists libvirt 2>/dev/null; then \
	  echo "Installing the extra for virtual machines (once) ..."; \
	  $(PIP) --editable '.[libvirt]' || echo "It could not be built; the tests of virtual machines are skipped."; \
	else echo "No libvirt headers (libvirt-dev, pkg-config): the tests of virtual machines are skipped."; fi
