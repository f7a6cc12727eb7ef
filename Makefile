# Everything is set up by make itself, in .venv. `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BROWSER := $(VENV)/browser
KEEP   ?=
SINCE  ?=
MINUTES ?= 10
SEED   ?= 1

# Modules are compiled once, whatever this shell says: each node that a test starts has some 350 of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo demo-work test check types tidy rules modules format bench slices delays queues versus drills kafka spark-versions mutants planted site sites dist container docs kcat browser clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## set up .venv with all that the other targets need

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing dependencies into $(VENV) (once; a few minutes on a slow line)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev --editable '.[spark,demo,console,oauth]'
	@touch $(STAMP)

demo: $(STAMP) ## run the main job: real flights through a broker and a Spark pipeline (KEEP=1 leaves the node running)
	@$(BIN)/python -m examples.flights $(if $(KEEP),--keep,)

demo-work: $(STAMP) ## three workers run file, pipeline and SQLite; one is killed in the middle; checked against pandas
	@$(BIN)/python -m examples.flights.at_work

test: $(STAMP) ## all checks, then all tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types tidy rules modules kcat browser
	$(BIN)/python -m pytest -n 4 --dist loadscope --ignore tests/architecture

check: $(STAMP) ## format, lint, types, layers and tidy limits: seconds
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types tidy rules

types: # the first to begin: in a clean clone it takes longest
	$(BIN)/mypy

tidy:
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

rules:
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q --no-header --durations=0 tests/architecture

modules: # compiled once, before each of the processes that run tests would do it; those tell what cannot be imported
	@$(BIN)/python -m pytest --collect-only -qq --ignore tests/architecture >/dev/null || true

format: $(STAMP) ## let ruff put the code in order
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix .

soak: $(STAMP) ## simulate new seeds for MINUTES minutes, or until one fails
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --group soak
	$(BIN)/python -m pytest -q -m soak tests
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -q -m hypothesis tests
	$(BIN)/python -m tests.simulation.soak --minutes $(MINUTES)
	$(BIN)/penstock simulate --minutes $(MINUTES)

bench: $(STAMP) ## measure our budgets: one table, and JSON in bench/results
	$(BIN)/python -m bench

slices: $(STAMP) ## measure what the largest request of each API, in each version, does to the event loop: a table
	$(BIN)/python -m tests.slices

delays: $(STAMP) ## measure what records take that wait by the million, and how late they come (20 minutes): a table
	$(BIN)/python -m tests.delays

queues: $(STAMP) ## measure jobs with an acknowledgement each beside NATS and RabbitMQ (CLIENTS: a Python with nats-py and pika)
	$(BIN)/python -m tests.queues $(if $(CLIENTS),--clients $(CLIENTS))

versus: $(STAMP) ## measure against Apache Kafka (Maven and Java 17 needed; an hour): docs/performance.md
	$(BIN)/python -m bench.versus

kafka: $(STAMP) ## hand in hand with Apache Kafka: one directory, one quorum (Maven, Java 17; NAMES=… picks scenarios)
	nice -n 10 $(BIN)/python -m bench.hand_in_hand $(NAMES)

drills: $(STAMP) ## kill, pause and overload three real nodes, fill one with partitions (80 minutes; DRILLS=… picks some): bench/results/drills.json
	$(BIN)/python -m bench.drills $(DRILLS)

spark-versions: $(STAMP) ## try the data source in fresh environments of Spark 4.0 to 4.3, Connect, spark-submit, spark-pipelines (VERSIONS=… picks some)
	nice -n 10 $(BIN)/python -m tools.spark_versions $(VERSIONS)

mutants: $(STAMP) ## plant some hundred bugs for MINUTES minutes and list those that no test notices (SINCE=… where code changed: docs/mutants.md)
	$(BIN)/python -m tools.mutants --minutes $(MINUTES) --seed $(SEED) $(if $(SINCE),--since $(SINCE) --page docs/mutants.md,)

planted: $(STAMP) ## plant the bugs of tests/planted, each of which its tests and kept seeds must notice
	$(BIN)/python -m tools.planted

site: $(STAMP) ## write the pages as HTML, with a search, into site/
	@$(BIN)/python -m tools.site

sites: $(STAMP) ## the same for this and earlier versions beside each other (REFS="v0.2 v0.1"), into sites/
	@$(BIN)/python -m tools.site.versions sites $(REFS)

dist: $(STAMP) site ## build the source distribution and, out of it, the wheel, in dist/, and have twine check them
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dist
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

container: $(STAMP) ## carry out the steps of the Containerfile without Docker, and run three nodes as compose.yaml says (root, debootstrap; after make dist)
	nice -n 10 $(BIN)/python -m tools.try_container

docs: $(STAMP) ## generate the pages that are derived from the code
	$(BIN)/python tools/generate_docs.py

kcat: # a client in C that some wire tests use; without it they are skipped and say so
	@command -v kcat >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get update -qq; apt-get install -y -qq kcat; } >/dev/null 2>&1; } || true

browser: # a Chromium without a screen, in which the console is tested; without npm those tests are skipped and say so
	@$(BIN)/python -m tools.browser $(BROWSER)

clean: ## remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist site sites penstock-data
