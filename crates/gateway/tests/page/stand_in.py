"""A stand-in for the engine, with the wire format of llama.cpp's server, that says what a test wants."""

import http.server
import json
import threading
import time


class StandIn:
    """Replies with `steps`: lists of ids, seconds to wait, or the word that ends a reply."""

    def __init__(self):
        self.steps, self.status = [], 200
        # The replies whose client left before their end.
        self.left = 0
        self.asked = 0
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                stand_in.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(stand_in.status)
                self.end_headers()
                if stand_in.status == 200:
                    try:
                        stand_in.reply(self.wfile)
                    except OSError:
                        stand_in.left += 1

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, out):
        total = 0
        for step in self.steps:
            if isinstance(step, float):
                time.sleep(step)
                continue
            frame = {"content": "", "tokens": [], "stop": False}
            if isinstance(step, str):
                frame |= {"stop": True, "stop_type": step, "timings": {"cache_n": 7}}
            else:
                frame["tokens"] = step
                total += len(step)
            frame["tokens_predicted"] = total
            out.write(b"data: " + json.dumps(frame).encode() + b"\n\n")
            out.flush()

    def stop(self):
        self.server.shutdown()
