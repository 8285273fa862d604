# Each goal does all the set-up that it needs; the stamp makes the second start fast.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# A browser for the tests of pages, where there is none and we may install one. Without it they skip and say so.
BROWSER := .venv/.browser

.PHONY: demo test check slow campaign lowest format clean

demo: $(STAMP)
	$(BIN)/firstsight demo

test: $(STAMP) $(BROWSER)
	$(BIN)/python -m pytest -n auto --dist loadgroup

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/stubs.py --check
	$(BIN)/mypy

slow: $(STAMP) $(BROWSER)
	$(BIN)/python -m pytest -m slow

# Hostile files, crashes, full disks, extreme numbers and crowds: half an hour of one core; counts at the end.
campaign: $(STAMP)
	$(BIN)/python -m pytest -m campaign -s tests/campaigns

# The core on the lowest versions that pyproject.toml claims; tests that need an extra skip themselves.
lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tools/lowest_versions.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --editable . "pytest>=8" "pytest-xdist>=3.6" --constraint .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pytest -n auto

format: $(STAMP)
	$(BIN)/python tools/stubs.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(STAMP)

$(BROWSER): $(STAMP)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && (apt-get update && apt-get install -y --no-install-recommends chromium) >/dev/null 2>&1; } \
		|| echo "There is no chromium, and it cannot be installed here: tests of pages will be skipped."
	@touch $(BROWSER)

clean:
	rm -rf .venv .venv-lowest
