"""The check that a built site needs no network sees what a browser would fetch."""

import runpy
from pathlib import Path

from tests.looped import for_all

ROOT = Path(__file__).parents[2]
CHECK = runpy.run_path(str(ROOT / "docs/check_offline.py"))

NEEDS_THE_NETWORK = {
    "a script": '<script src="https://cdn.example/a.js"></script>',
    "a script without a protocol": '<script src="//cdn.example/a.js"></script>',
    "a style sheet": '<link rel="stylesheet" href="https://cdn.example/a.css">',
    "a font": "<style>@font-face {src: url('https://fonts.example/a.woff2')}</style>",
    "an import in a style": '<style>@import "https://cdn.example/a.css";</style>',
    "a picture": '<img src="http://example.org/a.png">',
    "a picture of several sizes": '<img srcset="a.png 1x, https://example.org/b.png 2x" src="a.png">',
    "a frame": '<iframe src="https://example.org"></iframe>',
    "a connection ahead of time": '<link rel="preconnect" href="https://fonts.example">',
    "a style of one element": '<p style="background: url(https://example.org/a.png)">',
    "a file that is not there": '<script src="missing.js"></script>',
}
NEEDS_NONE = {
    "a link": '<a href="https://example.org">a paper</a>',
    "a script of its own": '<script src="_static/here.js?v=1"></script>',
    "data": '<img src="data:image/png;base64,AA==">',
    "the address of the page itself": '<link rel="canonical" href="https://example.org/page.html">',
}


def built(folder, body):
    (folder / "_static").mkdir(parents=True)
    (folder / "_static/here.js").write_text("")
    (folder / "a.png").write_text("")
    (folder / "index.html").write_text(f"<html><body>{body}</body></html>")
    return folder


@for_all("name", NEEDS_THE_NETWORK)
def test_what_needs_the_network_is_told(tmp_path, name):
    assert len(CHECK["complaints"](built(tmp_path / name, NEEDS_THE_NETWORK[name]))) == 1


@for_all("name", NEEDS_NONE)
def test_what_needs_none_is_not(tmp_path, name):
    assert CHECK["complaints"](built(tmp_path / name, NEEDS_NONE[name])) == []


def test_a_style_sheet_of_the_site_is_read_too(tmp_path):
    (built(tmp_path, "") / "_static/a.css").write_text("a {background: url(https://example.org/a.png)}")
    assert CHECK["main"]([str(tmp_path)]) == 1


def test_a_folder_without_pages_is_no_site(tmp_path):
    assert CHECK["main"]([str(tmp_path)]) == 1
