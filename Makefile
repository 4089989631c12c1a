# Every target creates .venv by itself when it is missing: nothing is needed but Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq

.PHONY: setup demo test lint bench docs clean
.DELETE_ON_ERROR:

.venv/core: pyproject.toml
	@test -x $(BIN)/python || { echo "creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing pesn and what it runs on"
	@$(PIP) -e .
	@touch $@

.venv/dev: .venv/core
	@echo "installing what the tests and checks need"
	@$(PIP) -e '.[dev]'
	@touch $@

setup: .venv/dev ## .venv with everything that the tests need

demo: .venv/core ## every table and figure of the paper from small samples, on a page
	@$(BIN)/pesn reproduce --quick

test: .venv/dev ## every test, doctest and README example
	@$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/dev ## style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.venv/bench: .venv/dev
	@echo "installing the peers"
	@$(PIP) -e '.[bench]'
	@touch $@

bench: .venv/bench ## figures, as ratios inside one run; benchmarks/networks.py has the slower ones
	@$(BIN)/python benchmarks/moments.py
	@$(BIN)/python benchmarks/networks.py speed
	@$(BIN)/python benchmarks/reservoirs.py

.venv/docs: .venv/core
	@echo "installing what the pages need"
	@$(PIP) -e '.[docs]'
	@touch $@

docs: .venv/docs ## the pages, in docs/build; a warning is an error
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/build
	@echo "the pages are in docs/build/index.html"

clean:
	rm -rf .venv reproduction docs/build
