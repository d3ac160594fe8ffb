"""Compares `rolecall.data.encode` over Arrow with the Rust batch over JSON lines, and two threads with one.

    cargo run --release -p rolecall-benches --example conversations -- 30000000 > chats.jsonl
    cargo build --release -p rolecall-benches --example rows
    python benches/python/data.py path/to/model chats.jsonl target/release/examples/rows

Needs the package (built in release mode) and pyarrow. The Rust batch parses the JSON text of each row;
the Python package reads the columns of a table in memory. Runs alternate, and the fastest of each are
compared, because other programs on the machine only make a run slower.
"""

import json
import subprocess
import sys
import time

import pyarrow
import pyarrow.compute
import rolecall
from rolecall.data import encode

RUNS = 15


def python_seconds(table, model, threads):
    begun = time.perf_counter()
    columns = encode(table, model, threads=threads)
    took = time.perf_counter() - begun
    assert columns.column("error").null_count == table.num_rows
    return took, pyarrow.compute.sum(columns.column("length")).as_py()


def rust_seconds(program, folder, chats, threads):
    # The first run also fills the tokenizer's caches, as it does in Python.
    out = subprocess.run([program, folder, chats, str(threads), "2"], check=True, capture_output=True, text=True).stdout
    seconds, tokens = out.splitlines()[-1].split()
    return float(seconds), int(tokens)


def main(folder, chats, program):
    with open(chats, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    table = pyarrow.Table.from_pylist(rows)
    model = rolecall.load(folder)
    python_seconds(table, model, 1)
    times = {(who, threads): [] for who in ("python", "rust") for threads in (1, 2)}
    for _ in range(RUNS):
        for threads in (1, 2):
            took, tokens = python_seconds(table, model, threads)
            times["python", threads].append(took)
            took, others = rust_seconds(program, folder, chats, threads)
            times["rust", threads].append(took)
            assert tokens == others, "both must make the same ids"
    best = {key: min(values) for key, values in times.items()}
    print(f"{len(rows):,} conversations, {tokens:,} ids; the fastest of {RUNS} runs")
    for threads in (1, 2):
        python, rust = best["python", threads], best["rust", threads]
        print(f"{threads} threads: Python {python:.3f} s, Rust {rust:.3f} s: {rust / python:.1%} of the Rust batch's speed")
    print(f"two threads are {best['python', 1] / best['python', 2]:.2f} times as fast as one")


if __name__ == "__main__":
    main(*sys.argv[1:])
