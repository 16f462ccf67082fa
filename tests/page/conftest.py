"""One server and one browser for the tests of a module."""

import pytest

from tests.page import chromium


@pytest.fixture(scope="module")
def address():
    with chromium.serving() as (_, found):
        yield found


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=chromium.executable(), args=chromium.ARGUMENTS, timeout=chromium.PATIENCE
        )
        yield made
        made.close()


@pytest.fixture
def visit(browser, address):
    """Makes visitors, and sees them out."""
    visitors = []

    def make(**settings):
        visitors.append(chromium.Visitor(browser, address, **settings))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
