# `make help` lists what there is. Everything works in a fresh clone with nothing but a Python 3.11–3.15 and pip.

# In one word with its options: make 3.81, which macOS has, knows no .SHELLFLAGS.
SHELL := bash -euo pipefail
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
# 3.11 if there is one: the primary Python, on which a missing torch is an error and not a reason to skip.
VERSION := $(shell scripts/find-python 3.11 >/dev/null && echo 3.11 || echo any)
OTHERS := 3.12 3.13 3.14 3.15
# On WHOLE all tests are run that need no torch: the newest that all libraries have wheels for, or the one before it
# where that is not to be had. On 3.15, whose syntax is newest, and on the others SET: what depends most on the
# interpreter. `make test-all` runs all on all.
SET ?= engine
WHOLE = $(shell for version in 3.14 3.13 3.12; do ! scripts/find-python $$version >/dev/null || { echo $$version; break; }; done)
PYTEST_ARGS ?= -n auto
# Where the libraries that clew depends on are used.
FLOOR_TESTS := tests/values tests/store tests/export tests/page tests/engines tests/test_recording.py
WHEEL_VENV := build/wheel-venv
# Tests run side by side: torch keeps to one thread in each.
test test-all test-primary test-others test-tf test-floors faults: export OMP_NUM_THREADS ?= 1
# For every pip, those that `venv` and `build` start too: an index that does not answer at once is asked again.
export PIP_RETRIES ?= 10
export PIP_TIMEOUT ?= 30
# Where this is set, each of the hundreds of programs that the tests start would compile clew anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo environments other-environments test test-all test-web test-primary test-others test-tf test-floors faults pictures bench lint format types docs wheel-check clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo:  ## a small training run, recorded, and what was recorded: in the terminal, and as report.html
	@scripts/venv $(VENV) $(VERSION) demo
	$(BIN)/python examples/train.py
	$(BIN)/clew show latest
	$(BIN)/clew show latest accuracy
	@$(BIN)/python scripts/build_page.py
	$(BIN)/clew report latest -o report.html

# Installing keeps one core busy: the others' environments are made beside the primary one.
environments:
	@beside=; failed=; \
	scripts/browser >/dev/null & browser=$$!; \
	[ $(VERSION) = any ] || { $(MAKE) --no-print-directory other-environments && scripts/venv .venv-tf 3.11 test-tf; } & beside=$$!; \
	scripts/venv $(VENV) $(VERSION) test-torch hyrax lint docs wheel || failed=yes; \
	[ -z "$$beside" ] || wait $$beside || failed=yes; \
	wait $$browser || failed=yes; \
	[ -z "$$failed" ]

# A Python that is not here is fetched; where that fails, build/tests keeps the reason, and the others are tested.
other-environments:
	@mkdir -p build/tests
	@for version in $(OTHERS); do \
	    rm -f build/tests/$$version.missing; \
	    if scripts/find-python $$version >/dev/null || scripts/get-python $$version >/dev/null 2>build/tests/$$version.missing; then \
	        rm -f build/tests/$$version.missing; \
	        scripts/venv .venv-$$version $$version test; \
	    fi; \
	done

test: test-web test-primary test-others  ## the whole suite on 3.11, what needs no torch on 3.14, the engine's tests on 3.12, 3.13 and 3.15

test-all: SET := all
test-all: test-web test-primary test-others  ## the same with all that needs no torch on every other Python

test-web:  ## the page's own tests and types, and the page, built
	@scripts/venv $(VENV) $(VERSION) test-torch hyrax
	@$(BIN)/python scripts/build_page.py
	@$(BIN)/python scripts/build_page.py test types

test-primary:
	@scripts/venv $(VENV) $(VERSION) test-torch hyrax
	@$(BIN)/python scripts/build_page.py
	@scripts/browser >/dev/null
	CLEW_PRIMARY=1 scripts/test-on $(VENV) all $(PYTEST_ARGS)

test-others: other-environments
	@failed=; \
	primary=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(OTHERS); do \
	    [ "$$version" != "$$primary" ] || continue; \
	    if [ -e build/tests/$$version.missing ]; then \
	        echo "== Python $$version is not tested: $$(tail -1 build/tests/$$version.missing)"; \
	        continue; \
	    fi; \
	    set=$(SET); [ $$version != "$(WHOLE)" ] || set=all; \
	    scripts/test-on .venv-$$version $$set $(PYTEST_ARGS) || failed="$$failed $$version"; \
	done; \
	[ -z "$$failed" ] || { echo "failed on:$$failed"; exit 1; }

faults:  ## the long forms of tests/faults and tests/hostile: kills, interrupts, failures injected, forged and damaged runs
	@scripts/venv $(VENV) $(VERSION) test-torch hyrax
	CLEW_PRIMARY=1 $(BIN)/python -m pytest --slow $(PYTEST_ARGS) tests/faults tests/hostile

test-floors:  ## with the lowest versions pyproject.toml allows: values, store, exports, the page
	@scripts/venv .venv-floors 3.11 test-floors
	@# what is deprecated in libraries of that age is no matter of ours
	CLEW_PRIMARY=0 .venv-floors/bin/python -m pytest -W ignore::DeprecationWarning -W ignore::FutureWarning -W "ignore:The codec:UserWarning" $(PYTEST_ARGS) $(FLOOR_TESTS)

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
	$(BIN)/zensical build --strict --clean --config-file mkdocs.yml
	@echo "build/docs/index.html"

wheel-check:  ## build the sdist and from it the wheel, install it alone into a clean environment, run the README's quick start and type-check a user's program from there
	@scripts/venv $(VENV) $(VERSION) wheel
	mkdir -p build && rm -rf build/dist $(WHEEL_VENV)
	$(BIN)/python -m build --sdist --outdir build/dist . >build/wheel.log || { cat build/wheel.log; exit 1; }
	@# on a PATH without Node: the sdist has to hold the page
	PATH=/nowhere $(abspath $(BIN))/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/dist build/dist/*.tar.gz
	$(BIN)/python -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --quiet --disable-pip-version-check build/dist/*.whl
	$(WHEEL_VENV)/bin/python scripts/quickstart.py README.md
	@scripts/venv $(VENV) $(VERSION) lint
	$(BIN)/mypy --strict --config-file= --python-executable $(WHEEL_VENV)/bin/python tests/typing/user_program.py
	$(BIN)/pyright --project tests/typing --pythonpath $(WHEEL_VENV)/bin/python

clean:  ## everything that was made, but the demo's runs
	rm -rf build .cache .venv .venv-3.* .venv-tf .venv-floors .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests scripts examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
