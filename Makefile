# `make dev` serves the whole system on this machine; `make test` runs all tests. Both set up what they need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
UV     := 0.13.8

# A stamp is newer than all that its environment was made from.
DEV_STAMP  := $(VENV)/.dev-stamp
TEST_STAMP := $(VENV)/.test-stamp

# More arguments: make dev ARGS="--port 9000", make test ARGS="-k refund"
ARGS ?=
# make bench ENTRIES=100000 for a smaller one
ENTRIES ?= 1000000
# Tests run in this many processes, a file in one of them.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help dev demo test torture bench eval check format lock clean \
        layer synth deploy destroy

help:
	@echo "make dev     set up and serve everything at http://127.0.0.1:8787"
	@echo "make demo    set up, then one conversation from end to end, checked"
	@echo "make test    set up and run all tests"
	@echo "make torture kills, faults and load, for minutes"
	@echo "make bench   imports, a turn on short and long threads, compaction, recall, a search among a million entries"
	@echo "make eval    what memory keeps of the evaluation set; asks a real model if a key is set"
	@echo "make layer   build what goes to Lambda: build/layer, build/functions"
	@echo "make synth   the CloudFormation template, offline (ARGS=\"-c database=express\")"
	@echo "make deploy  build, and deploy to the AWS account of your credentials (infra/stages/dev.json keeps your settings)"
	@echo "make destroy take the stack down (what of the data stays: -c retain=...)"
	@echo "make check   formatting, lint, types and import rules"
	@echo "make format  rewrite the code as make check wants it"
	@echo "make lock    lock all dependencies again (ARGS=--upgrade: in newer versions)"
	@echo "make clean   remove the environment and everything that was built"

dev: $(DEV_STAMP)
	@$(BIN)/layover dev $(ARGS)

demo: $(DEV_STAMP)
	@$(BIN)/layover demo $(ARGS)

test: $(TEST_STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

torture: $(TEST_STAMP)
	@$(BIN)/python -m pytest tests/torture -m torture $(ARGS)

bench: $(TEST_STAMP)
	@$(BIN)/python tests/benchmarks/imports.py
	@$(BIN)/python tests/benchmarks/thread_length.py
	@$(BIN)/python tests/benchmarks/compaction.py
	@$(BIN)/python tests/benchmarks/recall_scale.py
	@$(BIN)/python tests/benchmarks/entries_scale.py $(ENTRIES)

eval: $(TEST_STAMP)
	@PYTHONPATH=tests $(BIN)/python -m eval.run $(ARGS)

check: $(TEST_STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TEST_STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# AWS. The CDK's command line comes from package-lock.json, the app from this environment.

# Node 20 works and is past its end of life.
CDK := JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 node_modules/.bin/cdk
# RDS's certificates have roots of their own. AWS's own list of them, for all regions:
RDS_ROOTS := https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem

layer: $(TEST_STAMP)
	@$(BIN)/python -m infra.build

synth: layer node_modules/.package-lock.json
	@$(CDK) synth --quiet $(ARGS)

# The bundle first: it goes into the layer, and without it no function trusts the database.
deploy: build/rds-global-bundle.pem layer node_modules/.package-lock.json
	@$(BIN)/python -m infra.preflight $(ARGS)
	@$(CDK) deploy $(ARGS)

destroy: layer node_modules/.package-lock.json
	@$(CDK) destroy $(ARGS)

build/rds-global-bundle.pem:
	@mkdir -p build
	@curl --fail --silent --show-error --proto =https --output $@.part $(RDS_ROOTS)
	@grep -q 'BEGIN CERTIFICATE' $@.part && mv $@.part $@

node_modules/.package-lock.json: package.json package-lock.json
	@npm ci --silent --no-audit --no-fund
	@touch $@

# The environment

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Layover needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV); the first time takes about a minute."
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed (Debian, Ubuntu: install python3-venv)." >&2; exit 1; }

# What the agents of this checkout import, with what that needs, in no other version than the lock's.
AGENTS_NEED := $(wildcard functions/user_agents/requirements.txt)
define install-agents-need
	@sed -e 's/ *\\$$//' -e '/^ *--hash/d' requirements/dev.lock > $(VENV)/dev-constraints.txt
	@$(if $(AGENTS_NEED),$(PIP) install -r $(AGENTS_NEED) -c $(VENV)/dev-constraints.txt)
endef

$(DEV_STAMP): requirements/dev.lock pyproject.toml $(AGENTS_NEED) | $(VENV)/pyvenv.cfg
	@$(PIP) install --no-deps -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	$(install-agents-need)
	@touch $@

# test.lock holds all of dev.lock, in the same versions.
$(TEST_STAMP): requirements/test.lock pyproject.toml $(AGENTS_NEED) | $(VENV)/pyvenv.cfg
	@$(PIP) install --no-deps -r requirements/test.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	$(install-agents-need)
	@touch $(DEV_STAMP) $@

# Locks: one for every Python and platform that is supported. runtime is what the Lambda layer
# carries; dev adds the one-machine runner, test the tools and the CDK.

COMPILE := build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header \
           --no-annotate --no-emit-index-url --no-emit-find-links $(ARGS) pyproject.toml

lock: build/uv/bin/uv
	$(COMPILE) -o requirements/runtime.lock
	$(COMPILE) --extra local --group build -c requirements/runtime.lock -o requirements/dev.lock
	$(COMPILE) --extra local --extra infra --extra test --group build \
	  -c requirements/dev.lock -o requirements/test.lock

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip --quiet --disable-pip-version-check install uv==$(UV)

clean:
	rm -rf $(VENV) build cdk.out node_modules .layover .hypothesis .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache
	find functions infra layers tests -name __pycache__ -type d -prune -exec rm -rf {} +
