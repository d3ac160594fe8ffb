"""A proxy in front of the engine that records what passes: the ids that are sent, and the frames that return."""

import http.client
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Passed:
    """One request to the engine, and its answer."""

    body: dict
    frames: list = field(default_factory=list)

    @property
    def prompt(self) -> list:
        return self.body["prompt"]

    @property
    def sampled(self) -> list:
        """The ids that the engine sampled, as far as it tells them."""
        return [token for frame in self.frames if not frame.get("stop") for token in frame.get("tokens", [])]

    @property
    def last(self) -> dict:
        return next((frame for frame in reversed(self.frames) if frame.get("stop")), {})


class Proxy:
    def __init__(self, engine: str):
        self.passed: list[Passed] = []
        proxy, target = self, urlsplit(engine)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.forward("GET", b"")

            def do_POST(self):
                self.forward("POST", self.rfile.read(int(self.headers["content-length"])))

            def forward(self, method, body):
                passed = Passed(json.loads(body) if body else {})
                if method == "POST":
                    proxy.passed.append(passed)
                engine = http.client.HTTPConnection(target.hostname, target.port)
                engine.request(method, self.path, body, {"content-type": "application/json"})
                answer = engine.getresponse()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", "application/json"))
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for line in answer:
                        if line.startswith(b"data: {"):
                            passed.frames.append(json.loads(line[6:]))
                        self.wfile.write(line)
                        self.wfile.flush()
                except OSError:
                    pass  # The gateway has what it wants, and left.
                finally:
                    engine.close()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self) -> list:
        """Returns what passed since the last call."""
        passed, self.passed = self.passed, []
        return passed
