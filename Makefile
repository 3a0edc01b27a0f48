# Everything runs in a virtual environment inside the checkout; nothing outside it changes,
# except that `deps` (part of `test`) installs missing Debian packages by name.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV   := .venv
PYTHON := $(VENV)/bin/python
APT    := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0

# Debian packages of the whole test run: stock kernels under QEMU, real load, a real Prometheus.
DEBIAN_PACKAGES := busybox-static chromium cpio debootstrap dpkg-dev ethtool fio \
                   fonts-inter iproute2 kmod lintian lldpd nftables nvme-cli prometheus \
                   prometheus-alertmanager python3-venv python3-yaml qemu-system-x86 \
                   strace systemd xz-utils zsh zstd
# Whoever has npm already keeps it: Debian's brings hundreds of packages.
DEBIAN_PACKAGES += $(shell command -v npm >/dev/null || echo nodejs npm)

BENCH_ARGS  ?=
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
	$(PYTHON) -m pytest -n auto \
	    -m 'not (kernel or prometheus or browser or packaging or strace or thorough)' \
	    $(PYTEST_ARGS)

# The kernels' time is virtual: they wait while the nodes of the chain, whose time is real, live.
.PHONY: test
test: deps lint ## everything, also stock kernels in QEMU, a real Prometheus and a browser
	$(PYTHON) -m pytest -n auto -m 'not (kernel or chain or browser or packaging)' $(PYTEST_ARGS)
	$(PYTHON) -m pytest -m browser $(PYTEST_ARGS)
	$(PYTHON) -m pytest -m packaging $(PYTEST_ARGS)
	$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'kernel or chain' $(PYTEST_ARGS)

# For hours; NVMEOF_SOAK is the share of it that is wanted, such as NVMEOF_SOAK=0.01.
.PHONY: soak
soak: deps $(VENV)/.dev ## simulated days, scrapes by the ten thousand, hours of faults
	NVMEOF_SOAK=$${NVMEOF_SOAK:-1} $(PYTHON) -m pytest -n 2 -rP tests/soak tests/test_faults \
	    $(PYTEST_ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## what polls and scrapes cost, beside what else there is; writes bench.json
	@$(MAKE) --no-print-directory deps \
	    DEBIAN_PACKAGES='gcc libc6-dev nvme-cli prometheus-node-exporter'
	$(PYTHON) -m tests.bench $(BENCH_ARGS)

.PHONY: docs
docs: $(VENV)/.run ## the metric reference, the man page and completions, generated from the code
	@mkdir -p docs
	$(PYTHON) -m nvmeof_exporter.exposition.reference > docs/metrics.md.new
	mv docs/metrics.md.new docs/metrics.md
	$(PYTHON) packaging/reference.py

# The same commit makes the same packages, wherever and whenever.
.PHONY: deb dist
deb dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
deb: $(VENV)/.run ## the Debian package, for this machine's release and architecture, in dist/
	$(PYTHON) packaging/debian/build.py
dist: $(VENV)/.dev ## wheel and source distribution, in dist/
	$(PYTHON) -m build --no-isolation --outdir dist

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
