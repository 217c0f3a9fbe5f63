# Everything a developer does, from a fresh clone, unattended. Needs make and Python 3.11 to 3.13.

.DEFAULT_GOAL := help
.PHONY: help setup run demo test check format generate bench curves chaos clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DATA := .data
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	if $$name -c '$(SUITABLE)' 2>/dev/null; then echo $$name; break; fi; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# Tests of processes that die and come back mostly wait: two per core. All these processes read the same modules:
# compiled ones are kept for the next, wherever the environment says otherwise.
PYTEST_PROCESSES ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the locked dependencies and this project

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed (make PYTHON=/path/to/python3 ...)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## Run the whole service until Ctrl-C, with a sample zone; data stays in .data
	@$(BIN)/bulkdeploy up --data-dir $(DATA) --demo-zone

demo: setup ## Start everything, deploy 200 VMs with one call, show where they went, stop
	@$(BIN)/bulkdeploy demo

test: setup ## Run all tests, on real PostgreSQL, Valkey, HTTP and Celery
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(PYTEST_PROCESSES) --dist worksteal $(TESTS)

check: setup ## Format, lint, types, import contracts, generated files
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m bulkdeploy.manage.generate --check

format: setup ## Format the code and mend what can be mended
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

generate: setup ## Write the generated files anew
	$(BIN)/python -m bulkdeploy.manage.generate

bench: setup ## Measure planning, bulk calls and throughput
	@$(BIN)/python -m benchmarks

bench-lists: setup ## Measure every list command at 25,000 hosts and VMs, 5,000 accounts
	@$(BIN)/python -m benchmarks.lists

curves: setup ## Draw how the cost of a bulk call grows, into docs/images
	@$(BIN)/python -m benchmarks.curves

chaos: setup ## Break a running system in every way for MINUTES=10 and check its promises; SEED= repeats one
	@$(BIN)/python -m tests.chaos

clean: ## Remove what make made, but not data
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
