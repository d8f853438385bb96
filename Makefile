# Every target but `help`, `clean` and `setup` itself sets up the environment first if it is not up to date,
# so that a fresh clone needs nothing but, say, `make test`.
#
#   ARGS="..."          goes to the command that the target runs (demo, bench, docs, lock, ratchets)
#   ROUNDS=1 ONLY=3-anvil FAULTS='kill, cut' SEED=7     what `make chaos` plays; left out, all of it three times
#   ROTATION=strict     how its coordinators take turns, by `make chaos`
#   ONLY=hostile MINUTES=10 a network at work beside a hostile stranger, by `make chaos`
#   ROUNDS=10 SEEDS=100 how long `make soak` explores
#   SKIP_FORBIDDEN=1    makes a skipped test a failed one (check, test), as in CI
#   CHECKED=1           `make check` has passed on this tree: `make test` does not repeat its quick tests

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := .venv/bin
AUDITOR := pip-audit==2.10.1
STAMP := .venv/installed.stamp
DOCS := .venv-docs
DOCS_STAMP := $(DOCS)/installed.stamp
SAY := @printf '\n== %s\n'
PYTEST := $(BIN)/pytest --numprocesses auto --quiet
COVERED := machine sequencer chain exchange directory node wire
COVERING := $(addprefix tests/,$(COVERED)) tests/test_transcripts.py
RECORDED = ROTA_DURATIONS=$(CURDIR)/build/durations/$(1).json
QUICK := 'not slow and not chaos and not nightly'
SLOW := 'slow and not chaos and not nightly'
SLOW_PROCESSES := $(shell echo $$(( $$(nproc) * 2 )))
# Our distributions beside the client, which is built from this folder.
OURS := rota-node rota-demo rota-zeto-keys
PROJECTS := pyproject.toml $(OURS:rota-%=distributions/%/pyproject.toml)
COMPILE := $(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
	$(addprefix --no-emit-package ,rota $(OURS))

ifeq ($(SKIP_FORBIDDEN),1)
export ROTA_FORBID_SKIPS := 1
endif

# Container images often forbid compiled modules. Every process that a test starts would then compile every module again,
# and each worker of pytest every test: three times the work.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with the locked dependencies and this package in it

$(STAMP): requirements/dev.txt $(PROJECTS)
	@python=$$(tools/find-python); \
	echo "Setting up .venv with $$("$$python" --version) ..."; \
	"$$python" -m venv .venv
	@echo "Installing the dependencies locked in requirements/dev.txt ..."
	@tools/quietly $(BIN)/python -m pip install --require-hashes --requirement requirements/dev.txt
	@echo "Installing rota itself, editable ..."
	@tools/quietly $(BIN)/python -m pip install --no-deps --no-build-isolation $(PROJECTS:%pyproject.toml=--editable ./%)
	@touch $@

# Each prints its output as a whole when it ends.
STATIC := check-types check-format check-lint check-imports check-purity check-spelling check-wire check-docs

.PHONY: check
check: $(STAMP) ## The fast gate: format, lint, types, import directions, purity, spelling, generated code and docs, quick tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-tests $(STATIC)

# The static checks run one after the other beside the tests: types take half a minute of one core when nothing is cached.
.PHONY: check-tests $(STATIC)
check-tests: $(STAMP)
	$(SAY) 'Quick tests (pytest)'
	@$(call RECORDED,check) $(PYTEST) -m $(QUICK)
check-types: $(STAMP)
	$(SAY) 'Types (mypy --strict)'
	@$(BIN)/mypy
check-format: $(STAMP)
	$(SAY) 'Format (ruff)'
	@$(BIN)/ruff format --check .
check-lint: $(STAMP)
	$(SAY) 'Lint (ruff)'
	@$(BIN)/ruff check .
check-imports: $(STAMP)
	$(SAY) 'Import directions (import-linter)'
	@$(BIN)/lint-imports --no-logo
check-purity: $(STAMP)
	$(SAY) 'Purity and names (tools/purity.py)'
	@$(BIN)/python -m tools.purity
check-spelling: $(STAMP)
	$(SAY) 'Spelling (codespell)'
	@git ls-files -z | xargs -0 $(BIN)/codespell
check-wire: $(STAMP)
	$(SAY) 'Generated wire code (tools/generate_wire.py --check)'
	@$(BIN)/python -m tools.generate_wire --check
check-docs: $(STAMP)
	$(SAY) 'Generated docs (rota docs --check)'
	@$(BIN)/rota docs --check

# CHECKED=1 leaves out the tests of `test-quick`, for a caller that has just run `make check` on the same tree, as CI has.
.PHONY: test
test: test-covered $(if $(CHECKED),,test-quick) test-slow ## All tests but the nightly ones; those of the pure core must cover every branch of it

# Only these tests are traced: they alone must cover these packages.
.PHONY: test-covered
test-covered: $(STAMP) ## The quick tests of the pure core, which must cover every branch of it
	$(SAY) 'Tests of the pure core, with branch coverage (pytest)'
	@$(call RECORDED,covered) $(PYTEST) -m $(QUICK) $(addprefix --cov=rota.,$(COVERED)) --cov-report= $(COVERING)
	@$(BIN)/coverage report --fail-under=100

.PHONY: test-quick
test-quick: $(STAMP) ## The other quick tests
	$(SAY) 'Other quick tests (pytest)'
	@$(call RECORDED,quick) $(PYTEST) -m $(QUICK) $(foreach path,$(COVERING),--ignore=$(path))

# The slow tests start processes and wait, so that more tests run at a time than there are cores.
.PHONY: test-slow
test-slow: $(STAMP) ## The slow tests
	$(SAY) 'Slow tests (pytest)'
	@$(call RECORDED,slow) $(PYTEST) --numprocesses $(SLOW_PROCESSES) --dist worksteal -m $(SLOW)

.PHONY: nightly
nightly: $(STAMP) ## The tests that are slow and rarely broken; CONTRIBUTING.md has the reason for each
	@$(call RECORDED,nightly) $(PYTEST) --numprocesses $(SLOW_PROCESSES) --dist worksteal -m 'nightly and not chaos'

.PHONY: durations
durations: $(STAMP) ## What the last `make check` and `make test` took, against their budgets, and the longest tests
	@$(BIN)/python -m tools.durations

.PHONY: coverage
coverage: $(STAMP) ## Branch coverage of all packages by all tests; takes twice as long as the tests
	@$(PYTEST) -m 'not chaos' --cov --cov-report=term

.PHONY: chaos
chaos: $(STAMP) ## Clusters under all faults, and databases taken away in the middle; ROUNDS=, ONLY=, FAULTS=, SEED=, ROTATION=
	@$(BIN)/python -m tests.cluster.chaos $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only '$(ONLY)') \
		$(if $(FAULTS),--faults '$(FAULTS)') $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(ROTATION),--rotation $(ROTATION))
	@$(if $(ONLY)$(FAULTS)$(ROTATION),true,$(PYTEST) -m chaos)

