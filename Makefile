# Everything here works from a bare checkout: the environments and Java are installed if missing.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-kills test-combinations test-sequences test-lakehouse test-sail test-comet engines engines-random bench bench-large profile lint format clean

# The first Python that is new enough; another: make test PYTHON=python3.12
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	&& echo $$python && break; done)

EXTRAS := test,bench
WITH_SAIL := ,sail

# $(1): the environment's folder, $(2): its pins, $(3): extras. Debian packages venv separately.
define environment
@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed; install it" >&2; exit 2; }
@$(PYTHON) -c 'import ensurepip' 2>/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
	|| { apt-get update -qq; apt-get install -qq -y python3-venv >/dev/null; }
$(1)/bin/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check -c $(2) -e '.[$(3)]'
@touch $@
endef

# Finds or installs Java for Spark; failing that, stops with one line that says what to type.
with_java = @JAVA_HOME=$$($(1)/bin/python -I scripts/install_java.py); export JAVA_HOME;

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: .venv/ready ## run the job on data/samples and look at the busiest sessions
	$(call with_java,.venv) .venv/bin/backfill run data/samples/job.yaml
	$(call with_java,.venv) .venv/bin/backfill show data/samples/job.yaml sessions --top events --limit 10

# The seed of the tests that two lanes draw, and of random streams for the engines.
SEED := $(shell echo $$RANDOM)
# One in this many: of the tests that need no jars, and of those on Sail.
ONE_IN ?= 4
ONE_IN_ON_SAIL ?= 2
# Two processes, each with its own Spark; one that is done takes over tests of the other.
PYTEST = python -m pytest -n 2 --dist worksteal

test: .venv/ready ## the whole test suite, on the newest Spark
	@# Some thirty JVMs start, each faster with an archive of Spark's classes.
	$(call with_java,.venv) .venv/bin/backfill prepare
	$(call with_java,.venv) .venv/bin/$(PYTEST)

test-fast: .venv/ready ## the tests that are not slow
	$(call with_java,.venv) .venv/bin/$(PYTEST) -m 'not slow'

test-kills: .venv/ready ## kill 200 runs at random moments, and 200 whose tables are in an object store
	$(call with_java,.venv) .venv/bin/backfill prepare
	$(call with_java,.venv) BACKFILL_KILLS=200 .venv/bin/python -m pytest tests/execution/test_kill.py

test-combinations: .venv/ready ## compare every engine, format, window and order of arrival; some 25 minutes
	$(call with_java,.venv) BACKFILL_COMBINATIONS=all .venv/bin/python -m pytest tests/reconcile/test_combinations.py

test-sequences: .venv/ready ## ten random sequences of runs for every window, with ids and bots and without; takes long
	$(call with_java,.venv) BACKFILL_SEQUENCES=10 .venv/bin/$(PYTEST) tests/execution/test_invariant.py tests/execution/test_bots.py

test-lakehouse: .venv-lakehouse/ready ## a quarter of the core tests, others each time, on the newest Spark that Iceberg and Delta have jars for
	@echo "These examples again: make test-lakehouse SEED=$(SEED) ONE_IN=$(ONE_IN)"
	@# On the newest Spark all tests run in all variants: a difference of this Spark shows in many.
	@# pyspark 4.1 leaves its sockets to the garbage collector, and Python warns of that.
	$(call with_java,.venv-lakehouse) BACKFILL_SEED=$(SEED) BACKFILL_VARIANTS=2 BACKFILL_ONE_IN=$(ONE_IN) \
	.venv-lakehouse/bin/$(PYTEST) -m 'not slow and not one_lane' --hypothesis-seed=$(SEED) \
	-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

# These count Spark's jobs, or do not depend on the runtime.
NOT_ON_SAIL := $(addprefix tests/quality/,test_events.py test_telemetry.py test_docs.py)
# What Sail computes; tests of what it refuses are marked spark_only, or are in other files.
SAIL_TESTS := tests/aggregates tests/rows tests/runtimes/test_sail.py $(addprefix tests/frames/, \
	test_sessions.py test_session_rules.py test_message_sessions.py test_aligned.py test_sliding.py \
	test_counts.py test_metrics.py test_duplicates.py test_bots.py) $(addprefix tests/joins/,test_join.py \
	test_as_of.py test_session_join.py test_join_by_count.py test_join_rows.py) tests/ledger/test_changes.py \
	tests/ledger/test_event_changes.py tests/planning/test_closure.py $(addprefix tests/execution/, \
	test_invariant.py test_late.py test_kill.py test_edges.py test_session_rules.py \
	test_event_rows.py test_count_rows.py test_metric_rows.py test_join_tables.py test_bots.py \
	test_retention.py test_erase.py test_meanwhile.py test_added_tables.py) \
	tests/events/test_sources.py tests/events/test_several.py \
	tests/ledger/test_arrivals.py tests/ledger/test_iceberg_source.py \
	tests/engines tests/reconcile $(filter-out $(NOT_ON_SAIL),$(wildcard tests/quality/test_*.py)) \
	tests/joins/test_reconciled_tables.py tests/joins/test_reconciled_joins.py

