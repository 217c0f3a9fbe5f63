"""A real browser, where there is one: Debian's chromium, driven by Playwright."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def why_not() -> str | None:
    """Why no browser can be used here; None: one can."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: make test-console installs it"
    if not any(map(shutil.which, PROGRAMS)):
        return f"there is no browser ({', '.join(PROGRAMS)}): make test-console says how to get one"
    return None


@contextmanager
def chromium() -> Iterator[Any]:
    """Playwright's browser; its sandbox needs an ordinary user."""
    from playwright.sync_api import sync_playwright

    program = next(found for found in map(shutil.which, PROGRAMS) if found)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()
