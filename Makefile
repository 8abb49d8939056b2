# make demo    compile and run the example network for all targets (sets itself up)
# make test    lit and pytest, with the system packages they need; of the random and combined cases of
#              tests with the marker `sample`, some
# make test-all    the same with all cases
# make test-xdsl    lit with each supported release of xDSL that is not installed
# make check   ruff, import-linter, pyright on what changed, lit and the fast tests
# make core    delete each extension in a copy, and all of them; the tests of the core pass there
# make fuzz    random networks through the interpreter and C; SEEDS=0:1000 says which
# make fuzz-quantized    quantized random networks, 8 and 16 bits, against the models as written; COUNT, FIRST
# make fuzz-narrow    networks with weights of 1 to 8 bits on all targets; COUNT, FIRST
# make fuzz-generated    transformers, states, loops, integers, Q/DQ, trees, guards of operator
#              sets 7 to 24, through the interpreter, C and nnet; COUNT, FIRST
# make fuzz-node-suite    ONNX's node suite in the interpreter and as C; EVERY=10 for a tenth of it
# make fuzz-c    random networks in C with every compiler and processor at hand; NETWORKS=50
# make fuzz-options    random networks with random options, through all levels and texts; COUNT, FIRST
# make fuzz-ir    mutants of texts, models, folders, boards, arrays, studies, nnet files, images, plugins
#              and options, and of bytes of these files, through the commands; COUNT, FIRST
# make proofs  integer identities that passes and backends rely on, proven; NAMES="ties swish" says
#              which. Without NAMES, also Frama-C on digits and a network for each kind of kernel
# make misra   findings of MISRA C:2012 in the digits network by rule, with reasons
# make docs    write the pages of docs/ that are printed from the code
# make docs-site    build the documentation as a site that works offline, in build/site
# make fuzz-nnet SECONDS=600    libFuzzer on the loader and executor of the nnet engine, and 1,300
#              mutants on which `ceras-nnet check` and the engine must agree
# make fuzz-vta COUNT=2000    random layers through every level down to VTA's streams;
#              CONFIGURATION=all in turns on boards of other sizes, or on one: a name or a file
# make fuzz-dataflow COUNT=300    random chains as circuits, in Verilator under stalls
# make mutants    seed faults in the compiler one by one; which test catches each
# make hashes  compile many networks, compare hashes of all outputs with test/output_hashes.txt;
#              WRITE=1 rewrites the file
# make clean   remove what the other targets made
#
# NEED_ALL=1 makes `make test` fail where a system tool is missing instead of leaving tests out.

VENV ?= .venv
PYTHON ?= python3
JOBS ?= 2
BIN := $(VENV)/bin
LIT := $(BIN)/lit -q -j$(JOBS) --timeout=300

SEEDS ?= 0:1000

# The supported releases of xDSL, as in pyproject.toml.
XDSL := 0.74 0.75

# What is started hundreds of times is compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Tests fill the cores with processes; numpy's threads would spin beside them.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test check fuzz docs clean system compilers
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: compilers $(VENV)/.installed
	$(BIN)/python examples/digits/demo.py

test: system $(VENV)/.installed-test
	@# These cases start the commands. In the others and in pytest, the commands are forks of a
	@# process that has imported all modules, which saves the start-up time, see test/conftest.py.
	$(LIT) test/lit/driver test/lit/examples test/lit/frontends
	$(LIT) -Dforked=1 test/lit/backends test/lit/dialects test/lit/transforms
	$(BIN)/python -m pytest -n $(JOBS) --forked $(CASES) test
	@tools/system_packages.sh report

.PHONY: test-all
test-all:
	@$(MAKE) --no-print-directory test CASES=--all-cases

.PHONY: test-xdsl
test-xdsl: system $(VENV)/.installed-test
	@# The release is in a separate folder, which is before the environment in the search path.
	@installed=$$($(BIN)/python -c "from importlib.metadata import version; print(version('xdsl'))"); \
	for release in $(XDSL); do \
	  case $$installed in $$release.*) continue;; esac; \
	  folder=$(CURDIR)/build/xdsl-$$release; \
	  [ -d $$folder ] || $(BIN)/python -m pip install --quiet --no-deps --target $$folder \
	    "xdsl==$$release.*" || exit 1; \
	  echo "lit with xDSL $$release"; \
	  PYTHONPATH=$$folder $(LIT) -Dforked=1 test/lit || exit 1; \
	done

check: $(VENV)/.installed-test
	@# pyright is one process, and would leave the other processors idle. With a larger nursery
	@# Node collects less often: a twelfth of its processor time.
	NODE_OPTIONS=--max-semi-space-size=64 $(BIN)/python test/check_types.py & types=$$!; \
	  $(BIN)/ruff check . && $(BIN)/ruff format --check . && \
	  $(BIN)/lint-imports --no-logo --no-cache && \
	  $(LIT) -Dforked=1 test/lit && \
	  $(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" --forked test; tests=$$?; \
	  wait $$types && exit $$tests

.PHONY: core
core: $(VENV)/.installed-test
	$(BIN)/python test/core.py -- -n $(JOBS)

fuzz: $(VENV)/.installed-test
	CERAS_FUZZ_SEEDS=$(SEEDS) CERAS_FUZZ_C_EVERY=1 \
	  $(BIN)/python -m pytest -q -n $(JOBS) --all-cases test/frontends/test_fuzz_models.py \
	  test/frontends/test_fuzz_quantized.py

docs: $(VENV)/.installed
	$(BIN)/python docs/tools/generate.py

.PHONY: docs-site
docs-site: $(VENV)/.installed
	@$(BIN)/python -c "import material" 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python docs/tools/build_site.py

compilers:
	@tools/system_packages.sh install gcc g++

system:
	@NEED_ALL=$(NEED_ALL) tools/system_packages.sh install

$(VENV)/bin/python:
	@tools/system_packages.sh venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@$(BIN)/python -m compileall -q ceras_ir
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@$(BIN)/python -m compileall -q ceras_ir
	@touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name Output \) -prune -exec rm -rf {} +

# Needs clang.
.PHONY: fuzz-nnet
SECONDS ?= 600
fuzz-nnet: $(VENV)/.installed-test
	$(BIN)/python test/backends/nnet/fuzz/fuzz.py --seconds $(SECONDS)
	$(BIN)/python test/backends/nnet/verdicts.py

COUNT ?= 2000
FIRST ?= 0

.PHONY: fuzz-ir
fuzz-ir: $(VENV)/.installed-test
	$(BIN)/python test/mutants/fuzz.py --count $(COUNT) --first $(FIRST)

.PHONY: fuzz-options
fuzz-options: $(VENV)/.installed-test
	$(BIN)/python test/fuzz_options.py --count $(COUNT) --first $(FIRST)

.PHONY: fuzz-quantized
fuzz-quantized: $(VENV)/.installed-test
	$(BIN)/python test/frontends/fuzz_as_written.py --count $(COUNT) --first $(FIRST)

.PHONY: fuzz-narrow
fuzz-narrow: $(VENV)/.installed-test
	$(BIN)/python -W ignore test/fuzz_narrow.py --count $(COUNT) --first $(FIRST)

.PHONY: fuzz-generated
fuzz-generated: $(VENV)/.installed-test
	$(BIN)/python test/fuzz_generated.py --count $(COUNT) --first $(FIRST)

.PHONY: fuzz-node-suite
EVERY ?= 1
fuzz-node-suite: $(VENV)/.installed-test
	$(BIN)/python -W ignore test/frontends/fuzz_node_suite.py --every $(EVERY)

.PHONY: fuzz-c
NETWORKS ?= 50
fuzz-c: $(VENV)/.installed-test
	$(BIN)/python test/backends/c/everywhere.py --count $(NETWORKS) --first $(FIRST)

.PHONY: fuzz-vta
fuzz-vta: $(VENV)/.installed-test
	$(BIN)/python test/backends/vta_lowering/fuzz.py --count $(COUNT) \
	  $(if $(CONFIGURATION),--configuration $(CONFIGURATION))

.PHONY: fuzz-dataflow
fuzz-dataflow: $(VENV)/.installed-test
	$(BIN)/python test/backends/dataflow/fuzz.py --count $(COUNT) --first $(FIRST)

.PHONY: proofs
NAMES ?=
proofs: $(VENV)/.installed-test
	@$(BIN)/python -c "import z3" 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[proofs]' || true
	$(BIN)/python test/proofs/prove.py $(NAMES)
	@[ -n "$(NAMES)" ] || $(BIN)/python test/proofs/abstract.py

.PHONY: misra
misra: $(VENV)/.installed-test
	$(BIN)/python test/misra.py

.PHONY: hashes
hashes: $(VENV)/.installed-test
	$(BIN)/python test/output_hashes.py --jobs $(JOBS) $(if $(WRITE),--write)

.PHONY: mutants
mutants: $(VENV)/.installed-test
	$(BIN)/python test/faults/seeded.py
