"""A headless Chromium for tests, and services on real ports for it."""

import shutil
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: nothing is opened in it")


@contextmanager
def chromium():
    """Start a browser; tests share it, each in a context of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(app):
    """Serve an app on a free port of this machine; return its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="error", access_log=False, timeout_graceful_shutdown=10)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        app.state.streams.closing = True
        server.should_exit = True
        thread.join(timeout=30)


class Watched:
    """A page that remembers what went wrong in it, and what it asked for."""

    def __init__(self, page):
        self.page, self.wrong, self.asked = page, [], []
        page.on("console", lambda m: self.wrong.append(m.text) if m.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))
