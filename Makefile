# Everything a developer does, from a fresh clone, unattended. Needs make and Python 3.11 to 3.13.

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-long test-again test-fast test-thorough oldest test-oldest test-compose test-systemd test-failover test-tracing test-front test-kvm test-ceph test-cloud-init test-ganeti test-incus test-console test-cloudstack-ui console-pictures browser check format generate lock bench bench-lists bench-peers bench-console bench-import bench-follow curves chaos release audit-packages clean

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DATA := .data
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	if $$name -c '$(SUITABLE)' 2>/dev/null; then echo $$name; break; fi; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# Tests of processes that die and come back mostly wait: three per core. All these processes read the same modules:
# compiled ones are kept for the next, wherever the environment says otherwise.
PYTEST_PROCESSES ?= $(shell expr 3 \* $$(getconf _NPROCESSORS_ONLN))
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(PYTEST_PROCESSES) --dist worksteal
# What starts few programs, and takes little time for what it tells.
FAST := architecture $(addprefix commands/,accounts catalog configuration deployments jobs networks) \
	$(patsubst tests/%,%,$(wildcard tests/commands/test_*.py)) \
	declare drivers iallocator placement queue processes store wiring security/test_signature.py
PROPERTIES := declare placement store workers/test_every_kind.py
PROFILE ?= thorough
MANIFESTS = $(shell find config/kubernetes -name '*.yaml' ! -name kustomization.yaml ! -path '*/program/*')

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the locked dependencies and this project

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed (make PYTHON=/path/to/python3 ...)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## Run the whole service until Ctrl-C, with a sample zone; data stays in .data
	@$(BIN)/bulkdeploy up --data-dir $(DATA) --demo-zone

demo: setup ## Start everything, deploy 200 VMs with one call, show where they went, stop; DRIVER=libvirt: 12 real guests
	@$(if $(filter libvirt,$(DRIVER)),tests/kvm/run.sh $(BIN)/python -m tests.kvm.demo,$(BIN)/bulkdeploy demo)

test: setup ## Run the tests, on real PostgreSQL, Valkey, HTTP and Celery; TESTS= runs some. Rules of the code: make check
	@$(PYTEST) $(or $(TESTS),-m 'not long' --ignore=tests/architecture)

test-long: setup ## Run the tests that take longest: workers that die anywhere, walks over all commands, upgrades, a trial of chaos
	@$(PYTEST) -m long

test-again: setup ## Run the tests that failed in the last run once more, one at a time
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none --maxfail=1

test-fast: setup ## Run a third of the tests, with fewer examples, in two minutes: while writing code
	@$(PYTEST) --hypothesis-profile=quick $(or $(TESTS),$(addprefix tests/,$(FAST)))

test-thorough: setup ## Run the properties with ten times as many examples, and all deaths of workers; PROFILE=longer: three times
	@$(PYTEST) --hypothesis-profile=$(PROFILE) $(addprefix tests/,$(PROPERTIES))

oldest:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed (make PYTHON=/path/to/python3 ...)"; exit 1; }
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-oldest/bin/python .ci/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip --disable-pip-version-check --no-input --quiet install \
		--constraint .venv-oldest/constraints.txt --group dev --editable .[embedded]
	@mv .venv-oldest/constraints.txt .venv-oldest/oldest.txt

test-oldest: oldest ## Run the fast tests with the oldest dependencies that pyproject.toml allows, in a .venv-oldest
	@$(MAKE) --no-print-directory test-fast VENV=.venv-oldest READY=.venv-oldest/oldest.txt

test-ganeti: setup ## Try driver and allocator on a virtual Ganeti cluster; as root on Debian, NODES=3, GANETI_TESTS: which; a quarter of an hour or more
	@tests/ganeti/run.sh $(BIN)/python $(or $(NODES),3) $(if $(GANETI_TESTS),-m pytest $(GANETI_TESTS))

test-incus: setup ## Run real containers on a cluster of two Incus members, then break it for MINUTES=10; root gets the packages, on Debian
	@tests/incus/run.sh $(BIN)/python $(INCUS_TESTS)
	@$(if $(INCUS_TESTS),:,tests/incus/run.sh $(BIN)/python -m tests.incus.chaos)

test-compose: setup ## Run docker-compose.yml on a Docker engine as the guides say, and break it; PARTS= runs some
	@tests/compose/run.sh $(BIN)/python $(PARTS)

test-kvm: setup ## Run real guests on three libvirt daemons (no KVM needed); root gets the packages, on Debian
	@tests/kvm/run.sh $(BIN)/python $(KVM_TESTS)

test-ceph: setup ## Run real guests whose volumes are in a Ceph of its own: a monitor, a manager, one OSD; root gets the packages, on Debian
	@tests/ceph/run.sh $(BIN)/python $(CEPH_TESTS)

test-cloud-init: setup ## Render network configurations with the cloud-init of three Debian releases; downloads the packages, installs nothing
	@tests/cloud_init/run.sh $(BIN)/python $(CLOUD_INIT_TESTS)

ANSIBLE := 'ansible==11.13.0' 'cs>=3.5'
test-front: setup ## Deploy 1,000 VMs (FRONT_VMS) through two whole stacks, killed on both sides and cut between; what was called for each VM; Ansible before them
	@test -x .venv-ansible/bin/ansible-playbook || { $(PYTHON) -m venv .venv-ansible && .venv-ansible/bin/pip install -q --no-compile $(ANSIBLE); }
	@PATH="$(CURDIR)/.venv-ansible/bin:$$PATH" $(BIN)/python -m pytest -q $(addprefix tests/cloudstack/,contract_at_length.py clients_at_length.py front_at_length.py)

test-failover: setup ## Kill PostgreSQL under load and promote its standby, synchronous and not: what is lost, how long calls wait
	@$(BIN)/python -m tests.failover

BROWSER_TOOLS := 'playwright>=1.60' 'axe-playwright-python>=0.1.8'
browser: setup
	@$(BIN)/python -c 'import playwright, axe_playwright_python' 2>/dev/null || $(PIP) install $(BROWSER_TOOLS)
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
		{ echo "A browser is needed: Debian's package chromium, with fonts-dejavu-core"; exit 1; }

test-console: browser ## Run what people do with the console in a real Chromium, with axe on every page
	@$(BIN)/python -m pytest tests/console/browser

test-cloudstack-ui: browser ## Open every page of CloudStack's own UI before the service; CLOUDSTACK=path is a checkout whose ui is built, PICTURES=folder
	@$(BIN)/python -m tests.cloudstack_ui $(CLOUDSTACK) $(PICTURES)

console-pictures: browser ## Draw the pictures of docs/explanation/console.md anew
	@$(BIN)/python -m docs.record_console

TRACING_TOOLS := 'opentelemetry-sdk>=1.40' 'opentelemetry-exporter-otlp-proto-http>=1.40'
test-tracing: setup ## Follow a call through real programs to a receiver of OpenTelemetry's traces; gets the packages
	@test -d .venv-tracing/opentelemetry || $(PIP) install --target .venv-tracing $(TRACING_TOOLS)
	@PYTHONPATH=.venv-tracing $(BIN)/python -m pytest -q tests/workers/test_tracing.py

BOM_TOOL := 'cyclonedx-bom==7.5.0'
AUDIT_TOOL := 'pip-audit==2.10.1'
VERSION = $(shell $(BIN)/python -c 'from importlib.metadata import version; print(version("bulkdeploy"))')
release: setup ## Build what a release consists of in dist: the wheel, and its bill of materials (CycloneDX) with and without the embedded servers
	@rm -rf build dist && mkdir dist
	@test -x .venv-release/bin/cyclonedx-py || { $(PYTHON) -m venv .venv-release && .venv-release/bin/pip install -q --no-compile $(BOM_TOOL); }
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@for lock in config/image.lock requirements.lock; do \
		kind=$$(test $$lock = requirements.lock && echo -with-development || echo); \
		.venv-release/bin/cyclonedx-py requirements $$lock --pyproject pyproject.toml --mc-type application --output-reproducible \
			--validate --spec-version 1.6 --output-format JSON --output-file dist/bulkdeploy-$(VERSION)$$kind.cdx.json || exit 1; \
	done
	@ls -l dist

audit-packages: setup ## Look up known vulnerabilities of all locked packages; needs an index of advisories within reach
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install -q --no-compile $(AUDIT_TOOL); }
	@for lock in config/image.lock config/image-opentelemetry.lock requirements.lock; do \
		.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement $$lock || exit 1; \
	done

MARVIN_TOOLS := mysql-connector-python requests paramiko pynose ddt pyvmomi netaddr dnspython pytz retries pycryptodome kubernetes lxml 'setuptools<81'
test-marvin: setup ## Run CloudStack's integration tests of the checkout CLOUDSTACK=path and compare with tests/marvin/expected.toml; FILES= some, ZONES=1, SAVE=1
	@test -d "$(CLOUDSTACK)/test/integration/smoke" || { echo "CLOUDSTACK must be a source tree of CloudStack, such as CLOUDSTACK=/root/cloudstack"; exit 1; }
	@test -x .venv-marvin/bin/nosetests || { $(PYTHON) -m venv .venv-marvin && .venv-marvin/bin/pip install -q --no-compile $(MARVIN_TOOLS); }
	@$(BIN)/python -m tests.marvin "$(CLOUDSTACK)" .venv-marvin/bin/python $(FILES) --zones $(or $(ZONES),1) $(if $(SAVE),--save)

test-systemd: setup ## Run the units of config/systemd on a systemd of its own, as the guide says, and kill their programs
	@$(BIN)/python -m tests.systemd

check: setup ## Format, lint, types, import contracts, generated files, rules of code and texts (tests/architecture), manifests for Kubernetes
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m bulkdeploy.manage.generate --check
	$(BIN)/python -m tests.compatibility.page --check
	$(BIN)/python -m tests.marvin.results --check
	$(BIN)/python -m pytest -q -p no:cacheprovider -m 'not long' tests/architecture
	$(BIN)/kubernetes-validate --strict --quiet --no-warn $(MANIFESTS)

format: setup ## Format the code and mend what can be mended
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

generate: setup ## Write the generated files anew
	$(BIN)/python -m bulkdeploy.manage.generate
	$(BIN)/python -m tests.compatibility.page
	$(BIN)/python -m tests.marvin.results --write

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate
lock: ## Pin all dependencies anew, and those of the image; needs uv
	$(LOCK) --extra embedded --group dev pyproject.toml --output-file requirements.lock
	grep '^[a-z].*==' requirements.lock | sed 's/ \\$$//' | $(LOCK) --constraint /dev/stdin .ci/image.in pyproject.toml --output-file config/image.lock
	grep '^[a-z].*==' config/image.lock | sed 's/ \\$$//' | $(LOCK) --constraint /dev/stdin --extra opentelemetry .ci/image.in pyproject.toml --output-file config/image-opentelemetry.lock

bench: setup ## Measure planning, bulk calls and throughput
	@$(BIN)/python -m benchmarks

bench-lists: setup ## Measure every list command at 25,000 hosts and VMs, 5,000 accounts
	@$(BIN)/python -m benchmarks.lists

bench-peers: setup ## Measure hail, hbal, hspace, Celery and OpenStack Placement beside this, where they can be had
	@command -v hbal >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get install -qq -y --no-install-recommends ganeti-htools >/dev/null; } || echo "skipped: Debian's ganeti-htools"
	@test -x .venv-placement/bin/python || $(PYTHON) -m venv .venv-placement
	@.venv-placement/bin/python -c 'import placement, psycopg2' 2>/dev/null || .venv-placement/bin/python -m pip --quiet install \
		--disable-pip-version-check 'openstack-placement>=16' psycopg2-binary || echo "skipped: openstack-placement"
	@if .venv-placement/bin/python -c 'import placement, psycopg2' 2>/dev/null; then export PLACEMENT_PYTHON=.venv-placement/bin/python; fi; \
		ROW=18 $(BIN)/python -m benchmarks

bench-console: setup ## Measure pages of the console: CPU, time, bytes
	@$(BIN)/python -m benchmarks.console

bench-import: setup ## Measure an import of a CloudStack of 25,000 hosts and 100,000 VMs
	@$(BIN)/python -m benchmarks.imports

bench-follow: setup ## Measure following such a CloudStack for MINUTES=10: share of a core, calls a minute
	@$(BIN)/python -m benchmarks.following

curves: setup ## Draw how the cost of a bulk call grows, into docs/images
	@$(BIN)/python -m benchmarks.curves

chaos: setup ## Break a running system for MINUTES=10 and check its promises; SEED= repeats one; DRIVER=libvirt or incus: real guests
	@$(if $(filter libvirt,$(DRIVER)),tests/kvm/run.sh $(BIN)/python -m tests.kvm.chaos,$(if $(filter incus,$(DRIVER)),tests/incus/run.sh $(BIN)/python -m tests.incus.chaos,$(BIN)/python -m tests.chaos))

clean: ## Remove what make made, but not data
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
