# `make dev` serves the whole system on this machine; `make test` runs the first tier of tests. Both set up what they
# need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
# Of most packages a start imports a small part: what it imports is compiled then, and kept.
INSTALL := $(PIP) install --no-compile

# Bytecode is kept, whatever the shell says: functions start again and again.
unexport PYTHONDONTWRITEBYTECODE

# A stamp is newer than all that its environment was made from.
DEV_STAMP  := $(VENV)/.dev-stamp
TEST_STAMP := $(VENV)/.test-stamp

# More arguments: make dev ARGS="--port 9000", make test ARGS="-k refund"
ARGS ?=
# make bench-scale ENTRIES=100000 for a smaller one
ENTRIES ?= 1000000
# Tests run in this many processes, a file in one of them. Twice two cores: they wait for Postgres and for processes.
WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help dev demo test test-agents test-all torture simulate simulate-mutations bench bench-scale eval check format lock audit clean \
        docs layer certificates synth deploy destroy

help:
	@echo "make dev          set up and serve everything at http://127.0.0.1:8787"
	@echo "make demo         set up, then run and check one conversation from end to end"
	@echo "make test         set up and run the first tier of tests: minutes"
	@echo "make test-agents  only the tests of your agents in functions/user_agents: seconds, once set up"
	@echo "make test-all     all of make test, and every test that starts the whole system: half an hour"
	@echo "make torture      full kill matrices, faults and load: an hour"
	@echo "make simulate     play stories of the simulation: SEED=7 MODE=calm shows one, FIRST=0 LAST=999 plays many"
	@echo "make bench        measure a turn next to its floor, imports, turns on short and long threads, memory: minutes"
	@echo "make bench-scale  measure compaction, neighbours, following, operators, recall, a search among a million entries: longer"
	@echo "make eval         measure what memory keeps of the evaluation set; asks a real model if a key is set"
	@echo "make layer        build what goes to Lambda: build/layer, build/functions"
	@echo "make synth        write the CloudFormation template (needs no credentials, fetches RDS's root certificates once; ARGS=\"-c stage=prod\")"
	@echo "make deploy       build, and deploy to the AWS account of your credentials (infra/stages/dev.json has your settings)"
	@echo "make destroy      take the stack down (-c retain=... decides which data stays)"
	@echo "make check        check formatting, lint, types and import rules"
	@echo "make format       format the code and apply lint fixes"
	@echo "make docs         build the documentation's site in build/site; a warning is an error"
	@echo "make lock         lock all dependencies again (ARGS=--upgrade takes newer versions)"
	@echo "make audit        list known vulnerabilities in the locked dependencies; asks PyPI"
	@echo "make clean        remove the environment and everything that was built"

dev: $(DEV_STAMP)
	@$(BIN)/layover dev $(ARGS)

demo: $(DEV_STAMP)
	@$(BIN)/layover demo $(ARGS)

# Files in the order of tests/support/tiers.py, those that take longest first.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(TEST_STAMP)
	@$(PYTEST) --tier test $(ARGS)

test-agents: $(DEV_STAMP)
	@$(BIN)/layover test $(ARGS)

test-all: $(TEST_STAMP)
	@$(PYTEST) --tier all $(ARGS)

torture: $(TEST_STAMP)
	@$(BIN)/python -m pytest --tier torture $(ARGS)

# make simulate SEED=7 MODE=calm, make simulate FIRST=0 LAST=999 (MODE empty: all in turn; ARGS=--shrink)
SEED  ?=
MODE  ?=
FIRST ?= 0
LAST  ?= 299

simulate: $(TEST_STAMP)
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.play --mode "$(MODE)" --first $(FIRST) --last $(LAST) \
		$(if $(SEED),--seed $(SEED)) $(ARGS)

simulate-mutations: $(TEST_STAMP)
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.mutations $(ARGS)

bench: $(TEST_STAMP)
	@$(BIN)/python tests/benchmarks/turn.py
	@$(BIN)/python tests/benchmarks/imports.py
	@$(BIN)/python tests/benchmarks/thread_length.py
	@$(BIN)/python tests/benchmarks/memory_cost.py
	@$(BIN)/python tests/benchmarks/tracing.py

