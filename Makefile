# Targets for developers. `make` lists them.

PYTHON ?= python3
# One more than the cores of a small machine: tests also wait for servers and disks.
JOBS ?= 3
VENV := .venv
BIN := $(VENV)/bin
# The last of the modules that are generated, which stands for all of them.
TWINS := src/stead/client/blocking/transport.py
# Each worker has a part of the tests that lie beside each other, so that it makes what their modules share once.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal

# Processes that tests start would compile all of Stead again.
unexport PYTHONDONTWRITEBYTECODE

# The tools that tests of Stead share with those of wsgi-lanes. pytest takes this folder from pyproject.toml.
WITH_TOOLS := PYTHONPATH=distributions/wsgi-lanes/tests

.DEFAULT_GOAL := help

# Tests that between them use every dependency.
USES_OF_DEPENDENCIES := tests/dependencies tests/rooms/config/test_report.py \
	tests/rooms/auth/test_keystone.py tests/rooms/auth/test_policy_tools.py tests/rooms/observe/test_log.py \
	tests/rooms/observe/test_exporter.py tests/rooms/observe/test_scraping.py \
	tests/rooms/cli/test_topology_command.py tests/rooms/topology/test_hwloc.py \
	tests/rooms/api/test_bodies.py tests/rooms/api/test_routing.py tests/system/microversions/test_openapi.py \
	tests/rooms/cli/test_the_command.py tests/rooms/serve/test_serve.py distributions/wsgi-lanes/tests \
	tests/rooms/store/sql/test_bulk_queries.py tests/rooms/store/protocol/test_epoch.py \
	tests/system/faults/test_a_database_that_hangs.py \
	tests/bench/test_candidates_command.py::test_a_picture_is_drawn \
	tests/system/deploy/test_servers.py::test_gunicorn_serves_it tests/system/browser/test_pages.py

.PHONY: help breaks run test thorough lowest newest lock lint format twins docs bench examples differential torture torture-galera releases clients fuzz headroom planning worst hostile framing reloads segments steady jobs runs supervisor clean

help:  ## List the targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-15s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/for-use  ## Start Stead on an embedded database with the sample site, and print commands to try; PORT=8778 sets its port
	@$(BIN)/python scripts/run.py

test: $(VENV)/for-development  ## Run every test once, on SQLite, PostgreSQL and MariaDB in turn; those of the store on each
	$(PYTEST) --run quick --durations 15 --durations-min 1 $(ARGS)

thorough: $(VENV)/for-development  ## Run what `make test` leaves out: all other cases, all examples of properties, lowest, newest
	$(PYTEST) --run rest --durations 30 --durations-min 1
	$(MAKE) lowest newest

lowest: $(VENV)-lowest/for-tests  ## Run the tests that use the dependencies with their lowest versions; PYTHON= selects another Python
	$(VENV)-lowest/bin/pytest -n $(JOBS) $(or $(ARGS),$(USES_OF_DEPENDENCIES))

newest:  ## Run the same tests with the newest versions, in an environment made for each run
	@rm -rf $(VENV)-newest
	@scripts/make-venv $(VENV)-newest $(PYTHON) ".[test,postgresql,mysql] ./bench[plot]"
	$(VENV)-newest/bin/pytest -n $(JOBS) $(or $(ARGS),$(USES_OF_DEPENDENCIES))

lock: $(VENV)/for-development  ## Write locks/, the versions that `make` installs; ARGS=--upgrade takes the newest of all
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.versions lock $(ARGS)

lint: $(VENV)/for-development  ## Check style, types and imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd bench && ../$(BIN)/lint-imports --config pyproject.toml

format: $(VENV)/for-development  ## Format the code, and fix what the linter can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

twins: $(TWINS)  ## Generate the synchronous client from the asynchronous one

docs: $(VENV)/for-development  ## Generate the parts of docs/ that come from the code, and the pages in build/site
	$(BIN)/python -m scripts.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/for-development  ## Measure candidate queries on large sites; ARGS= takes arguments of `stead-bench candidates`
	$(BIN)/stead-bench candidates $(ARGS)

examples: $(VENV)/for-development  ## Check the worked examples of allocation candidates on every database
	$(BIN)/pytest tests/system/examples $(ARGS)

differential: $(VENV)/for-development  ## Compare with the released service over N=20000 random requests; SEED= repeats a run
	$(BIN)/python -m tests.system.differential $(or $(N),20000) $(if $(SEED),--seed $(SEED))

torture: $(VENV)/for-development  ## Kill processes and cut connections for MINUTES=5, and check the responses; SEED= repeats choices
	$(BIN)/pytest -m torture tests/rooms/serve/test_serving.py
	$(BIN)/python -m tests.system.torture $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

releases: $(VENV)/for-development  ## Install every release of the OpenStack service, and adopt the databases that it creates
	$(BIN)/pytest -m releases tests/system/adoption $(ARGS)

clients: $(VENV)/for-development  ## Generate a client for Go, and claim with it; needs go, java and openapi-generator-cli
	$(BIN)/pytest -m clients tests/system/library $(ARGS)

