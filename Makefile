# `make demo` and `make test` each do all the set-up they need, on a fresh Debian or macOS; a second run skips it.
# Works with the GNU make 3.81 of macOS.

VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The first Python that is new enough; `make PYTHON=/path/to/python setup` takes another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

PIP_INSTALL := $(BIN)/python -m pip install -qq --constraint constraints.txt
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
apt_install = command -v apt-get >/dev/null && $(ROOT) apt-get update -qq >/dev/null 2>&1 && \
	$(ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null

.PHONY: help setup demo test lint bench small server-model browser clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/packages.stamp browser ## virtual environment, Python packages, React tools; Chromium where that is easy
	@$(BIN)/botgrpo setup react

small: $(VENV)/packages.stamp ## fetch the pretrained model of the small scale (93 MB, kept as 270 MB)
	@$(BIN)/botgrpo setup small

# The same model as GGUF, for the tests that ask a real llama.cpp server.
server-model: $(VENV)/packages.stamp
	@$(BIN)/python -c "from botgrpo_cli.policy.small import ensure_small_gguf as ensure; ensure(progress=print)"

demo: setup ## train the tiny policy on React and draw its curve, into results/demo
	@if [ -e results/demo ]; then \
		n=1; while [ -e results/demo-$$n ]; do n=$$((n + 1)); done; \
		mv results/demo results/demo-$$n && echo "The earlier demo is now results/demo-$$n."; \
	fi
	$(BIN)/botgrpo train react_qwen --scale tiny --out results/demo
	$(BIN)/botgrpo plot results/demo

test: setup small server-model ## every test; ARGS="-k words" picks some
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/packages.stamp ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: setup $(VENV)/bench.stamp ## the side-by-side programs in benchmarks/, one after the other
	@for program in benchmarks/*.py; do echo "== $$program"; $(BIN)/python $$program || exit 1; done

clean: ## remove what building, testing and linting left; keeps results/, the environment and the cache
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find botgrpo_cli tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/python.stamp:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed and was not found. Install it, or name it:" \
		"make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making the virtual environment $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(call apt_install,python3-venv) && $(PYTHON) -m venv $(VENV); } || { \
		rm -rf $(VENV); echo "No virtual environment could be made; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@

# torch by itself and first: see constraints.txt.
$(VENV)/packages.stamp: $(VENV)/python.stamp pyproject.toml setup.py constraints.txt
	@echo "Installing torch, then the other Python packages; the first time takes a few minutes."
	@$(PIP_INSTALL) torch
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/bench.stamp: $(VENV)/packages.stamp
	@$(PIP_INSTALL) --editable '.[bench]'
	@touch $@

# Chromium takes screenshots of components. It is optional, so nothing here can fail.
browser:
	@for name in chromium-headless-shell chromium google-chrome "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; \
		do command -v "$$name" >/dev/null && exit 0; done; [ -n "$$BOTGRPO_CHROMIUM" ] && exit 0; \
	echo "Installing Chromium (chromium-headless-shell), for screenshots."; \
	{ $(call apt_install,chromium-headless-shell); } || \
		echo "Chromium was not installed; it is optional. Install it by hand, or set BOTGRPO_CHROMIUM to a program."
