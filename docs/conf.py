"""Settings of the site: `make docs` copies this folder and builds the copy into out/site. Warnings are errors."""

import re
import sys
from importlib.metadata import files
from pathlib import Path

import reshuffle

sys.path.insert(0, str(Path(__file__).parent))

from plain_docstrings import plain, spoken  # it lies beside this file

project = "reshuffle"
author = "The reshuffle developers"
copyright = "the reshuffle developers, MIT licence"  # Sphinx reads this name
version = release = reshuffle.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["examples/*"]
nitpicky = False
# Blocks without a language are formulas, commands and trees.
highlight_language = "none"

myst_enable_extensions = ["dollarmath"]
# GitHub reads ```math as the site does.
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

# The site needs no network: its formulas take the one file of MathJax without fonts, from a package of Python.
mathjax = next(file for file in files("sphinx-mathjax-offline") or [] if file.name == "tex-svg.js")
mathjax_path = mathjax.name
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "global"}}

autosummary_generate = True
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
    "first_notebook_cell": "# Needed once.\n%pip install --quiet 'reshuffle[plot,sklearn]'",
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "reshuffle"
html_context = {"default_mode": "auto"}
toc_object_entries_show_parents = "hide"
html_static_path = ["_static", str(mathjax.locate())]
html_css_files = ["site.css"]
# A page that is opened as a file may not fetch the others for a summary.
html_show_search_summary = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": []}


def speak_plainly(app, what, name, obj, options, lines):
    """Let docstrings mean what they say."""
    lines[:] = plain(lines)


def close_programs(app, name, content):
    """Take the empty line away that doctest wants before the end of a block."""
    content[0] = content[0].replace("\n\n```\n", "\n```\n")


def simplify_signature(app, what, name, obj, options, signature, returned):
    """Shorten the type that a function returns, and defaults that are made anew for every call."""
    annotation = getattr(obj, "__annotations__", {}).get("return")
    shown = signature and re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", signature.replace("<factory>", "..."))
    return shown, None if annotation is None else spoken(annotation)


def leave_out_machinery(app, what, name, obj, skip, options):
    """Describe what every scheme declares on the page of `Scheme` alone: it would hide the words of the others.

    Nor is there a word about what scikit-learn adds to all estimators.
    """
    if name.startswith("set_") and name.endswith("_request"):
        return True
    page = app.env.current_document.docname.rpartition("/")[2]
    documented = getattr(reshuffle, page.removeprefix("reshuffle."), None)
    of_a_scheme = isinstance(documented, type) and issubclass(documented, reshuffle.Scheme)
    return (
        True
        if of_a_scheme and documented is not reshuffle.Scheme and hasattr(reshuffle.Scheme, name)
        else None
    )


def repeat_nothing(app, exception):
    """Leave no trace of this machine: addresses of objects in signatures would be one."""
    if exception is not None:
        return
    for page in sorted((app.outdir / "api").rglob("*.html")):
        found = re.findall(r" at 0x[0-9a-f]+", page.read_text(encoding="utf-8"))
        if found:
            raise ValueError(f"{page} shows an address in memory: {found[0].strip()}")


def setup(app):
    """Hook these into the build."""
    app.connect("autodoc-process-docstring", speak_plainly, priority=100)
    app.connect("autodoc-process-signature", simplify_signature)
    app.connect("source-read", close_programs)
    app.connect("autodoc-skip-member", leave_out_machinery)
    app.connect("build-finished", repeat_nothing)
