"""Whether a built site can be read without a network: `python docs/check_offline.py out/site`.

A page may link to other places; it may not need them. What a browser fetches by itself (scripts, styles, fonts,
pictures, frames) has to be a file of the site.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "embed": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "track": "src",
    "input": "src",
    "object": "data",
}
LINKED = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}
STYLE = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")


class Fetches(HTMLParser):
    """Gathers the addresses that a browser fetches for a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        """Take note of one tag."""
        given = {name: value or "" for name, value in attributes}
        if tag == "link" and LINKED & set(given.get("rel", "").lower().split()):
            self.found.append(given.get("href", ""))
        self.found += [given[name] for name in (FETCHED.get(tag, ""),) if given.get(name)]
        self.found += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.found += in_style(given.get("style", ""))


def in_style(text):
    """Return the addresses that a style sheet fetches.

    >>> in_style('@import "base.css"; a {background: url(dot.svg)}')
    ['base.css', 'dot.svg']
    """
    return [first or second for first, second in STYLE.findall(text)]


def in_page(text):
    """Return the addresses that a page fetches, those of its own styles included.

    >>> in_page('<script src="https://cdn.example/a.js"></script> <a href="https://example.org">read</a>')
    ['https://cdn.example/a.js']
    """
    reader = Fetches()
    reader.feed(text)
    return reader.found + in_style(" ".join(re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)))


def complaints(site):
    """Return a sentence for everything in a built site that needs the network, or is missing."""
    said = []
    for path in sorted(site.rglob("*")):
        is_template = (
            path.suffix == ".html" and "_static" in path.parts
        )  # the theme leaves one of its own there
        if path.suffix not in {".html", ".css"} or is_template:
            continue
        text = path.read_text(encoding="utf-8")
        for address in in_page(text) if path.suffix == ".html" else in_style(text):
            parts = urlsplit(address)
            if parts.scheme == "data" or not (parts.netloc or parts.path):
                continue
            if parts.scheme or parts.netloc:
                said.append(f"{path.relative_to(site)} fetches {address}")
            elif not (path.parent / unquote(parts.path)).exists():
                said.append(f"{path.relative_to(site)} needs {address}, which is not there")
    return said


def main(arguments):
    """Print what is wrong with a site, and return the exit code."""
    (folder,) = arguments
    pages = len(list(Path(folder).rglob("*.html")))
    if not pages:
        print(f"there are no pages in {folder}")
        return 1
    said = complaints(Path(folder))
    print("\n".join(said) or f"{pages} pages in {folder} need no network")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
