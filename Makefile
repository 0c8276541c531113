# `make` lists what there is. Everything runs from .venv, which `make env` makes from the lock file.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help env demo serve test check fix
PY := .venv/bin/python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

env: ## Make or mend .venv (PYTHON= names the Python, READONCE_DEVICE=cpu or gpu the build)
	@.ci/env

demo: env ## Read a sample document and ask it three questions
	@.venv/bin/readonce demo $(ARGS)

serve: env ## Start the engine and the web page
	@.venv/bin/readonce serve $(ARGS)

test: env ## Run the fast, engine and browser tests (ARGS= goes to pytest)
	@$(PY) .ci/test $(ARGS)

check: env ## Lint, format, types, import rules; changes nothing
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

fix: env ## Mend what lint and format can mend
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
