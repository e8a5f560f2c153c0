# Everything happens in .venv, made from the hash-locked requirements; nothing else on the machine is touched.
PYTHON ?=
PYTEST_ARGS ?=
CRASH_ARGS ?=
PAID_ARGS ?=
OUTBOX_ARGS ?= --kills 5000
SEEDS ?= 64
DAYS ?= 3
SEED ?=
MUTANT ?=
JOBS ?= 2
SIMULATE_ARGS ?=
LIVE ?=
BENCH_ARGS ?=
UPGRADE ?=
WEIGHT_ARGS ?=
MUTATE_ARGS ?=
CAMPAIGN_ARGS ?=
DEMO_ARGS ?=
# uv or pip; uv is taken where it is on the machine.
INSTALLER ?=

# Three workers for two processors: a third of their time is spent waiting.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python install/install_locked.py $(if $(INSTALLER),--installer $(INSTALLER))
# A poisoned upload is usually found within hours: a lock never holds a release younger than seven days.
COMPILE := $(BIN)/uv pip compile $(if $(UPGRADE),--upgrade) --quiet --universal --python-version 3.11 --generate-hashes --exclude-newer '7 days' \
	--excludes install/unused-requirements.txt --no-emit-index-url --custom-compile-command 'make lock'
EXTRAS := --extra duckduckgo --extra calculate --extra apprise
TESTED := --extra plots --extra polymarket --extra keyring --extra cluster --extra mixed
SIGNER := $(VENV)/signer
PEER := $(VENV)/peer
PEER_PACKAGE := forecasting-tools==0.3.5
RUNTIME := $(VENV)/.runtime
TOOLS := $(VENV)/.tools

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo sample docs test check format lint types cover bench bench-peer mutate campaign crash simulate scoreboard test-model test-slow test-live hostile signer weight plots lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUNTIME) ## install what is needed and show everything at work in a simulated world: no keys, no network use
	$(BIN)/foxcast demo $(DEMO_ARGS)

demo: run ## the same as make run (DEMO_ARGS="--seed 7" for another world)

sample: $(RUNTIME) ## forecast, resolve and score the sample questions that come with the program, which are invented: no keys, no network use
	$(BIN)/foxcast run --once

test: $(TOOLS) ## run all tests (PYTEST_ARGS="-k word" for some)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

check: lint types test ## format, lint, types and tests

format: $(TOOLS) ## rewrite the source in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(TOOLS)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(TOOLS)
	$(BIN)/mypy

docs: $(TOOLS) ## write docs/settings.md and docs/commands.md from the program's own texts
	$(BIN)/python -m tests.reference_pages

cover: $(TOOLS) ## run all tests and hold bot and plugins to 97 % of lines and branches
	$(BIN)/pytest --cov=bot --cov=plugins --cov-report= $(PYTEST_ARGS)
	$(BIN)/coverage report --include='bot/*' --fail-under=97
	$(BIN)/coverage report --include='plugins/*' --fail-under=97

bench: $(TOOLS) ## print the table of speed, memory, start, weight and growth (BENCH_ARGS="comparison http", or all)
	$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

bench-peer: $(TOOLS) ## install forecasting-tools in an environment of its own, for its column in the table
	$(BIN)/python -m venv --clear --without-pip $(PEER)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(PEER)/bin/python --exclude-newer '7 days' '$(PEER_PACKAGE)'

mutate: $(TOOLS) ## change what spends or sends, bit by bit: do the tests notice? (MUTATE_ARGS="--part gate --minutes 30")
	nice -n 10 $(BIN)/python -m tests.mutation_testing $(MUTATE_ARGS)

test-model: $(TOOLS) ## forecast 50 questions with a real small model on this machine, then one with each mind
	$(BIN)/pytest --numprocesses 0 --run-model-campaign tests/model $(PYTEST_ARGS)

test-slow: $(TOOLS) ## run the tests that take minutes: stages, waiting for the rates of venues
	$(BIN)/pytest --numprocesses 4 --run-slow -m slow $(PYTEST_ARGS)

test-live: $(TOOLS) ## ask the real services whose keys are set, with LIVE=1
	@test "$(LIVE)" = 1 || { echo 'This asks real services, some for money: make test-live LIVE=1' >&2; exit 1; }
	$(BIN)/pytest --run-live tests/live $(PYTEST_ARGS)

