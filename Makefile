# The main commands are `make demo` and `make test`. Both need Rust (from rustup or a distribution, see `rust-version` in
# Cargo.toml), a C compiler and Python 3.10 or later. They install everything else.

# One target directory outside the tree, so that a new clone reuses what was compiled before.
CARGO_TARGET_DIR ?= $(HOME)/.cache/freestone/target
export CARGO_TARGET_DIR

FREESTONE = $(CARGO_TARGET_DIR)/release/freestone
PYTHON ?= python3
DEMO_OUTPUT ?= freestone-demo
BENCH_SCALE ?= 1
REPORT_OUTPUT ?= freestone-lab
FUZZ_ROUNDS ?= 10
# Random statements of each kind per round, compared with DuckDB.
FUZZ_STATEMENTS ?= 2000
# Random histories of changes of rows and tables per round, compared with a model.
FUZZ_HISTORIES ?= 300

# Tests share the compiled dependencies, but what they build goes to a folder of its own: $(FREESTONE) stays the build that ships.
TEST_ENVIRONMENT = CARGO_BUILD_BUILD_DIR='$(CARGO_TARGET_DIR)' CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)/tests'
TEST_CONFIG = --config .config/test.toml
TEST = $(TEST_ENVIRONMENT) cargo test --release $(TEST_CONFIG) --no-fail-fast

# The Python environment for the tests of the package, also outside the tree.
PYTHON_VENV ?= $(HOME)/.cache/freestone/python-venv

# The environment of the tests with other projects' packages.
ECOSYSTEM_VENV ?= $(HOME)/.cache/freestone/ecosystem-venv
ECOSYSTEM_PYTEST = $(TEST_ENVIRONMENT) '$(ECOSYSTEM_VENV)/bin/python' -B -m pytest

# The environments and programs that build releases and the documentation, and the files of a release.
RELEASE_VENV ?= $(HOME)/.cache/freestone/release-venv
RELEASE = PYTHONPATH=tools '$(RELEASE_VENV)/bin/python' -B -m release
RELEASE_FOLDER = $(CARGO_TARGET_DIR)/dist
# `make release RELEASE_OPTIONS='--target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu'`
RELEASE_OPTIONS ?=
MDBOOK_FOLDER = $(HOME)/.cache/freestone/mdbook
MDBOOK ?= $(MDBOOK_FOLDER)/bin/mdbook
MDBOOK_VERSION = 0.5.4

# The packages and the copy of the sources with which the console's page is tested.
CONSOLE_ENVIRONMENT ?= $(HOME)/.cache/freestone/console

.PHONY: help build lab report driver demo test test-rust check-fast lint format-check clippy python-check python-venv shape-check test-python \
	test-release test-ecosystem ecosystem-venv test-console conformance wheels release release-compare release-venv docs \
	bench pulse fuzz tools clean

help:
	@echo 'make demo     builds, then demonstrates the main functions on generated data; writes a report to $(DEMO_OUTPUT)/'
	@echo 'make test     runs unit tests, property tests, SQL tests and the tests of the Python package'
	@echo 'make test-release  the Python tests on the build that ships'
	@echo 'make test-ecosystem  the tests that SQLAlchemy, Ibis and dbt have for databases, those with notebooks, and ADBC in Go, Java, Node.js'
	@echo 'make test-console  the console: its units, its built files, and its page in Chromium; needs Node.js 20.19 or later'
	@echo 'make check-fast  runs only the tests of the engine'
	@echo 'make build    builds the command line: $(FREESTONE)'
	@echo 'make lab      builds the experiments of the papers: $(CARGO_TARGET_DIR)/release/freestone-lab'
	@echo 'make report   half an hour: the experiments of the papers, with a page per paper in $(REPORT_OUTPUT)/'
	@echo 'make bench    compares with DuckDB, ClickHouse, DataFusion, Vortex and Polars (BENCH_SCALE=1)'
	@echo 'make lint     checks formatting, clippy lints, import circles, long functions and Python files'
	@echo 'make pulse    six minutes: everything that users run beside DuckDB, and what lost against bench/pulse.json'
	@echo 'make conformance  runs one file of queries with all clients of the server: psql, psycopg, JDBC, ADBC (Python, Go, Java, Node.js), freestone'
	@echo 'make fuzz     runs the tests of decoders, parsers and faults with more inputs (FUZZ_ROUNDS=10)'
	@echo 'make wheels   builds the Python package for all versions from 3.10 on, and tries it in empty environments: $(RELEASE_FOLDER)/'
	@echo 'make release  builds all files of a release: $(RELEASE_FOLDER)/; `make release-compare` builds them again and compares'
	@echo 'make docs     builds the documentation as a site that can be searched without a network: $(CARGO_TARGET_DIR)/docs/'
	@echo 'make clean    removes the build and the output of the demo'

