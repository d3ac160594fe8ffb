"""A server that speaks the wire format of another engine, in a process of its own. llama.cpp's server does the work.

    python server.py vllm|sglang|.. ENGINE MODEL.gguf

It prints its address, and ends when its standard input does.
"""

import json
import select
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fields import Refused
from passed import KINDS


def main(kind: str, engine: str, path: str) -> None:
    from decoding import Decoder
    from vocabulary import read_vocabulary

    wire = KINDS[kind].wire(Decoder(engine, read_vocabulary(path)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(wire))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


def handler_of(wire):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            page = wire.page(self.path)
            self.whole(404 if page is None else 200, {"detail": "Not Found"} if page is None else page)

        def do_POST(self):
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.path != wire.path:
                return self.whole(404, {"detail": "Not Found"})
            try:
                frames = wire.answer(json.loads(content))
            except Refused as refused:
                return self.whole(400, wire.refusal(refused))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for frame in frames:
                # Both engines give up the work of a client that left.
                if self.has_left():
                    return frames.close()
                text = frame if isinstance(frame, str) else json.dumps(frame)
                self.wfile.write(f"data: {text}\n\n".encode())

        def has_left(self) -> bool:
            readable, _, _ = select.select([self.connection], [], [], 0)
            try:
                return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
            except OSError:
                return True

        def whole(self, status: int, body):
            text = b"" if body == "" else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


class Server:
    """The server's process."""

    def __init__(self, kind: str, engine: str, path: str):
        command = [sys.executable, __file__, kind, engine, path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http"), f"the server for {kind} did not start"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
