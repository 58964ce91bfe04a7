# A thin face over CMake. `make help` lists the targets.
BUILD := build/release
all: $(BUILD)/build.ninja
	cmake --build $(BUILD) --parallel 2
$(BUILD)/build.ninja:
	cmake --preset release
.PHONY: all
