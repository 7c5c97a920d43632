# verify reads, fix writes; the rest measures and documents.
#
# verify never changes a file of the tree, so that it means the same on every machine: a
# lockfile that does not fit is an error (--locked), and so is a file that is not formatted.

CARGO ?= cargo
SEED ?=

.DEFAULT_GOAL := verify
.PHONY: verify fix sim soak bench docs

# The order is that of waiting: what fails in seconds comes first.
verify:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items
	$(CARGO) test --locked --workspace
	$(CARGO) run --locked -p gaggle-sim -- meta
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

bench:
	$(CARGO) bench --locked -p gaggle-bench

docs:
	$(CARGO) doc --locked --workspace --no-deps --document-private-items --open