fuzz: $(VENV)/for-development  ## Send N=100000 generated requests, valid and invalid, and check the responses; SEED= repeats a run
	$(BIN)/python -m tests.system.fuzz $(or $(N),100000) $(if $(SEED),--seed $(SEED)) $(ARGS)

headroom: $(VENV)/for-development  ## Compare headroom and advice with brute force on N=5000 random sites and requests
	STEAD_HEADROOM_CASES=$(or $(N),5000) $(BIN)/pytest tests/rooms/candidates/headroom/test_headroom.py tests/rooms/candidates/headroom/test_keeping.py \
		tests/rooms/candidates/advice/test_advice.py tests/rooms/candidates/test_gangs.py $(ARGS)

breaks: $(VENV)/for-development  ## End connections to the databases at every message of every kind of request
	STEAD_BREAK_STEP=1 $(BIN)/pytest tests/system/faults/test_connections_that_break.py $(ARGS)

worst: $(VENV)/for-development  ## Climb for SECONDS=300 to the request of each expensive question that takes the most time; SEED= repeats a run
	$(BIN)/python -m tests.system.worst $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED)) $(ARGS)

planning: $(VENV)/for-development  ## Compare what-if with real changes on N=500 random sites, and drain hosts beside other writers
	STEAD_PLANNING_CASES=$(or $(N),500) $(BIN)/pytest -n $(JOBS) tests/system/planning $(ARGS)

hostile: $(VENV)/for-development  ## Attack a server for SECONDS=30 in each way, and check the responses to other clients and the memory
	$(WITH_TOOLS) $(BIN)/python -m tests.system.hostile $(or $(SECONDS),30) $(ARGS)

framing: $(VENV)/for-development  ## Compare how Stead, h11, gunicorn, nginx and uWSGI read N=20000 ambiguous streams of requests
	$(WITH_TOOLS) $(BIN)/python -m tests.system.framing $(or $(N),20000) $(ARGS)

reloads: $(VENV)/for-development  ## Reload a server N=200 times under load, and count lost requests
	$(WITH_TOOLS) $(BIN)/python -m tests.system.hostile.reloads $(or $(N),200)

supervisor: $(VENV)/for-development  ## Kill, crash and hang workers in N=100 random sequences, and check which ones serve
	STEAD_SUPERVISOR_CASES=$(or $(N),100) $(BIN)/pytest tests/rooms/serve/test_supervisor.py $(ARGS)

steady: $(VENV)/for-development  ## Run all tests RUNS=10 times beside two busy processes
	$(BIN)/python -m scripts.steady $(or $(RUNS),10)

segments: $(VENV)/for-development  ## Cut every request at every boundary, over TCP, TLS and a Unix socket (about 20 minutes)
	$(WITH_TOOLS) $(BIN)/python -m tests.system.segments

jobs: $(VENV)/for-development  ## Place N=10000 jobs with a small scheduler, and kill it and the server KILLS=100 times
	STEAD_TOY_JOBS=$(or $(N),10000) STEAD_TOY_KILLS=$(or $(KILLS),100) $(BIN)/pytest tests/system/library/test_toy_scheduler.py $(ARGS)

runs: $(VENV)/for-development  ## Run 16 commands on 8 cards in ROUNDS=500 rounds, and kill some; claim halves of cards 1,000 times
	STEAD_RUN_ROUNDS=$(or $(ROUNDS),500) STEAD_HALF_ROUNDS=1000 $(BIN)/pytest tests/system/library/test_runs_race.py $(ARGS)

torture-galera: $(VENV)/for-development  ## Run torture on a Galera cluster: write to all of three nodes, and kill one at times
	$(BIN)/pytest -m torture tests/system/torture/test_galera.py
	$(BIN)/python -m tests.system.torture.galera $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean:  ## Remove generated files, except the data of `make run` in .stead
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(TWINS): scripts/twins.py $(wildcard src/stead/client/aio/*.py)
	@$(PYTHON) -m scripts.twins
	@touch $@

$(VENV)/for-use: pyproject.toml locks/for-use.txt | $(TWINS)
	@scripts/make-venv $(VENV) $(PYTHON) "." --lock locks/for-use.txt
	@touch $@

$(VENV)/for-development: pyproject.toml bench/pyproject.toml locks/for-development.txt | $(TWINS)
	@scripts/make-venv $(VENV) $(PYTHON) ".[dev,docs,postgresql,mysql] ./bench[plot]" --lock locks/for-development.txt
	@touch $@ $(VENV)/for-use

$(VENV)-lowest/for-tests: pyproject.toml bench/pyproject.toml scripts/versions.py
	@mkdir -p build
	@$(PYTHON) -m scripts.versions lowest > build/lowest.txt
	@rm -rf $(VENV)-lowest
	@scripts/make-venv $(VENV)-lowest $(PYTHON) ".[test,postgresql,mysql] ./bench[plot]" --constraint build/lowest.txt
	@touch $@
