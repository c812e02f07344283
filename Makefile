# Everything runs from .venv; the first target that needs it builds it.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON  ?= python3
RUNTIME ?= cpu
APT     ?= yes
HOST    ?= 127.0.0.1
PORT    ?= 8080

BIN   := .venv/bin
PACKAGES := $(wildcard superopt generator verifier axioms optimizer server substitution_db tests benchmarks examples)
ONLINE := superopt axioms optimizer server substitution_db
PIP   := $(BIN)/pip install -qq --disable-pip-version-check --constraint constraints.txt
RUNS  := .venv/installed-$(RUNTIME)
STAMP := .venv/installed-$(RUNTIME)-all
EXTRAS := $(RUNTIME),discovery,distributed,jax,otel,page,postgres,dev
LIBRARY := OPENBLAS_NUM_THREADS=1 SUPEROPT_LIBRARY=/dev/null SUPEROPT_DATABASE_URL=build/library/rules.db $(BIN)/superopt library

.PHONY: help setup packages demo test check docs serve bench library clean

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Settings: PYTHON=$(PYTHON) RUNTIME=$(RUNTIME) (cpu or gpu) APT=$(APT) (yes or no) HOST=$(HOST) PORT=$(PORT)"

setup: $(STAMP) ## Build .venv with all pinned packages

# The two runtimes overwrite each other's files, so the other one goes first and this one is then forced in.
$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "superopt needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(call install,python3-venv); } >&2 \
	    || { echo "No venv module: install python3-venv (apt-get install python3-venv)" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@if ls .venv/installed-* >/dev/null 2>&1 && ! test -e $@; then \
	    $(BIN)/pip uninstall --quiet --yes onnxruntime onnxruntime-gpu; rm -f .venv/installed-*; fi
	@echo "Installing superopt into .venv (about 0.35 GB; a minute or two)"
	@$(PIP) --editable '.[$(RUNTIME)]'
	@$(one-runtime)
	@touch $@

$(STAMP): $(RUNS)
	@echo "Installing what development and tests need into .venv (about 1.7 GB more; some minutes)"
	@$(PIP) --editable '.[$(EXTRAS)]'
	@$(one-runtime)
	@touch $@

# The core depends on onnxruntime, whose files onnxruntime-gpu overwrites and pip removes with it.
one-runtime = if [[ $(RUNTIME) == gpu ]]; then \
    $(BIN)/pip uninstall --quiet --yes onnxruntime onnxruntime-gpu && $(PIP) --no-deps onnxruntime-gpu; fi

# $(call install,PACKAGE): whether it could be installed: as root, or by a sudo that asks for no password.
install = as=(); if ((UID)); then as=(sudo -n); fi; \
    [[ $(APT) == yes ]] && command -v apt-get >/dev/null && "$${as[@]}" true 2>/dev/null && \
    echo "Installing the package $(1) (make APT=no leaves the machine as it is)" && \
    { "$${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) \
    || { "$${as[@]}" apt-get update -qq && \
    "$${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1); }; } \
    >/dev/null 2>&1 </dev/null

# What tests use of the machine. A test that finds it missing is skipped and says so.
packages:
	@command -v curl >/dev/null || { $(call install,curl); } || true
	@command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null \
	    || { $(call install,postgresql); } || true
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	    || { $(call install,chromium libatomic1); } || true

demo: $(RUNS) ## Optimize a real network and print what was gained
	@mkdir -p build/demo
	$(BIN)/superopt zoo build light-densenet121 -o build/demo/densenet121.onnx
	$(BIN)/superopt optimize build/demo/densenet121.onnx -o build/demo/densenet121-optimized.onnx \
	    --budget 60 --report build/demo/report.json --report build/demo/report.html

test: packages check ## Check the code and run the tests
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: setup ## Lint, format, types (strict), layers, operator names, what the service runs (bandit)
	$(BIN)/ruff check --quiet $(PACKAGES)
	$(BIN)/ruff format --quiet --check $(PACKAGES)
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.operator_names
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive $(ONLINE)

docs: setup ## Build the documentation as a site in build/site
	$(BIN)/mkdocs build --quiet --strict

serve: setup ## Serve HTTP on HOST:PORT
	$(BIN)/superopt serve --host $(HOST) --port $(PORT)

bench: setup ## Measure against peers
	@$(PIP) --editable '.[$(RUNTIME),bench]'
	@$(one-runtime)
	$(BIN)/python -m benchmarks peers

library: setup ## Discover, prove and choose the shipped library anew; say what differs
	@rm -rf build/library && mkdir -p build/library && cp substitution_db/library.jsonl build/library/before.jsonl
	$(LIBRARY) generate --preset all
	$(LIBRARY) algorithms --store
	$(LIBRARY) verify --jobs 2
	$(LIBRARY) select
	$(LIBRARY) export --selected substitution_db/library.jsonl
	$(LIBRARY) export --left-out docs/library/left-out.txt
	$(LIBRARY) document substitution_db/library.jsonl -o docs/library.md
	@$(BIN)/superopt library compare build/library/before.jsonl substitution_db/library.jsonl || test $$? = 1

clean: ## Remove .venv, build outputs and caches
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(PACKAGES) -type d -name __pycache__ -prune -exec rm -rf {} +
