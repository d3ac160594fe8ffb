"""A real engine: llama.cpp's server from the package xllamacpp, in a process of its own.

    python engine.py MODEL.gguf

It prints its address, and ends when its standard input does.
"""

import subprocess
import sys


def main(path: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 32768
    params.n_parallel = 4
    # Threads that wait for one another in a loop would take the processors from the tests.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


class Engine:
    """The engine's process."""

    def __init__(self, path: str):
        command = [sys.executable, __file__, path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http"), "the engine did not start"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
