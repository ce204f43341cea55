# Two commands matter: `make demo` and `make test`. Both need Rust (rustup or a distribution's, see `rust-version` in
# Cargo.toml), a C compiler and Python 3.10 or later, and set up the rest themselves.

# One target directory outside the tree: a fresh clone finds what an earlier one has compiled.
CARGO_TARGET_DIR ?= $(HOME)/.cache/freestone/target
export CARGO_TARGET_DIR

FREESTONE = $(CARGO_TARGET_DIR)/release/freestone
PYTHON ?= python3
DEMO_OUTPUT ?= freestone-demo
BENCH_SCALE ?= 1
FUZZ_ROUNDS ?= 10
TEST = cargo test --release --config .config/test.toml --no-fail-fast

# Tests of the Python package have an environment of their own, outside the tree as well.
PYTHON_VENV ?= $(HOME)/.cache/freestone/python-venv

.PHONY: help build lab driver demo test test-rust check-fast lint format-check clippy python-check test-python conformance bench \
	fuzz tools clean

help:
	@echo 'make demo     builds, then shows the main job on generated data; the report is in $(DEMO_OUTPUT)/'
	@echo 'make test     unit tests, property tests, SQL tests and tests of the Python package'
	@echo 'make check-fast  the tests of the engine alone, after a change there'
	@echo 'make build    the command line: $(FREESTONE)'
	@echo 'make lab      the experiments of the papers: $(CARGO_TARGET_DIR)/release/freestone-lab'
	@echo 'make bench    against DuckDB, ClickHouse, DataFusion, Vortex and Polars (BENCH_SCALE=1)'
	@echo 'make lint     formatting, clippy, syntax of the Python files'
	@echo 'make conformance  one file of queries by all clients of the server: psql, psycopg, JDBC, ADBC, ours'
	@echo 'make fuzz     the tests of decoders, parsers and faults at length (FUZZ_ROUNDS=10)'
	@echo 'make clean    removes what was built, and the demo'

# The command line and what it runs; the laboratory and the ADBC library are built by what uses them.
build:
	cargo build --release -p freestone-cli

lab:
	cargo build --release -p freestone-lab

demo: build
	$(FREESTONE) demo --output $(DEMO_OUTPUT)

test: test-rust test-python

# Our crates as .config/test.toml compiles them, on the dependencies that ship.
test-rust:
	$(TEST) --workspace --exclude freestone-python

# One line changed in the engine: its own tests, without the crates above it.
check-fast:
	$(TEST) -p freestone

# The ADBC driver as a shared library, for other languages.
driver:
	cargo build --release -p freestone-adbc

# What is tested is what `pip install .` installs. Compiled is what `build` and `driver` have not: the package's own crate.
test-python: build driver
	test -x '$(PYTHON_VENV)/bin/python' || $(PYTHON) -m venv '$(PYTHON_VENV)'
	'$(PYTHON_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check -r python/tests/requirements.txt
	PATH='$(PYTHON_VENV)/bin':"$$PATH" '$(PYTHON_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--no-deps --force-reinstall .
	'$(PYTHON_VENV)/bin/python' -B -m pytest

# The clients that need Java or psql besides; those that are not there are named. The drivers come from Maven, once.
conformance: test-python
	'$(PYTHON_VENV)/bin/python' -B conformance/run.py

lint: format-check python-check clippy

format-check: tools
	cargo fmt --all --check

# Linting needs only the types of the dependencies; build scripts and procedural macros are those of the build.
clippy: tools
	cargo clippy --release --workspace --all-targets -- -D warnings

python-check:
	$(PYTHON) -c 'import sys; [compile(open(f, encoding="utf-8").read(), f, "exec") for f in sys.argv[1:]]' \
		bench/*.py conformance/*.py python/freestone/*.py python/freestone/*.pyi python/tests/*.py

# A toolchain installed with the minimal profile lacks these two.
tools:
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

bench: build lab
	$(PYTHON) bench/peers.py --scale $(BENCH_SCALE) --threads 2 --runs 7 --freestone $(FREESTONE)

# The tests of all decoders and parsers and of faults, at length: every place instead of samples, more random cases, new
# seeds. `fuzz/` has the same targets for cargo-fuzz, which needs nightly Rust.
fuzz:
	for round in $$(seq $(FUZZ_ROUNDS)); do \
		echo "round $$round of $(FUZZ_ROUNDS)"; \
		export FREESTONE_TEST_ALL=1 FREESTONE_TEST_ROUNDS=100000 FREESTONE_TEST_SECONDS=60 FREESTONE_TEST_SEED=$$round; \
		$(TEST) --quiet -p freestone-codec -p freestone-store -p freestone-wire || exit 1; \
		$(TEST) --quiet -p freestone --test suite fuzz || exit 1; \
		$(TEST) --quiet --workspace --exclude freestone-python --test fuzz --test faults || exit 1; \
		$(TEST) --quiet --workspace --exclude freestone-python --test suite -- fuzz || exit 1; \
	done

clean:
	cargo clean
	rm -rf '$(DEMO_OUTPUT)'
