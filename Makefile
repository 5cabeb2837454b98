# One gate for laptops and CI. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
# Two processes for two cores; what shares Spark stays in one of them (tests/conftest.py).
SIDE_BY_SIDE := -n 2
READY := .venv/.ready
PAGE := $(filter-out %openapi.json %openapi.d.ts,$(wildcard ui/*.json ui/*.ts ui/index.html ui/src/*.* ui/src/*/*.*))

.PHONY: help setup demo check lint test bench soak simulate format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## build .venv with the omnigraph command in it

$(READY): requirements.lock pyproject.toml scripts/setup scripts/tables scripts/ui $(PAGE) $(wildcard src/omnigraph/lang/*/grammar.lark)
	@scripts/setup

demo: $(READY) ## the tour, in less than a minute; make demo SPARK=1 adds a load on Spark
	@SPARK=$(SPARK) scripts/demo

lint: $(READY) ## formatting, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## lint and the fast tests
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not slow"

test: lint ## lint and every test
	$(BIN)/pytest $(SIDE_BY_SIDE)

bench: $(READY) ## the benchmarks, as ratios; JSON goes to benchmarks/results
	@for each in benchmarks/*.py; do echo "== $$each"; PYTHONPATH=tests $(BIN)/python "$$each"; done

soak: export OMNIGRAPH_RANDOM := 1
soak: $(READY) ## many more deaths, for hours: make soak KILLS=200 SEED=17 for fewer
	OMNIGRAPH_KILLS=$(or $(KILLS),2000) OMNIGRAPH_SEED=$(or $(SEED),0) $(BIN)/pytest -s tests/faults/test_storm.py
	PYTHONPATH=tests $(BIN)/python -m support.simulation --seed $(or $(SEED),0) --steps $(or $(STEPS),1000000)
	PYTHONPATH=tests $(BIN)/python -m support.simulation --seed $(or $(SEED),0) --kind mixed --steps $(or $(STEPS),1000000)
	PYTHONPATH=tests $(BIN)/python -m support.simulation --seed $(or $(SEED),0) --kind groups --steps $(or $(STEPS),1000000)
	OMNIGRAPH_DAMAGE_STRIDE=1 $(BIN)/pytest tests/faults/test_damage.py
	OMNIGRAPH_POWER_CUTS=$(or $(CUTS),2000) OMNIGRAPH_SEED=$(or $(SEED),0) $(BIN)/pytest tests/faults/test_power_cuts.py
	OMNIGRAPH_SWEEP_STRIDE=1 $(BIN)/pytest tests/faults/test_{mutation,attempt,group}_sweep.py tests/faults/test_{tidying_faults,failpoints,hostile_machines}.py tests/compat/test_migration_faults.py
	OMNIGRAPH_FRONT=1 OMNIGRAPH_KILLS=$(or $(KILLS),300) OMNIGRAPH_SEED=$(or $(SEED),0) $(BIN)/pytest -s tests/faults/test_storm.py -k in_a_bucket
	OMNIGRAPH_SICK_ROUNDS=40 OMNIGRAPH_SEED=$(or $(SEED),0) $(BIN)/pytest tests/faults/test_sick_buckets.py
	PYTHONPATH=tests $(BIN)/python -m support.fuzzing all --runs $(or $(RUNS),1000000) --seed $(or $(SEED),1)
	OMNIGRAPH_GRAPH_EXAMPLES=500 $(BIN)/pytest tests/properties/test_graph_machine.py
	OMNIGRAPH_GROUP_EXAMPLES=1000 OMNIGRAPH_GROUPS=10000 $(BIN)/pytest tests/properties/test_group_laws.py tests/cost/test_cost_of_group_history.py
	OMNIGRAPH_SOAK=1 $(BIN)/pytest tests/properties/test_search_laws.py
	OMNIGRAPH_SWEEP_STRIDE=1 OMNIGRAPH_SCHEMA_EXAMPLES=100 OMNIGRAPH_SCHEMA_STEPS=40 OMNIGRAPH_COMMITS=10000 \
	  $(BIN)/pytest tests/faults/test_schema_sweep.py tests/faults/test_maintenance_soak.py tests/properties/test_schema_machine.py
	OMNIGRAPH_SWEEP_STRIDE=1 OMNIGRAPH_MERGE_EXAMPLES=200 OMNIGRAPH_MERGE_ROWS=1000000 \
	  $(BIN)/pytest tests/faults/test_merge_sweep.py tests/properties/test_merge_machine.py tests/cost/test_cost_of_merging.py
	OMNIGRAPH_QUERY_EXAMPLES=2000 $(BIN)/pytest tests/properties/test_{query,pass}_laws.py
	OMNIGRAPH_SQL_EXAMPLES=5000 $(BIN)/pytest tests/properties/test_sql_laws.py
	OMNIGRAPH_SPARK_KILLS=20 OMNIGRAPH_SEED=$(or $(SEED),0) $(BIN)/pytest -s tests/faults/test_frame_storm.py
	OMNIGRAPH_CLUSTER_ROWS=20000 $(BIN)/pytest tests/pipeline/test_cluster.py
	OMNIGRAPH_SPARK_QUERY_EXAMPLES=300 $(BIN)/pytest tests/pipeline/test_query_on_spark_laws.py
	OMNIGRAPH_CHECK_EXAMPLES=200 OMNIGRAPH_ENGINE_EXAMPLES=100 OMNIGRAPH_PREFILTER_EXAMPLES=5000 $(BIN)/pytest tests/pipeline/test_check_laws.py tests/pipeline/test_engine_laws.py tests/pipeline/test_prefilter_laws.py
	OMNIGRAPH_API_EXAMPLES=200 $(BIN)/pytest tests/integration/test_openapi.py
	OMNIGRAPH_SWAP_EXAMPLES=500 $(BIN)/pytest tests/properties/test_swap_laws.py
	scripts/mutants

simulate: $(READY) ## worlds of processes that die, pause and lose replies: make simulate SEED=7 STEPS=100000 KIND=groups
	PYTHONPATH=tests $(BIN)/python -m support.simulation --seed $(or $(SEED),0) --kind $(or $(KIND),alone) --steps $(or $(STEPS),100000)

format: $(READY) ## rewrite the sources in house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove everything that setup and the tests made
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/results .demo ui/node_modules src/omnigraph/server/page
