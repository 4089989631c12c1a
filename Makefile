# Every target creates .venv by itself when it is missing: nothing is needed but Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq

.PHONY: setup demo test test-portable test-pythons test-lowest lint dist dist-check bench bench-quick bench-series docs clean
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

# Bytecode is written, whatever the environment says: pytest's own rewriting of every test file is a third of what it takes to start.
test test-portable test-lowest: export PYTHONDONTWRITEBYTECODE =
test: .venv/dev ## every test, doctest and README example
	@$(BIN)/python -m pytest -n 2 --dist worksteal

test-portable: .venv/dev ## the numerical tests with the arithmetic of an older processor, two minutes
	@$(BIN)/python scripts/portable.py

test-pythons: .venv/dev ## a part of the tests, and one forecast, under each later Python at hand
	@$(BIN)/python scripts/pythons.py

# Made anew after each change: uv keeps what is installed. Without torch, which uv does not find.
.venv-lowest/ready: pyproject.toml
	@rm -rf .venv-lowest
	@$(PYTHON) -m venv .venv-lowest
	@echo "installing the lowest versions that pyproject.toml allows"
	@.venv-lowest/bin/python -m pip --disable-pip-version-check install -qq uv
	@.venv-lowest/bin/uv pip install -q --python .venv-lowest/bin/python --resolution lowest-direct \
		-e '.[test-core,mujoco,onnx,parquet,dask,optuna,sktime]'
	@touch $@

test-lowest: .venv-lowest/ready ## the tests that touch dependencies, with their lowest versions, five minutes
	@.venv-lowest/bin/python scripts/lowest.py

lint: .venv/dev ## style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.venv/dist: .venv/core
	@$(PIP) -e '.[dist]'
	@touch $@

dist: .venv/dist ## wheel and source distribution in dist/, checked
	@rm -rf dist
	@$(BIN)/python -m build > /dev/null
	@$(BIN)/python -m twine check --strict dist/*

dist-check: dist ## the same, installed in fresh environments and tried, three minutes
	@$(BIN)/python scripts/check_dist.py

.venv/bench: .venv/dev
	@echo "installing the peers"
	@$(PIP) -e '.[bench]'
	@touch $@

bench: .venv/bench ## beside the peers, about ten minutes: benchmarks/RESULTS.md and docs/benchmarks.md
	@$(BIN)/python benchmarks/run.py peers

bench-quick: .venv/bench ## the same in two minutes, printed only
	@$(BIN)/python benchmarks/run.py peers --quick

# In an environment of its own: statsforecast needs a pandas older than the tests do.
.venv-series/ready: pyproject.toml
	@test -x .venv-series/bin/python || $(PYTHON) -m venv .venv-series
	@echo "installing statsforecast and the series of the competitions"
	@.venv-series/bin/python -m pip --disable-pip-version-check install -qq -e '.[bench-series]'
	@touch $@

bench-series: .venv-series/ready ## series beside statsforecast's models, about half an hour
	@.venv-series/bin/python benchmarks/run.py series --set m3 --seed 2 3 4 --n 400

.venv/docs: .venv/dev
	@echo "installing what the pages need"
	@$(PIP) -e '.[docs]'
	@touch $@

docs: .venv/docs ## the pages, in docs/build; a warning is an error
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/build
	@echo "the pages are in docs/build/index.html"

clean:
	rm -rf dist .venv .venv-lowest .venv-series reproduction forecast docs/build docs/jupyter_execute docs/generated
