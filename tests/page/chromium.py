"""The page in a real browser, as a visitor sees it: a server of its own, and no way out of this machine."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000
"""Milliseconds: nothing takes so long, but on a machine that does much else."""
HERE = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")


def executable():
    """Where the browser is; without one these tests fail, and say what to do."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    for place in PLACES:
        if Path(place).exists():
            return place
    pytest.fail(
        "the tests of the page need a browser, and none is installed; try `make .venv/browser`, "
        "or `apt-get install --no-install-recommends chromium`."
    )


@contextmanager
def serving(*arguments):
    """`reshuffle explore` in a process of its own; yields it and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reshuffle", "explore", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line + process.stderr.read()
        yield process, line.split()[4]
    finally:
        process.kill()
        process.communicate()


class Visitor:
    """One page of a browser, with everything it asked of other machines and everything that went wrong in it."""

    def __init__(self, browser, address, **settings):
        self.address, self.strangers, self.errors = address, [], []
        self.context = browser.new_context(accept_downloads=True, **settings)
        self.context.route("**/*", self._guard)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.errors.append(f"{error} {error.stack}"))
        self.page.on("websocket", lambda socket: self._note(socket.url))

    def _note(self, url):
        if not url.startswith(HERE):
            self.strangers.append(url)

    def _guard(self, route):
        self._note(route.request.url)
        route.continue_() if route.request.url.startswith(HERE) else route.abort()

    def open(self, query=""):
        """Open the page in this state, and wait for what it has to say."""
        self.page.goto(self.address + query)
        self.page.wait_for_selector("html[data-ready=yes]")
        return self.settled()

    def settled(self, tab=None):
        """Wait until the newest question of the tab is answered for good; returns the sentence."""
        tab = tab or self.tab
        self.page.wait_for_function(
            """tab => document.documentElement.dataset.pending === "no"
                && document.getElementById("panel-" + tab).getAttribute("aria-busy") === "false" """,
            arg=tab,
        )
        return self.sentence(tab)

    @property
    def tab(self):
        return self.page.get_attribute('[role="tab"][aria-selected="true"]', "data-tab")

    def sentence(self, tab=None):
        return self.page.inner_text(f"#panel-{tab or self.tab} .sentence")

    def setting(self, tab=None):
        return self.page.inner_text(f"#panel-{tab or self.tab} .setting")

    def input(self, key):
        return self.page.locator(f"#{key}")

    def drag(self, key, *values, pause=0):
        """Move a slider through values, as quickly as events can follow each other, or with pauses (ms)."""
        self.input(key).evaluate(
            """async (slider, [values, pause]) => {
                for (const value of values) {
                    slider.value = value;
                    slider.dispatchEvent(new Event("input", { bubbles: true }));
                    if (pause) await new Promise(resolve => setTimeout(resolve, pause));
                }
            }""",
            [values, pause],
        )

    def send(self, path):
        """Send a file, and wait for what is said of it."""
        self.input("data_file").set_input_files(path)
        self.page.wait_for_function(
            """() => document.getElementById("data_file").value === ""
                || document.querySelector("#data_file_progress .progress-bar-danger")"""
        )
        return self.settled("data")

    def close(self):
        """Leave; nothing was asked of other machines, and nothing failed."""
        self.context.close()
        assert not self.strangers, self.strangers
        assert not self.errors, self.errors