hostile: $(TOOLS) ## let an obedient model read all hostile pages
	$(BIN)/python -m tests.integration.hostile_campaign --keep

crash: $(TOOLS) ## kill the daemon at random moments, also while it asks models or writes to venues, and check each time
	$(BIN)/python -m tests.crash.daemon_campaign --keep $(CRASH_ARGS)
	$(BIN)/python -m tests.crash.paid_calls_campaign --keep $(PAID_ARGS)
	$(BIN)/python -m tests.crash.outbox_campaign --keep $(OUTBOX_ARGS)
	$(BIN)/python -m tests.crash.outbox_campaign --mutants --kills 600

campaign: $(TOOLS) ## the long programme of simulations, kills, faults and mutated inputs, which continues where it stopped (CAMPAIGN_ARGS="--part inputs --minutes 10")
	nice -n 15 $(BIN)/python -m tests.campaign $(CAMPAIGN_ARGS)

signer: $(SIGNER)/.installed ## install the signer of real orders apart: no library for models beside the key
	@echo 'In [venues.polymarket.settings]: signer_python = "$(CURDIR)/$(SIGNER)/bin/python"'

weight: $(TOOLS) ## compare the size of an installation with the last release (WEIGHT_ARGS=--record at a release)
	$(BIN)/python -m tests.installed_weight $(WEIGHT_ARGS)

plots: $(RUNTIME) ## install what draws plots (--plot of forecast, explain and score)
	$(INSTALL) $(VENV) install/plots.lock

simulate: $(TOOLS) ## live days of the whole daemon in virtual time (SEEDS=64 DAYS=3, or SEED=7 to replay one)
	$(BIN)/python -m tests.simulation.full_system --days $(DAYS) \
		$(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(JOBS) --keep simulate) \
		$(if $(MUTANT),--mutant $(MUTANT)) $(SIMULATE_ARGS)

scoreboard: $(TOOLS) ## add up what simulations and campaigns kept: state/scoreboard.json, and a table
	$(BIN)/python -m tests.scoreboard

lock: $(TOOLS) ## write what pyproject.toml asks for into the lock files; versions stay (UPGRADE=1: the newest, all of them)
	$(COMPILE) --group build $(EXTRAS) pyproject.toml --output-file requirements.lock
	$(COMPILE) --group dev $(EXTRAS) $(TESTED) --constraint requirements.lock pyproject.toml \
		--output-file tests/requirements.lock
	for made in polymarket:signer plots:plots; do \
		$(BIN)/python -c "import sys, tomllib; read = tomllib.load(open('pyproject.toml', 'rb')); \
			print(*read['project']['optional-dependencies'][sys.argv[1]], sep='\n')" $${made%:*} \
			| $(COMPILE) --constraint tests/requirements.lock - --output-file install/$${made#*:}.lock || exit 1; \
	done

clean: ## remove .venv and every cache (state/ stays)
	rm -rf $(VENV) __pycache__ .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find bot plugins tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@found=; for candidate in $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python); do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			found=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo 'Foxcast needs Python 3.11 or newer: install it, or name it with make PYTHON=/path/to/python' >&2; \
		exit 1; \
	fi; \
	if ! $$found -m venv $(if $(shell command -v uv),--without-pip) $(VENV); then \
		rm -rf $(VENV); \
		echo "Foxcast needs the venv module of $$found: install it (Debian: python3-venv)" >&2; \
		exit 1; \
	fi

$(RUNTIME): requirements.lock pyproject.toml | $(BIN)/python
	@echo 'installing the locked requirements into $(VENV), once ...'
	@$(INSTALL) --in-place $(VENV) requirements.lock
	@touch $@

$(TOOLS): tests/requirements.lock tests/model.lock $(RUNTIME)
	@$(INSTALL) $(VENV) tests/requirements.lock tests/model.lock
	@touch $@

$(SIGNER)/.installed: install/signer.lock | $(BIN)/python
	$(BIN)/python -m venv --without-pip $(SIGNER)
	@$(INSTALL) $(SIGNER) install/signer.lock
	@touch $@