.PHONY: compat
compat: $(STAMP) ## Flows of existing TypeScript applications; REPEATS=10 runs them in a row, BUSY=2 busy loops run beside them
	@ROTA_COMPAT_REPEATS=$(or $(REPEATS),1) ROTA_COMPAT_BUSY=$(or $(BUSY),0) $(PYTEST) -n 0 -m slow tests/compat

# Random exploration: what the gates draw is the same in every run, here it is new each time. A failure prints what
# reproduces it.
.PHONY: soak
soak: $(STAMP) ## Property tests with new examples, and new seeds of the simulator; ROUNDS=, SEEDS=
	@for round in $$(seq $(or $(ROUNDS),10)); do \
		printf '\n== Property tests, new examples (%s of %s)\n' $$round $(or $(ROUNDS),10); \
		ROTA_EXPLORE=1 $(PYTEST) -m 'hypothesis and not slow and not chaos and not nightly'; \
		first=$$(( RANDOM * 32768 + RANDOM + 100000 )); \
		printf '\n== Simulator, seeds from %s\n' $$first; \
		$(BIN)/rota simulate --seeds $$first..$$(( first + $(or $(SEEDS),100) )) --minutes 0.5 --jobs $$(nproc); \
	done

.PHONY: demo
demo: $(STAMP) ## Run the demonstration
	@$(BIN)/rota demo $(ARGS)

.PHONY: bench
bench: $(STAMP) ## Run the benchmarks
	@$(BIN)/rota bench $(ARGS)

.PHONY: transcripts
transcripts: $(STAMP) ## Record the walk-throughs anew; their expectations stay as they are
	@$(BIN)/python -m tools.record_transcripts

.PHONY: digests
digests: $(STAMP) ## Compare 230 simulated runs with their recorded digests; takes a few minutes
	@$(BIN)/python -m tools.digests check --jobs $$(nproc)

.PHONY: record-digests
record-digests: $(STAMP) ## Record the digests of simulated runs again, after an intended change of behaviour
	@$(BIN)/python -m tools.digests record --jobs $$(nproc)

.PHONY: ratchets
ratchets: $(STAMP) ## Record lower counts of tests/tidy.txt, prose.txt and costs.txt; ARGS=--accept-rises after a merge
	@status=0; for tool in tidy prose costs; do $(BIN)/python -m tools.$$tool record $(ARGS) || status=1; done; exit $$status

.PHONY: docs
docs: $(STAMP) ## Write the generated documents
	@$(BIN)/rota docs $(ARGS)

.PHONY: examples
examples: $(STAMP) ## Record the examples of JSON-RPC methods that are missing or do not hold, from three real nodes
	@GRPC_VERBOSITY=NONE $(BIN)/python -m tests.server.record_examples
	@$(BIN)/rota docs

.PHONY: docs-site
docs-site: $(STAMP) $(DOCS_STAMP) ## Build the documentation site in build/site, and check its links
	@$(BIN)/python -m tools.site --sphinx $(DOCS)/bin/sphinx-build

$(DOCS_STAMP): requirements/docs.txt
	@"$$(tools/find-python)" -m venv $(DOCS)
	@echo "Installing the dependencies locked in requirements/docs.txt ..."
	@tools/quietly $(DOCS)/bin/python -m pip install --require-hashes --requirement requirements/docs.txt
	@touch $@

.PHONY: package
package: $(STAMP) ## Build all distributions in dist, and try the client and the rest in empty environments
	@$(BIN)/python -m tools.package

.PHONY: screenshots
screenshots: $(STAMP) ## Take the pictures in docs/pictures; needs Chromium
	@$(BIN)/python -m tools.screenshots

.PHONY: wire
wire: $(STAMP) ## Compile the schema in proto/ to src/rota/wire
	@$(BIN)/python -m tools.generate_wire

.PHONY: contracts
contracts: $(STAMP) ## Compile contracts/ to src/rota/ledger/artifacts; needs npm
	@$(BIN)/python -m tools.contracts

.PHONY: format
format: $(STAMP) ## Format the code, and mend what the linter can mend by itself
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

# The run-time lock constrains the development lock, so that tests run against what users install.
.PHONY: lock
lock: $(STAMP) ## Renew requirements/*.txt from pyproject.toml; ARGS=--upgrade takes newer versions
	$(COMPILE) $(ARGS) --output-file requirements/run.txt --extra demo --extra zeto pyproject.toml
	$(COMPILE) $(ARGS) --output-file requirements/client.txt --constraint requirements/run.txt pyproject.toml
	$(COMPILE) $(ARGS) --output-file requirements/build.txt --group build
	$(COMPILE) $(ARGS) --output-file requirements/dev.txt --constraint requirements/run.txt --extra demo pyproject.toml --group dev
	$(COMPILE) $(ARGS) --output-file requirements/docs.txt --group docs

# What cannot be looked up fails (--strict): a package that nobody has judged is not one without flaws.
.PHONY: audit
audit: $(STAMP) ## Look up known vulnerabilities of all that is locked; ARGS='--vulnerability-service osv --osv-url URL' asks a mirror
	@for lock in client run build dev docs; do \
		echo "requirements/$$lock.txt:"; \
		$(BIN)/uvx --from $(AUDITOR) pip-audit --strict --no-deps --disable-pip --progress-spinner off $(ARGS) \
			--requirement requirements/$$lock.txt || exit 1; \
	done

.PHONY: clean
clean: ## Remove all that the other targets make, .venv among it
	@rm -rf .venv .venv-docs build dist htmlcov src/*.egg-info .coverage .coverage.* \
		contracts/node_modules distributions/*/build distributions/*/src/*.egg-info tools/anvil/node_modules .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
