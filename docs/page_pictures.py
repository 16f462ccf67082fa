"""Take the pictures of docs/page.md: the page as a visitor sees it.

Run with ``PYTHONPATH=. python docs/page_pictures.py``; it needs Playwright and a browser, as the tests do.
"""

from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.page.chromium import ARGUMENTS, Visitor, executable, serving

FOLDER = Path(__file__).parent / "pictures"
SHOTS = {
    "page_limit": ("light", '?_inputs_&tab="limit"&limit_batches=2&limit_alpha=0.3'),
    "page_data": ("dark", '?_inputs_&tab="data"'),
    "page_shuffle": ("light", '?_inputs_&tab="shuffle"'),
    "page_free": ("dark", '?_inputs_&tab="free"'),
}


def main() -> None:
    """Write every picture."""
    with serving() as (_, address), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        for name, (colours, query) in SHOTS.items():
            visitor = Visitor(browser, address, color_scheme=colours, viewport={"width": 1200, "height": 920})
            visitor.open(query)
            visitor.page.screenshot(path=FOLDER / f"{name}.png")
            visitor.close()
        browser.close()


if __name__ == "__main__":
    main()