test-sail: .venv-lakehouse/ready ## half of the tests of what Sail computes, a runtime without Java, others each time
	@echo "These examples again: make test-sail SEED=$(SEED) ONE_IN_ON_SAIL=$(ONE_IN_ON_SAIL)"
	@# The client warns of a window without a key, as the server's log does.
	$(call with_java,.venv-lakehouse) BACKFILL_RUNTIME=sail BACKFILL_SEED=$(SEED) BACKFILL_ONE_IN=$(ONE_IN_ON_SAIL) \
	.venv-lakehouse/bin/$(PYTEST) -m 'not spark_only and not one_lane' --hypothesis-seed=$(SEED) \
	-W 'ignore:WARN WindowExpression:UserWarning' $(SAIL_TESTS)

# Comet runs what it can of Spark's plans natively; the results must be the same.
COMET := --packages org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0 \
	--conf spark.plugins=org.apache.spark.CometPlugin \
	--conf spark.shuffle.manager=org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager \
	--conf spark.memory.offHeap.enabled=true --conf spark.memory.offHeap.size=2g pyspark-shell
COMET_TESTS := tests/runtimes/test_comet.py $(filter-out tests/runtimes/test_sail.py,$(SAIL_TESTS))

test-comet: .venv-lakehouse/ready ## the tests of what Spark computes, where Comet runs its plans
	@# Once by one process, so that two do not fetch the jar at the same time.
	$(call with_java,.venv-lakehouse) export PYSPARK_SUBMIT_ARGS='$(COMET)' BACKFILL_SEED=$(SEED) BACKFILL_VARIANTS=2; \
	.venv-lakehouse/bin/python -c 'from backfill.spark import session; session().stop()'; \
	.venv-lakehouse/bin/$(PYTEST) -m 'not slow and not one_lane and not of_plans' --hypothesis-seed=$(SEED) \
	-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(COMET_TESTS)

define with_maven
@{ command -v mvn && command -v javac; } >/dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	&& apt-get install -qq -y maven openjdk-17-jdk-headless >/dev/null; } \
	|| { echo "Maven and a JDK are needed, 17 or newer (Debian: maven openjdk-17-jdk-headless)" >&2; exit 2; }
endef

engines: ## record the streaming engines anew, for the tests of the replay; some 12 minutes
	$(with_maven)
	$(PYTHON) tests/engines/events.py
	tests/engines/kafka/record.sh
	tests/engines/flink/record.sh
	tests/engines/beam/record.sh
	tests/engines/storm/record.sh
	tests/engines/samza/record.sh

ENGINE ?= kafka
CASES ?= 1000

engines-random: .venv/ready ## hold the replay against an engine on random streams: ENGINE=kafka CASES=1000 SEED=7
	$(with_maven)
	.venv/bin/python -m tests.engines.random_cases $(ENGINE) --cases $(CASES) --seed $(SEED)

bench: .venv/ready ## the benchmarks, side by side; some 40 minutes, or with BENCH='--only hopping'
	$(call with_java,.venv) .venv/bin/python -m benchmarks $(BENCH)

bench-large: .venv/ready .venv-lakehouse/ready ## cold, 20 and 100 million events, on Sail as well; some 40 minutes
	$(call with_java,.venv) .venv/bin/python -m benchmarks.large $(BENCH)

profile: .venv/ready ## the slowest stage of each command, from Spark's event log; some 15 minutes
	$(call with_java,.venv) .venv/bin/python -m benchmarks.stages $(BENCH)

lint: .venv/ready ## format, lint, type checks, and which package may import which
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/ready ## put the code in form
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

clean: ## remove what the other targets made
	rm -rf .venv .venv-lakehouse .java build dist data/samples/out benchmarks/data benchmarks/results
	rm -rf tests/engines/*/target
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml constraints.txt
	$(call environment,.venv,constraints.txt,$(EXTRAS))

.venv-lakehouse/ready: pyproject.toml constraints-lakehouse.txt
	$(call environment,.venv-lakehouse,constraints-lakehouse.txt,$(EXTRAS)$(WITH_SAIL))
