# Sets up everything from a fresh clone, given Python 3.11 or newer and a C++ compiler; seconds when nothing changed.
#
#   make build    virtual environment in .venv, pinned packages, messages, kernels, this package (editable)
#   make demo     build, then the nodes on built-in scenes
#   make test     build, then format, lint, types, layers, decoders with their coverage, all other tests, what needs Ray or ncnn
#   make fuzz     every decoder under Atheris, sharing so many seconds: make fuzz SECONDS=60
#   make sanitize kernels with ASan and UBSan, then with TSan, and the tests that run them: minutes
#   make clean    remove what was built; `make distclean` removes .venv too

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: build demo test fuzz sanitize clean distclean

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name))))
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/done
PIP := $(BIN)/python -m pip --disable-pip-version-check

# folders too: their time changes when a file comes or goes
NATIVE := cacheinf_ros/engine/kernels/native
BUILT_FROM := CMakeLists.txt setup.py pyproject.toml package.xml msg $(NATIVE) $(wildcard cmake/*.cmake config/*.yaml config/*.xml config/*/* \
	launch/*.py msg/*.msg scripts/* $(NATIVE)/* $(NATIVE)/isa/*)

build: $(DONE)/package

$(DONE)/venv:
	@echo "[1/3] virtual environment in $(VENV)"
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, found '$(PYTHON)'; name another one: make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/requirements: requirements.txt $(DONE)/venv
	@total=$$(grep -c == $<); echo "[2/3] $$total packages of $< (minutes, the first time)"; \
	$(PIP) install --no-compile --progress-bar off -r $< | awk -v total=$$total '\
		/^(Collecting|Requirement already)/ && ++n % 30 == 0 { print "      " n " of " total; fflush() } \
		/^ *Downloading .*\([0-9.]+ (GB|[0-9][0-9]+\.[0-9] MB)\)/ { print "      " $$2, $$3, $$4; fflush() } \
		/^Installing/ { print "      installing"; fflush() }'
	@touch $@

$(DONE)/package: $(BUILT_FROM) $(DONE)/requirements
	@echo "[3/3] messages and kernels"
	@mkdir -p build
	@$(PIP) install --verbose --no-deps --no-build-isolation --editable . 2>&1 | tee build/build.log | awk '\
		match($$0, /\[[0-9]+\/[0-9]+\]/) && ++n % 20 == 0 { print "      " substr($$0, RSTART, RLENGTH); fflush() } \
		/^ *cacheinf_ros: / { print; fflush() }' || { grep -m 8 -A 4 -iE 'error:|CMake Error' build/build.log >&2; echo 'All of it: build/build.log' >&2; exit 1; }
	@$(BIN)/python -c 'import cacheinf_ros.matching, cacheinf_ros.engine, cacheinf_ros.memory.placement_search, cacheinf_ros.offload.planning.timeline_loop'  # compiles their inner loops
	@touch $@

demo: build
	@$(BIN)/cacheinf demo

# Their coverage is enforced (test/fuzzing/coverage.cfg), so they run by themselves, on the same examples every time, and
# the others without a tracer.
DECODER_TESTS := $(addprefix test/,fuzzing test_cache_map.py test_config.py test_damaged_stores.py test_disk_cache.py test_yaml_text.py \
	catalog/specialists/test_training_set.py engine/bounded/test_store.py engine/cost/test_measure.py graph/test_card.py graph/test_check.py graph/test_graph_io.py graph/test_load.py \
	nodes/test_class_count_messages.py nodes/test_conversions.py nodes/test_image_levels.py nodes/test_image_messages.py nodes/test_packet_messages.py \
	offload/protocol/test_greeting.py offload/protocol/test_hostile_peers.py offload/protocol/test_load_content.py \
	offload/protocol/test_mailbox.py offload/protocol/test_newest.py offload/protocol/test_packets.py offload/protocol/test_patches.py offload/protocol/test_pixels.py \
	offload/protocol/test_served.py \
	offload/searching/test_search_messages.py pipeline/test_map_chain.py \
	sources/test_compressed.py sources/test_encoding.py sources/test_layouts.py sources/test_picture_files.py sources/test_point_cloud.py \
	sources/test_tiff_files.py sources/test_value_range.py sources/test_voxel_grid.py)
TEST := $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder --durations=20

# Ray and ncnn lie beside the other packages, where only these find them: without them nothing may be different.
EXTRA := $(VENV)/extra
EXTRA_TESTS := test/bench/test_ncnn_engine.py test/fleet/test_ray_fleet.py test/harness/test_fleet_demo.py

$(DONE)/extra: requirements-fleet.txt requirements-ncnn.txt $(DONE)/requirements
	@rm -rf $(EXTRA)
	@$(PIP) install -q --no-compile --no-deps --target $(EXTRA) -r requirements-fleet.txt -r requirements-ncnn.txt
	@touch $@

# More workers than cores: many tests wait for nodes or processes, in [6/7] above all.
test: build $(DONE)/extra
	@echo "[1/7] format";  $(BIN)/ruff format --check .
	@echo "[2/7] lint";    $(BIN)/ruff check .
	@mkdir -p build/coverage
	@echo "[3/7] types and [4/7] layers, which need one core, beside [5/7] decoders"; status=0; \
	{ $(BIN)/mypy cacheinf_ros benchmarks && $(BIN)/lint-imports; } > build/checks.log 2>&1 & checks=$$!; \
	$(TEST) -n 3 --hypothesis-profile=repeatable --cov --cov-config=test/fuzzing/coverage.cfg --cov-report=term $(DECODER_TESTS) || status=$$?; \
	wait $$checks || status=$$?; cat build/checks.log; exit $$status
	@echo "[6/7] tests";   $(TEST) -n 4 $(addprefix --ignore=,$(DECODER_TESTS) $(EXTRA_TESTS))
	@echo "[7/7] extras";  PYTHONPATH=$(CURDIR)/$(EXTRA) $(BIN)/python -m pytest -q --durations=5 $(EXTRA_TESTS)

# Targets share the seconds; what is found stays in build/fuzzing, and the next run goes on from there.
SECONDS ?= 60
TARGETS ?= $(sort $(notdir $(wildcard test/fuzzing/seeds/*)))

fuzz: build $(DONE)/fuzz
	@mkdir -p build/fuzzing
	@each=$$(( $(SECONDS) / $(words $(TARGETS)) )); \
	for target in $(TARGETS); do \
		PYTHONPATH=test:test/networks $(BIN)/python -m fuzzing $$target --seconds $$(( each > 0 ? each : 1 )) > build/fuzzing/$$target.log 2>&1 \
			|| { tail -40 build/fuzzing/$$target.log; echo "$$target failed: build/fuzzing/$$target.log"; exit 1; }; \
		awk -v target=$$target '/number_of_executed_units/ { n = $$2 } /peak_rss_mb/ { rss = $$2 } \
			END { print "      " target ": " n " executions, at most " rss " MB" }' build/fuzzing/$$target.log; \
	done

$(DONE)/fuzz: test/fuzzing/requirements.txt $(DONE)/requirements
	@$(PIP) install -q -r $<
	@touch $@

# What runs the kernels: each alone, whole programs, and sessions in which two engines work at once. TSan takes what
# uses several threads; both compile the kernels anew first.
SANITIZED ?= test/engine/kernels test/engine/execution test/engine/test_exact.py test/offload/protocol/test_sessions.py \
	test/fuzzing/test_decoders.py
SANITIZED_THREADS ?= test/engine/kernels/test_windows.py test/engine/execution/test_executors.py \
	test/offload/protocol/test_sessions.py

sanitize: build
	scripts/sanitized address,undefined $(BIN) -m pytest -q -x -p no:cacheprovider $(SANITIZED)
	scripts/sanitized thread $(BIN) -m pytest -q -x -p no:cacheprovider $(SANITIZED_THREADS)

clean:
	rm -rf build install log out dist *.egg-info cacheinf_ros/msg .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -f $(DONE)/package
	find cacheinf_ros -name '*.so' -delete
	find cacheinf_ros benchmarks test -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