# The command line with its crates. The laboratory and the ADBC library are built by the targets that use them.
build:
	cargo build --release -p freestone-cli

lab:
	cargo build --release -p freestone-lab

# The papers' experiments at sizes that take half an hour in all. What was measured before stays; Ctrl-C and the same command continue.
report: build lab
	$(CARGO_TARGET_DIR)/release/freestone-lab report --run --kept docs/results --output $(REPORT_OUTPUT)

demo: build
	$(FREESTONE) demo --output $(DEMO_OUTPUT)

test: test-rust test-python

# The crates of the workspace are compiled with .config/test.toml, and the dependencies as for release.
test-rust:
	$(TEST) --workspace --exclude freestone-python

# The tests of the engine, without the crates that depend on it.
check-fast:
	$(TEST) -p freestone

# Builds the ADBC driver as a shared library, for other languages.
driver:
	cargo build --release -p freestone-adbc

# Tests the package, the command line and the ADBC library, compiled like the other tests.
test-python: python-venv
	$(TEST_ENVIRONMENT) cargo build --release $(TEST_CONFIG) -p freestone-cli -p freestone-adbc
	$(TEST_ENVIRONMENT) PATH='$(PYTHON_VENV)/bin':"$$PATH" MATURIN_PEP517_ARGS='$(TEST_CONFIG)' '$(PYTHON_VENV)/bin/python' -m pip install \
		--quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B -m pytest

# Other projects' tests of what works with them, and tests of extensions that need more packages. A suite of tests is a line here.
test-ecosystem: ecosystem-venv
	$(TEST_ENVIRONMENT) PATH='$(ECOSYSTEM_VENV)/bin':"$$PATH" MATURIN_PEP517_ARGS='$(TEST_CONFIG)' '$(ECOSYSTEM_VENV)/bin/python' -m pip \
		install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
		. ./python/ibis-freestone ./python/dbt-freestone
	$(ECOSYSTEM_PYTEST) python/ecosystem --ignore python/ecosystem/sqlalchemy_suite
	$(ECOSYSTEM_PYTEST) -c python/ecosystem/sqlalchemy_suite/setup.cfg python/ecosystem/sqlalchemy_suite
	$(ECOSYSTEM_PYTEST) python/ibis-freestone
	$(ECOSYSTEM_PYTEST) python/dbt-freestone/tests
	$(ECOSYSTEM_PYTEST) --doctest-glob='*.md' docs/tools/ibis.md docs/tools/narwhals.md
	$(TEST_ENVIRONMENT) cargo build --release $(TEST_CONFIG) -p freestone-cli -p freestone-adbc
	$(TEST_ENVIRONMENT) '$(ECOSYSTEM_VENV)/bin/python' -B conformance/run.py --client adbc-go --client adbc-java --client adbc-node

ecosystem-venv:
	test -x '$(ECOSYSTEM_VENV)/bin/python' || $(PYTHON) -m venv '$(ECOSYSTEM_VENV)'
	'$(ECOSYSTEM_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check -r python/tests/requirements-ecosystem.txt

# The same tests on the build that ships. Run them before a release.
test-release: TEST_CONFIG =
test-release: test-python

# The files that people install. The profile `dist` compiles everything as one unit, which takes most of an hour on two cores;
# `make release RELEASE_OPTIONS='--profile release'` takes the dependencies as `make build` has compiled them. `tools/release` has the
# program, and its `--help` the options.
wheels: release-venv
	$(RELEASE) wheels $(RELEASE_OPTIONS)

release: release-venv
	$(RELEASE) all $(RELEASE_OPTIONS)

release-compare: release-venv
	$(RELEASE) compare $(RELEASE_OPTIONS)

release-venv:
	test -x '$(RELEASE_VENV)/bin/python' || $(PYTHON) -m venv '$(RELEASE_VENV)'
	'$(RELEASE_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check -r tools/release/requirements.txt

# mdBook is compiled once, outside the tree. The site has no links to other hosts in what it loads, and all links within it are checked.
docs:
	test -x '$(MDBOOK)' || CARGO_TARGET_DIR='$(MDBOOK_FOLDER)/target' cargo install --quiet --locked --no-default-features --features search \
		--root '$(MDBOOK_FOLDER)' mdbook@$(MDBOOK_VERSION)
	rm -rf '$(MDBOOK_FOLDER)/target'
	$(PYTHON) tools/docs.py --mdbook '$(MDBOOK)' --output '$(CARGO_TARGET_DIR)/docs'