bench-scale: $(TEST_STAMP)
	@$(BIN)/python tests/benchmarks/compaction.py
	@$(BIN)/python tests/benchmarks/neighbours.py
	@$(BIN)/python tests/benchmarks/following.py
	@$(BIN)/python tests/benchmarks/operators.py
	@$(BIN)/python tests/benchmarks/recall_scale.py
	@$(BIN)/python tests/benchmarks/entries_scale.py $(ENTRIES)

eval: $(TEST_STAMP)
	@PYTHONPATH=tests $(BIN)/python -m eval.run $(ARGS)

# Two processes halve a check of types without its cache. mypy gives them 3 s to start, which a busy machine may
# miss: what one process says decides, and only that is printed.
check: $(TEST_STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	types=$$($(BIN)/mypy -n 2 2>&1) && echo "$$types" || $(BIN)/mypy
	$(BIN)/lint-imports

format: $(TEST_STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# AWS: `layover` does what is needed, in this checkout as in any project. The CDK's command line comes from
# package-lock.json.

layer: $(TEST_STAMP)
	@$(BIN)/python -m layover.desk.cdk.build

synth: $(TEST_STAMP) node_modules/.package-lock.json
	@$(BIN)/layover synth $(ARGS)

deploy: $(TEST_STAMP) node_modules/.package-lock.json
	@$(BIN)/layover deploy $(ARGS)

destroy: $(TEST_STAMP) node_modules/.package-lock.json
	@$(BIN)/layover destroy $(ARGS)

# Fetched again after 30 days; without a network an older one does, as long as its roots live.
certificates: $(TEST_STAMP)
	@$(BIN)/python -m layover.desk.cdk.certificates

node_modules/.package-lock.json: package.json package-lock.json
	@npm ci --silent --no-audit --no-fund
	@touch $@

# The environment

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Layover needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version 2>&1) ..."
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed (Debian, Ubuntu: install python3-venv)." >&2; exit 1; }

# What the agents of this checkout import, with what that needs, in no other version than the lock's.
AGENTS_NEED := $(wildcard functions/user_agents/requirements.txt)
define install-agents-need
	@sed -e 's/ *\\$$//' -e '/^ *--hash/d' requirements/dev.lock > $(VENV)/dev-constraints.txt
	@$(if $(AGENTS_NEED),echo "Installing what functions/user_agents/requirements.txt names ..."; $(INSTALL) -r $(AGENTS_NEED) -c $(VENV)/dev-constraints.txt)
endef

define install-locked
	@echo "Installing the $$(grep -c == requirements/$(1).lock) packages of requirements/$(1).lock ..."
	@$(INSTALL) --no-deps --require-hashes -r requirements/$(1).lock
	@echo "Installing Layover itself ..."
	@$(INSTALL) --no-deps --no-build-isolation --editable .
endef

$(DEV_STAMP): requirements/dev.lock pyproject.toml $(AGENTS_NEED) | $(VENV)/pyvenv.cfg
	$(call install-locked,dev)
	$(install-agents-need)
	@touch $@

# pytest compiles tests in its own way when it first reads them. Two processes do here what each worker would do
# again. What is wrong with a test is said where it runs.
COLLECT := $(BIN)/python -m pytest --collect-only -qq
ONE_HALF   := tests/unit tests/contract
OTHER_HALF := tests/infra tests/integration tests/migration tests/property tests/simulation tests/eval tests/walk

# test.lock holds all of dev.lock, in the same versions.
$(TEST_STAMP): requirements/test.lock pyproject.toml $(AGENTS_NEED) | $(VENV)/pyvenv.cfg
	$(call install-locked,test)
	$(install-agents-need)
	@echo "Compiling the tests ..."
	@{ $(COLLECT) $(ONE_HALF) & $(COLLECT) $(OTHER_HALF); wait; } >/dev/null 2>&1
	@touch $(DEV_STAMP) $@

# Locks: one for every Python and platform that is supported, with the hashes of all files that may be
# installed. runtime is what the Lambda layer carries; dev adds the one-machine runner, test the tools and the
# CDK; tools is uv itself and what looks for advisories, docs what makes the site, each in an environment of
# its own.

COMPILE := build/tools/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header \
           --no-annotate --no-emit-index-url --no-emit-find-links --generate-hashes $(ARGS)

lock: build/tools/.stamp
	$(COMPILE) pyproject.toml -o requirements/runtime.lock
	$(COMPILE) pyproject.toml --extra local --group build -c requirements/runtime.lock \
	  -o requirements/dev.lock
	$(COMPILE) pyproject.toml --extra local --extra cdk --extra mcp --extra otel --group test --group build \
	  -c requirements/dev.lock -o requirements/test.lock
	$(COMPILE) --group tools -o requirements/tools.lock
	$(COMPILE) --group docs -o requirements/docs.lock

# Known weaknesses of what is locked, as PyPI publishes them. It needs PyPI and no account, and what it says
# changes without a commit: so it runs by itself every week, and not in .ci/run. --strict: what PyPI did not
# answer for is a failure.
audit: build/tools/.stamp
	@for lock in test tools docs; do \
	  build/tools/bin/pip-audit --strict --vulnerability-service pypi --disable-pip --require-hashes \
	    --progress-spinner off -r requirements/$$lock.lock $(ARGS) || exit 1; done

build/tools/.stamp: requirements/tools.lock
	@$(PYTHON) -m venv build/tools
	@build/tools/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps \
	  --require-hashes -r requirements/tools.lock
	@touch $@

# One file of npm's package, with the licence in front. The package's own dependencies are already in it.
MERMAID        := mermaid-12.3.0
MERMAID_SHA512 := e35d774dd5de2c0b0caee27bf4ea452f93bcf8b4c55e142a676eb4ac5ded8149a2340b519b852e99ed3823eeb93d137ac99ebd2787fcad56165bccd193ae5463

# The documentation as a site. Strict: a link or an anchor that leads nowhere is an error. The generator says
# nothing of a page that the navigation names and nobody wrote. The site draws diagrams with its own copy of Mermaid.
docs: build/docs/.stamp build/docs/$(MERMAID).js
	@for page in $$(grep -oE '[a-z0-9/-]+\.md$$' mkdocs.yml); do \
	  [ -f docs/$$page ] || { echo "mkdocs.yml names docs/$$page, and there is no such page" >&2; exit 1; }; done
	@build/docs/bin/zensical build --strict --clean
	@cp build/docs/$(MERMAID).js build/site/javascripts/mermaid.min.js
	@build/docs/bin/python tests/support/api_page.py
	@build/docs/bin/python tests/support/site_hosts.py
	@echo "build/site/index.html"

build/docs/$(MERMAID).js: | build/docs/.stamp
	@cd build/docs && npm pack --silent $(subst mermaid-,mermaid@,$(MERMAID)) >/dev/null
	@build/docs/bin/python -c "import hashlib, sys; \
	  sys.exit(hashlib.sha512(open('build/docs/$(MERMAID).tgz', 'rb').read()).hexdigest() != '$(MERMAID_SHA512)')" || { \
	  echo "$(MERMAID).tgz is not the file that this Makefile names" >&2; exit 1; }
	@{ echo '/*' && tar -xzOf build/docs/$(MERMAID).tgz package/LICENSE && echo '*/' && \
	  tar -xzOf build/docs/$(MERMAID).tgz package/dist/mermaid.min.js; } > $@.part && mv $@.part $@

build/docs/.stamp: requirements/docs.lock
	@$(PYTHON) -m venv build/docs
	@build/docs/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps \
	  --require-hashes -r requirements/docs.lock
	@touch $@

clean:
	rm -rf $(VENV) build cdk.out node_modules .layover .hypothesis .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .cache
	find functions infra layers tests -name __pycache__ -type d -prune -exec rm -rf {} +
