# Two commands: `make demo` shows what the project does, `make test` proves it. Both install what they need into .venv.
.DEFAULT_GOAL := help
PY := .venv/bin/python

.PHONY: help setup demo test core lint types contracts unit format clean

help:
	@echo "make demo    policies compared on a made-up history (a table, an HTML report), then one is learnt"
	@echo "make test    all tests, lint, types and import contracts"
	@echo "make format  put the code into its format"

setup:
	@scripts/setup

demo: setup
	@scripts/demo

test: core lint types contracts unit

# Compiles on one processor while the other checks; a test that needs the core meanwhile waits for it.
core: setup
	@.venv/bin/rltune compare synth:philly,jobs=200 --cluster philly-slice --policy saf,saf+search:2 >/dev/null 2>&1 &

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup
	$(PY) -m mypy -p rltune -p tencache

contracts: setup
	.venv/bin/lint-imports

unit: setup
	@scripts/setup tests
	$(PY) -m pytest packages/tencache/tests packages/rltune/tests -n 3 --dist loadfile --no-loadscope-reorder

format: setup
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis
