# Three commands matter: `make demo` shows what this is, `make test` runs the checks, `make reproduce` re-creates the paper in out/.
# Each installs what it needs into .venv; nothing but python3 and make is expected of the machine.
PYTHON ?= python3
BIN := .venv/bin
# What is imported is compiled once, and not by every process anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo reproduce test types quick test-slow test-lowest docs test-processors bench fuzz clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable . --group test
	touch $@

# What the demonstration needs, and no more: it is the first thing that anybody runs.
.venv/installed-demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[plot,sklearn]'
	touch $@

demo: .venv/installed-demo
	@$(BIN)/python -m demo out/demo.png

# The page is tested in a real browser: Debian's, unless there is one.
.venv/browser:
	mkdir -p .venv
	command -v chromium >/dev/null || { \
	  root=; [ "$$(id -u)" = 0 ] || root=sudo; \
	  $$root apt-get update && $$root apt-get install -y --no-install-recommends chromium; }
	touch $@

reproduce: .venv/installed
	$(BIN)/reshuffle reproduce --out out

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs=2 types quick

# The types are checked beside the tests: neither waits for the other.
types: .venv/installed
	$(BIN)/mypy

# What is left out by `make test` and run by `make test-slow`; with SELECTED= nothing is left out.
SELECTED ?= -m 'not slow'
quick: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal $(SELECTED)

# The tests that take half a second or more each: long simulations, a real browser, a cluster of processes.
test-slow: .venv/installed .venv/browser
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow tests

# The lowest versions that are declared, with the lowest Python: none of them may be a false promise. EXTRAS adds those
# of extras, WITH what their tests need, LOWEST names the tests: all of them are a job of the workflow.
LOWEST ?= tests/lowest.py tests/test_essentials.py tests/test_package.py tests/cli/test_terminal.py tests/free/solver/test_repeated_questions.py
.venv/lowest/installed: pyproject.toml
	$(PYTHON) -m venv .venv/lowest
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  $$($(PYTHON) -m tests.lowest $(EXTRAS)) $(WITH) hypothesis pytest pytest-doctestplus
	touch $@

test-lowest: .venv/lowest/installed
	PYTHONPATH=src .venv/lowest/bin/python -m pytest -q -p no:cacheprovider -m 'not slow' $(LOWEST)

.venv/installed-docs: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable . --group test --group docs
	touch .venv/installed $@

# The site, into out/site: open out/site/index.html. The gallery gives docs/notebooks, too. A copy is built, since galleries and API pages are written beside their sources.
docs: .venv/installed-docs
	rm -rf out/site out/site-source && mkdir -p out && cp -Rp docs out/site-source
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html -d out/site-cache out/site-source out/site
	$(BIN)/python docs/check_offline.py out/site
	cp out/site-source/gallery/*.ipynb docs/notebooks/

# The core once more with the kernels of other processors, as far as this one can run them, and with one and two threads.
test-processors: .venv/installed
	$(BIN)/python -m tests.on_processors -n auto --dist worksteal

bench: .venv/installed
	$(BIN)/python -m benchmarks

# Random questions against exact arithmetic: hypothesis draws EXAMPLES of them, and shrinks a failure to its smallest form.
EXAMPLES ?= 1000
SEED ?= random
fuzz: .venv/installed
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz/random_questions.py --hypothesis-profile=fuzz \
	  --hypothesis-seed=$(SEED) --hypothesis-show-statistics

clean:
	rm -rf .venv out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