# The console's page: units, whether console/dist is what the sources build, and the page in Chromium, with made-up answers and with
# the program, which must be built ('make build'; CONSOLE_WITHOUT_SERVER=1 leaves its tests out). Node.js is needed only here; Chromium is
# installed from Debian's packages if it is missing.
test-console:
	@command -v npm >/dev/null || { echo 'the tests of the console need Node.js 20.19 or later, with npm'; exit 1; }
	@test -x "$${CHROMIUM:-/usr/bin/chromium}" || apt-get install --yes chromium || \
		{ echo "Chromium is missing and cannot be installed: install the package chromium, or set CHROMIUM to a browser's path"; exit 1; }
	mkdir -p '$(CONSOLE_ENVIRONMENT)'
	rm -rf '$(CONSOLE_ENVIRONMENT)/console/src' '$(CONSOLE_ENVIRONMENT)/console/tests' '$(CONSOLE_ENVIRONMENT)/console/dist'
	tar --exclude=node_modules -cf - console $(addprefix crates/freestone-report/src/,colours.css charts.json charts.cases.json) | \
		tar -C '$(CONSOLE_ENVIRONMENT)' -xf -
	cd '$(CONSOLE_ENVIRONMENT)/console' && npm ci --no-audit --no-fund && npm run types && npm test && npm run check && \
		FREESTONE='$(FREESTONE)' npm run browser

# All clients, of which some need Java or psql. Missing clients are listed. The JDBC drivers are downloaded by Maven, once.
conformance: test-python
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/run.py
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/isolation.py
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/histories.py --seconds 60 --kills 6
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/pgbench.py
	'$(PYTHON_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check -r conformance/drivers/requirements.txt
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/drivers.py
	$(TEST_ENVIRONMENT) '$(PYTHON_VENV)/bin/python' -B conformance/stores.py

lint: format-check python-check shape-check clippy

format-check: tools
	cargo fmt --all --check

# Clippy only type-checks the dependencies. Build scripts and procedural macros are shared with the build.
clippy: tools
	cargo clippy --release --workspace --all-targets -- -D warnings

# Ruff, with the rules in pyproject.toml.
python-check: python-venv
	'$(PYTHON_VENV)/bin/python' -m ruff check --no-cache --quiet bench conformance python tools

python-venv:
	test -x '$(PYTHON_VENV)/bin/python' || $(PYTHON) -m venv '$(PYTHON_VENV)'
	'$(PYTHON_VENV)/bin/python' -m pip install --quiet --disable-pip-version-check -r python/tests/requirements.txt

# Import circles among modules, and long functions.
shape-check:
	$(PYTHON) tools/source_shape.py

# A toolchain with rustup's minimal profile does not have these two components.
tools:
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

bench: build lab
	$(PYTHON) bench/peers.py --scale $(BENCH_SCALE) --threads 2 --runs 7 --freestone $(FREESTONE)

# Before and after every change that touches the path of queries. `bench/pulse.py --save` writes what is compared with.
pulse: build lab
	$(PYTHON) bench/pulse.py --freestone $(FREESTONE)

# The tests of decoders, parsers and faults with more inputs: every position instead of samples, more random cases, and
# another seed per round, and random statements compared with DuckDB. `fuzz/` has the same targets for cargo-fuzz, which needs
# nightly Rust.
fuzz: build python-venv
	for round in $$(seq $(FUZZ_ROUNDS)); do \
		echo "round $$round of $(FUZZ_ROUNDS)"; \
		export FREESTONE_TEST_ALL=1 FREESTONE_TEST_ROUNDS=100000 FREESTONE_TEST_SECONDS=60 FREESTONE_TEST_SEED=$$round; \
		$(TEST) --quiet -p freestone-codec -p freestone-store -p freestone-wire || exit 1; \
		$(TEST) --quiet -p freestone --test suite fuzz || exit 1; \
		$(TEST) --quiet --workspace --exclude freestone-python --test fuzz --test faults || exit 1; \
		$(TEST) --quiet -p freestone-store --test refused || exit 1; \
		$(TEST) --quiet --workspace --exclude freestone-python --test suite -- fuzz || exit 1; \
		for kind in joins join_orders ranges windows groups subqueries aggregates expressions times forms files sorts recursions dependencies; do \
			'$(PYTHON_VENV)/bin/python' -B conformance/random_$$kind.py '$(FREESTONE)' $(FUZZ_STATEMENTS) $$round || exit 1; \
		done; \
		'$(PYTHON_VENV)/bin/python' -B conformance/random_rows.py '$(FREESTONE)' $(FUZZ_HISTORIES) $${round}00000 || exit 1; \
		'$(PYTHON_VENV)/bin/python' -B conformance/random_order.py '$(FREESTONE)' $(FUZZ_STATEMENTS) $$round || exit 1; \
		'$(PYTHON_VENV)/bin/python' -B conformance/exhausting.py '$(FREESTONE)' --statements $(FUZZ_STATEMENTS) --seed $$round || exit 1; \
	done

clean:
	cargo clean
	rm -rf '$(DEMO_OUTPUT)'
