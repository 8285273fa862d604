"""Is the built site whole? `python tools/check_site.py SITE` follows every link within it; nothing is fetched.

Every local link must lead to a file, and to a place in it if it names one. Pages may load nothing from elsewhere. Links
to other sites must be well formed; whether anybody answers there is not asked. What Sphinx makes beside the pages (the
theme's templates in `_static`, highlighted code in `_modules`) is led to, but its own links are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links and the places of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.places, self.links, self.loaded = path, set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in LOADS and values.get(LOADS[tag]):
            self.loaded.append(values[LOADS[tag]])


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a sentence each."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    told = [] if pages else [f"{site} has no page."]
    for page in pages.values():
        where = page.path.relative_to(site)
        if where.parts[0] in ("_static", "_modules"):
            continue
        for address in page.loaded:
            if urlsplit(address).netloc:
                told.append(f"{where} loads {address} from another site.")
            elif not address.startswith("data:"):
                told += _local(where, page, address, pages)
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                if "." not in parts.netloc or " " in address:
                    told.append(f"{where}: {address} is not an address.")
            elif parts.scheme not in ("mailto", "data"):
                told += _local(where, page, address, pages)
    return told


def _local(where: Path, page: Page, address: str, pages: dict[Path, Page]) -> list[str]:
    parts = urlsplit(address)
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return [f"{where}: there is no {address}."]
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].places:
        return [f"{where}: there is no place {address}."]
    return []


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(
        "\n".join(wrong)
        if wrong
        else f"every link of {len(list(Path(sys.argv[1]).rglob('*.html')))} pages leads somewhere"
    )
    sys.exit(bool(wrong))
