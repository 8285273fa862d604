"""How Sphinx builds the site (`make docs`). Nothing is fetched: no inventory of other projects, no font, no script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the gallery's figures must not depend on the number of cores
DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tools"))

import images  # noqa: E402
import site_pages  # noqa: E402
import site_pictures  # noqa: E402

import firstsight  # noqa: E402

project = "firstsight"
author = "The firstsight developers"
copyright = f"2026, {author}"
version = release = firstsight.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["generated", "gallery/*.ipynb", "gallery/*.py", "**/README.txt"]
default_role = "code"  # as Markdown has it: `X` is code
nitpicky = True
# Types of other packages cannot be looked up without a network; our own must be found.
nitpick_ignore_regex = [
    ("py:.*", r"(?!firstsight).*"),
    # Types that signatures name and the reference does not document.
    ("py:class", r"firstsight\.(_io|experiments|reporting|recognition\.(answers|explain)|methods\._\w+)\..*"),
]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "firstsight"
# Logo, colours and fonts are the web app's own files.
STYLE = DOCS / "generated" / "style"
html_favicon = "../src/firstsight/web/app/icon.svg"
html_static_path = ["_static", "generated/style", "../src/firstsight/web/parts/fonts"]
html_css_files = ["colours.css", "site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "firstsight", "image_light": html_favicon, "image_dark": html_favicon},
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"ridge_to_attributes\.py",  # what one of them imports
    "write_computation_times": False,
    "within_subsection_order": "site_pages.reading_order",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
    "remove_config_comments": True,
}


def _homes() -> dict[str, str]:
    """Where a public class lives → the public name that its types are to be linked to."""
    return {
        f"{value.__module__}.{value.__qualname__}": f"firstsight.{name}"
        for name, value in site_pages.public_names().items()
    }


def _public_name(app, env, node, contnode):
    """Signatures name a class by its home; the reference has it by its public name."""
    name = _homes().get(node.get("reftarget", ""))
    if name is None:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], name, node, contnode)


def _write_colours() -> None:
    """The web app's colours as a style sheet for the theme's two modes."""
    STYLE.mkdir(parents=True, exist_ok=True)
    rules = []
    for scheme in images.SCHEMES:
        named = "".join(f" --{name}: {value};" for name, value in images.colours(DOCS.parent, scheme).items())
        rules.append(f'html[data-theme="{scheme}"] {{{named} }}\n')
    (STYLE / "colours.css").write_text("".join(rules), encoding="utf-8")


def _skip(app, kind, name, value, skip, options):
    """The methods that scikit-learn makes for metadata routing are explained in its own documents."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app):
    """Sphinx calls this first."""
    site_pages.write_pages(DOCS)
    site_pictures.write_pictures(DOCS / "generated")
    _write_colours()
    app.connect("missing-reference", _public_name)
    app.connect("autodoc-skip-member", _skip)
