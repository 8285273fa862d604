"""Pages as people meet them: a real browser without a screen, and a server of its own for the letters' demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import firstsight
from firstsight._io.files import cache_folder, write_atomically

AXE = "4.14.0"
PATIENCE = 180_000  # milliseconds: a machine that is busy with other tests is slow, not wrong
PLAIN = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def pytest_collection_modifyitems(items) -> None:
    """All in one process where tests are spread over several (`--dist loadgroup`): one browser and one server do.

    pytest-xdist 3.8 does not see the groups with pytest 9.2, so no test may rely on it.
    """
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def browser() -> Iterator:
    driver = pytest.importorskip("playwright.sync_api", reason="tests of pages need Playwright: pip install playwright")
    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if place is None:
        pytest.skip("tests of pages need a browser: apt-get install chromium")
    driver.expect.set_options(timeout=PATIENCE)
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=place, args=PLAIN)
        yield running
        running.close()


@pytest.fixture(scope="session")
def expect(browser):
    """Playwright's `expect(locator).to_…`: it waits until what a page shows is what it should show.

    A page reacts to an action a little later. To read it at once (`is_visible`, `count`, `inner_text`) is a race.
    """
    from playwright.sync_api import expect

    return expect


class Complaints(list):
    """What the browser itself has to say against a page: errors of scripts, and what the policy has stopped."""

    def watch(self, page):
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", lambda said: self.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (self.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def open_page(browser, complaints) -> Iterator:
    """Open an address as somebody with such a screen; whatever the browser complains of is in `complaints`."""
    contexts = []

    def opened(address: str, width: int = 1280, scheme: str = "light", **more):
        # Without transitions: a colour that is half way between two has a contrast of its own.
        looks = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
        context = browser.new_context(**looks, **more)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = complaints.watch(context.new_page())
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()


@contextmanager
def _served(told: Path, *words: object, **environment: str) -> Iterator[str]:
    """The address of `firstsight serve …`, started as a person starts it; what it says goes to the file."""
    pytest.importorskip("uvicorn", reason="the server needs the extra `serve`")
    paths = os.pathsep.join([str(Path(firstsight.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    code = "from firstsight.cli.main import main; main()"
    with told.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *map(str, words), "--port", "0", "--rate", "0"],
            env={**os.environ, **environment, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
        try:
            line = server.stdout.readline()
            assert line.startswith("firstsight is at http://127.0.0.1:"), told.read_text()
            yield line.split()[-1]
        finally:
            server.terminate()
            assert server.wait(timeout=300) in (0, -15)  # it answers what it has accepted, then ends as it was told


@pytest.fixture(scope="session")
def served():
    """`with served(told, "model", …) as address`."""
    return _served


@pytest.fixture(scope="session")
def site(browser, served, tmp_path_factory) -> Iterator[str]:
    """The address of `firstsight serve --demo`, with a cache of its own.

    What a page teaches stays in the cache; where another process has such a server, too, neither may meet it.
    """
    folder = tmp_path_factory.mktemp("site")
    own = {"FIRSTSIGHT_CACHE": str(folder / "cache")}
    with served(folder / "told", "--demo", "--keep", folder / "kept", **own) as address:
        yield address


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """axe-core, fetched from npm's registry once and kept in the user's cache; no part of the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FIRSTSIGHT_CACHE")  # which is that of this run alone
        place = cache_folder() / "tests" / f"axe-core-{AXE}.min.js"
    if not place.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("the audit needs npm to fetch axe-core")
        folder = tmp_path_factory.mktemp("axe")
        try:
            command = [npm, "pack", "--silent", f"axe-core@{AXE}"]
            subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=True)
        except subprocess.SubprocessError:  # no network, or one that does not answer
            pytest.skip("the audit needs axe-core, and npm could not fetch it")
        with tarfile.open(folder / f"axe-core-{AXE}.tgz") as packed:
            write_atomically(place, packed.extractfile("package/axe.min.js").read())
    return place.read_text(encoding="utf-8")


@pytest.fixture
def audit(axe):
    """The serious findings of axe-core on a page, each as its rule and the first element; none is what we want."""

    def findings(page) -> list[str]:
        page.evaluate(axe + "\n;undefined")
        found = page.evaluate("async () => (await axe.run()).violations")
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in serious]

    return findings


@pytest.fixture
def cut():
    """What sticks out of a page at its right edge, scrolling boxes aside."""
    return lambda page: page.evaluate(
        """() => {
            const { clientWidth, scrollWidth } = document.documentElement;
            const outside = (one) => one.getBoundingClientRect().right > clientWidth + 1;
            const all = scrollWidth > clientWidth ? [...document.body.querySelectorAll("*")] : [];
            return all.filter(outside).map((one) => one.outerHTML.slice(0, 120));
        }"""
    )
