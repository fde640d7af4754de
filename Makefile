# What a checkout can do with only Python (3.11 or newer) and git on the machine:
#   make demo    compile causal flash attention for gfx1151 and run the binary on the emulator
#   make test    run the test suite (WORKERS=n processes; PYTEST_ARGS=... for more)
#   make lint    style, types and layering
# Each makes .venv and installs what it needs into it. PyTorch is optional and left to you:
#   .venv/bin/pip install torch

PYTHON ?= python3
WORKERS ?= 2
PYTEST_ARGS ?=

BIN := .venv/bin
# One thread per test process: the arrays are small, and the processes already fill the cores.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: demo test test-slow lint format bench clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tessera needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.installed-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[emulator,lld]'
	@touch $@

.venv/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[emulator,lld,bench,dev]'
	@touch $@ .venv/.installed-demo

demo: .venv/.installed-demo
	$(BIN)/python examples/demo.py

test: .venv/.installed-dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-slow: .venv/.installed-dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) -m slow $(PYTEST_ARGS)

# All four run, so that one report holds everything that has to be put right.
lint: .venv/.installed-dev
	@status=0; \
	for check in 'ruff check .' 'ruff format --check .' 'pyright' \
	  'python -m pytest -q tests/unit/test_layering.py tests/unit/test_house_rules.py'; do \
	  echo "$$check"; $(BIN)/$$check || status=1; \
	done; exit $$status

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.installed-dev
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache
