# Everything runs in a virtual environment inside the checkout; nothing outside it changes,
# except that `deps` (part of `test`) installs missing Debian packages by name.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV   := .venv
PYTHON := $(VENV)/bin/python
APT    := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0

# Debian packages of the whole test run: stock kernels under QEMU, real load, a real Prometheus.
DEBIAN_PACKAGES := busybox-static chromium cpio ethtool fio fonts-inter iproute2 kmod lldpd \
                   nftables nvme-cli prometheus prometheus-alertmanager python3-venv \
                   qemu-system-x86 xz-utils zstd
# Whoever has npm already keeps it: Debian's brings hundreds of packages.
DEBIAN_PACKAGES += $(shell command -v npm >/dev/null || echo nodejs npm)

DEMO_ARGS   ?=
PYTEST_ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.run ## a make-believe node with scripted failovers, on http://127.0.0.1:10067/
	$(PYTHON) -m nvmeof_exporter demo $(DEMO_ARGS)

.PHONY: lint
lint: $(VENV)/.dev ## formatting, linter, types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --python-version 3.11 dashboards  # as Grafana's SDK needs it

.PHONY: check
check: lint ## lint and the fast tests, in less than two minutes
	$(PYTHON) -m pytest -n auto -m 'not (kernel or prometheus or browser)' $(PYTEST_ARGS)

# The kernels' time is virtual: they wait while the nodes of the chain, whose time is real, live.
.PHONY: test
test: deps lint ## everything, also stock kernels in QEMU, a real Prometheus and a browser
	$(PYTHON) -m pytest -n auto -m 'not (kernel or chain or browser)' $(PYTEST_ARGS)
	$(PYTHON) -m pytest -m browser $(PYTEST_ARGS)
	$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'kernel or chain' $(PYTEST_ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## the measurements of tests/bench, where there are any
	@if [ -d tests/bench ]; then $(PYTHON) -m pytest tests/bench $(PYTEST_ARGS); \
	else echo "bench: there is no tests/bench, so nothing is measured"; fi

.PHONY: docs
docs: $(VENV)/.run ## the metric reference, generated from the code
	@mkdir -p docs
	$(PYTHON) -m nvmeof_exporter.exposition.reference > docs/metrics.md.new
	mv docs/metrics.md.new docs/metrics.md

.PHONY: rules
rules: $(VENV)/.run ## the rule files and the operator's manifest, generated from alerts/*.py
	$(PYTHON) -m alerts.generate

.PHONY: dashboards
dashboards: $(VENV)/.dev ## the dashboards' JSON, generated from dashboards/source
	$(PYTHON) -m dashboards.generate

.PHONY: expected
expected: $(VENV)/.dev ## write the expected expositions of the tests anew, and show what changed
	$(PYTHON) -m tests.fixtures.expectations

# RUNLEVEL=1 keeps Debian's packages from starting their services where init scripts rule
# (containers, build machines). Where systemd runs, Prometheus starts on port 9090, Alertmanager
# on 9093, and lldpd tells the switches who this machine is. The tests neither need nor mind
# them: they start their own, on free loopback ports and between network namespaces.
.PHONY: deps
deps: ## install the Debian packages that `test` needs, where they are missing (root)
	@missing=$$(for package in $(DEBIAN_PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed \
	        || echo $$package; done); \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" != 0 ]; then \
	    echo "Debian packages are missing; as root: apt-get install" $$missing >&2; exit 1; fi; \
	echo "installing Debian packages:" $$missing; \
	$(APT) update && RUNLEVEL=1 $(APT) install -y --no-install-recommends $$missing

# A stamp per set of packages, so that a demonstration does not wait for the developers' tools.
# A changed pyproject.toml makes the environment anew: nothing stale stays behind.
$(VENV)/.made: pyproject.toml
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { \
	    [ "$$(id -u)" = 0 ] || { echo "as root: apt-get install python3-venv" >&2; exit 1; }; \
	    $(APT) update && $(APT) install -y --no-install-recommends python3-venv; }
	rm -rf $(VENV)
	python3 -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.made
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

.PHONY: clean
clean: ## remove what `make` and the tools made
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
