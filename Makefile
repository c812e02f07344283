# Everything runs from .venv; the first target that needs it builds it.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON  ?= python3
RUNTIME ?= cpu
HOST    ?= 127.0.0.1
PORT    ?= 8080

BIN   := .venv/bin
ROOMS := $(wildcard superopt generator verifier axioms optimizer server substitution_db tests benchmarks)
ONLINE := superopt axioms optimizer server substitution_db
STAMP := .venv/installed-$(RUNTIME)
LIBRARY := OPENBLAS_NUM_THREADS=1 SUPEROPT_LIBRARY=/dev/null SUPEROPT_DATABASE_URL=build/library/rules.db $(BIN)/superopt library

.PHONY: help setup demo test check serve bench library clean

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Settings: PYTHON=$(PYTHON) RUNTIME=$(RUNTIME) (cpu or gpu) HOST=$(HOST) PORT=$(PORT)"

setup: $(STAMP) ## Build .venv with the pinned packages

# The two runtimes overwrite each other's files, so the other one goes first and this one is then forced in.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "superopt needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv \
	    || { echo "No venv module: install python3-venv (apt-get install python3-venv)" >&2; exit 2; }
	@if ls .venv/installed-* >/dev/null 2>&1 && ! test -e $@; then \
	    $(BIN)/pip uninstall --quiet --yes onnxruntime onnxruntime-gpu; rm -f .venv/installed-*; fi
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(RUNTIME),discovery,distributed,jax,otel,postgres,dev]'
	@touch $@

demo: setup ## Optimize a real network and print what was gained
	@mkdir -p build/demo
	$(BIN)/superopt zoo build light-densenet121 -o build/demo/densenet121.onnx
	$(BIN)/superopt optimize build/demo/densenet121.onnx -o build/demo/densenet121-optimized.onnx \
	    --budget 60 --report build/demo/report.json --report build/demo/report.html

test: check ## Check the code and run the tests
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: setup ## Lint, format, types (strict), floors, what the service runs (bandit)
	$(BIN)/ruff check --quiet $(ROOMS)
	$(BIN)/ruff format --quiet --check $(ROOMS)
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive $(ONLINE)

serve: setup ## Serve HTTP on HOST:PORT
	$(BIN)/superopt serve --host $(HOST) --port $(PORT)

bench: setup ## Measure against peers
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(RUNTIME),bench]'
	$(BIN)/python -m benchmarks peers

library: setup ## Discover, prove and choose the shipped library anew; say what differs
	@rm -rf build/library && mkdir -p build/library && cp substitution_db/library.jsonl build/library/before.jsonl
	$(LIBRARY) generate --preset all
	$(LIBRARY) verify --jobs 2
	$(LIBRARY) select
	$(LIBRARY) export --selected substitution_db/library.jsonl
	$(LIBRARY) export --left-out docs/library/left-out.txt
	$(LIBRARY) document substitution_db/library.jsonl -o docs/library.md
	@$(BIN)/superopt library compare build/library/before.jsonl substitution_db/library.jsonl || test $$? = 1

clean: ## Remove .venv, build outputs and caches
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(ROOMS) -type d -name __pycache__ -prune -exec rm -rf {} +
