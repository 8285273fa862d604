# Each goal does all the set-up that it needs; the stamps make the second start fast.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.core
ALL := .venv/.all
SITE := .venv/.site
# uv installs several times faster than pip; where it is not there, or does not know where packages come from, pip does it.
UV := $(shell command -v uv)
# Neither compiles what nobody imports: for torch alone that takes half a minute and 300 MB. So the first import must be allowed to
# keep what it compiles; else every process that is started compiles torch again, which takes 10 s instead of 3.
unexport PYTHONDONTWRITEBYTECODE
install = $(if $(UV),$(UV) pip install --quiet --python $(1)/bin/python $(2) ||) $(1)/bin/python -m pip install --quiet --no-compile $(2)

# A browser for the tests of pages, where there is none and we may install one. Without it they skip and say so.
BROWSER := .venv/.browser

.PHONY: demo test check slow campaign portable lowest readme docs coverage release format clean

# The core and torch, which the paper's methods are trained with, are enough for it.
demo: $(CORE)
	$(BIN)/firstsight demo

test: $(ALL) $(BROWSER)
	$(BIN)/python -m pytest -n auto --dist loadgroup

check: $(ALL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/stubs.py --check
	$(BIN)/mypy

slow: $(ALL) $(BROWSER)
	$(BIN)/python -m pytest -m slow

# Hostile files, crashes, full disks, extreme numbers and crowds: half an hour of one core; counts at the end.
campaign: $(ALL)
	$(BIN)/python -m pytest -m campaign -s tests/campaigns tests/serving

# What README shows: the demo's figures, the tables, what its Python prints, the images. Run it on an idle machine: the demo
# tells seconds. Needs chromium.
readme: $(ALL) $(BROWSER)
	$(BIN)/firstsight demo --out .venv/demo
	cp .venv/demo/results.json results/demo.json
	$(BIN)/python tools/readme.py
	$(BIN)/python tools/images.py

# The site, in `site/`: without network, a warning is an error, and every link within it must lead somewhere.
docs: $(SITE)
	rm -rf site
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs site
	$(BIN)/python tools/check_site.py site

# Not a part of `make test`: watching every line makes it slower. The floor is `fail_under` in pyproject.toml.
coverage: $(ALL) $(BROWSER)
	$(BIN)/python -m pytest -n auto --dist loadgroup --cov --cov-report=term:skip-covered

# Wheel and source archive, checked, installed into an empty environment, and the demo run from there.
release: $(ALL)
	rm -rf dist .venv-release
	$(call install,.venv,build twine)
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv .venv-release
	$(call install,.venv-release,"$$(echo dist/*.whl)[torch]")
	cd .venv-release && bin/firstsight demo

# The suite as other processors would run it: NumPy, torch and BLAS without their newer instructions. On a machine that
# lacks these anyway, it shows nothing new.
portable: $(ALL) $(BROWSER)
	NPY_DISABLE_CPU_FEATURES="X86_V4" $(BIN)/python -m pytest -n auto --dist loadgroup
	NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3" ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott $(BIN)/python -m pytest -n auto --dist loadgroup

# The core, without torch, on the lowest versions that pyproject.toml claims; tests that need an extra skip themselves.
lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tools/lowest_versions.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --editable . "pytest>=8" "pytest-xdist>=3.6" --constraint .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pytest -n auto

format: $(ALL)
	$(BIN)/python tools/stubs.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(CORE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install,.venv,--editable ".[torch]")
	touch $(CORE)

$(ALL): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install,.venv,--editable ".[dev]")
	touch $(CORE) $(ALL)

$(SITE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install,.venv,--editable ".[docs]")
	touch $(CORE) $(SITE)

$(BROWSER): $(ALL)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && (apt-get update && apt-get install -y --no-install-recommends chromium) >/dev/null 2>&1; } \
		|| echo "There is no chromium, and it cannot be installed here: tests of pages will be skipped."
	@touch $(BROWSER)

clean:
	rm -rf .venv .venv-lowest .venv-release dist site docs/api docs/gallery docs/generated docs/methods
