"""A short `encode` call in Python, and the same call in Rust.

    cargo build --release -p rolecall-benches --example call
    taskset -c 0 python benches/python/call.py path/to/model target/release/examples/call

The Rust call gets a request that was read before; the Python call also reads the messages and returns an
object. Each figure is the least of several rounds, because other programs only make a run slower.
"""

import subprocess
import sys
import time

import rolecall

ROUNDS, CALLS = 15, 2_000
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def main(folder, program):
    encode = rolecall.load(folder).encode
    least = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(CALLS):
            encode(MESSAGES)
        least = min(least, (time.perf_counter() - begun) / CALLS)
    rust = float(subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout)
    python = least * 1e6
    print(f"Python {python:.2f} us, Rust {rust:.2f} us: {python - rust:.2f} us more for the call from Python")


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 3 else sys.exit(__doc__)
