# verify reads, fix writes; the rest measures and documents.
#
# verify never changes a file of the tree, so that it means the same on every machine: a
# lockfile that does not fit is an error (--locked), and so is a file that is not formatted.

CARGO ?= cargo
SEED ?=
TARGET ?= node

.DEFAULT_GOAL := verify
.PHONY: verify fix sim soak fuzz bench docs

# The order is that of waiting: what fails in seconds comes first.
verify:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items
	$(CARGO) test --locked --workspace
	$(CARGO) run --locked -p gaggle-sim -- meta
	$(CARGO) run --locked -p gaggle-sim -- swarm --seeds 500 --from 1
	$(CARGO) check --locked -p gaggle-client --examples

fix:
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	if command -v typos >/dev/null; then typos --write-changes; fi

# One seed, told or drawn: make sim SEED=42
sim:
	$(CARGO) run --locked --release -p gaggle-sim -- run $(SEED)

# Fresh seeds until stopped.
soak:
	$(CARGO) run --locked --release -p gaggle-sim -- swarm

# Inputs that a target cannot stand, searched for until stopped: make fuzz TARGET=node
fuzz:
	mkdir -p tests/fuzz/target/found/$(TARGET)
	cd tests && $(CARGO) fuzz run -s none $(TARGET) fuzz/target/found/$(TARGET) fuzz/corpus/$(TARGET)

bench:
	$(CARGO) bench --locked -p gaggle-bench

docs:
	$(CARGO) doc --locked --workspace --no-deps --document-private-items --open
