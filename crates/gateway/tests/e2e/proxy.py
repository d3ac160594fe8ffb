"""A proxy in front of the engine that records what passes: the ids that are sent, and the frames that return."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from passed import KINDS, Passed


class Proxy:
    def __init__(self, engine: str, kind: str = "llama.cpp"):
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
                passed = KINDS[kind](json.loads(body) if body else {})
                if method == "POST":
                    proxy.passed.append(passed)
                engine = http.client.HTTPConnection(target.hostname, target.port, timeout=300)
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
