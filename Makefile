# make demo    compile and run the example network for all targets (sets itself up)
# make test    everything: lit and pytest, with the system packages they need
# make check   ruff, pyright, lit and the fast tests
# make docs    write the pages of docs/ that are printed from the code
# make clean   remove what the other targets made
#
# NEED_ALL=1 makes `make test` fail where a system tool is missing instead of leaving tests out.

VENV ?= .venv
PYTHON ?= python3
JOBS ?= 2
BIN := $(VENV)/bin

.PHONY: demo test check docs clean system compilers
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: compilers $(VENV)/.installed
	$(BIN)/python examples/digits/demo.py

test: system $(VENV)/.installed-test
	$(BIN)/lit -q -j$(JOBS) test/lit
	$(BIN)/python -m pytest -n $(JOBS) test
	@tools/system_packages.sh report

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lit -q -j$(JOBS) test/lit
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" test

docs: $(VENV)/.installed
	$(BIN)/python docs/tools/generate.py

compilers:
	@tools/system_packages.sh install gcc g++

system:
	@NEED_ALL=$(NEED_ALL) tools/system_packages.sh install

$(VENV)/bin/python:
	@tools/system_packages.sh venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name Output \) -prune -exec rm -rf {} +
