"""A headless browser for the tests of pages; they are skipped where it is missing."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def started() -> Iterator[Any]:
    """One browser, until the tests are over."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs CHROMIUM, which is missing: apt-get install chromium")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


class Visit:
    """Opens pages of releases and watches what they do."""

    def __init__(self, browser: Any, file: Path, write: Callable[[Any, Path], object]) -> None:
        self.browser, self.file, self.write, self.contexts = browser, file, write, []

    def __call__(self, release: object, width: int = 1100, height: int = 900, **options: object) -> Any:
        self.write(release, self.file)
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.requests, page.complaints = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
        page.goto(self.file.as_uri())
        return page

    def close(self) -> None:
        """All pages were silent and asked for nothing but themselves."""
        for context in self.contexts:
            for page in context.pages:
                assert page.complaints == []
                assert {url for url in page.requests if not url.startswith("blob:")} == {self.file.as_uri()}
            context.close()
