"""What it costs to send a model to a worker: its pickle, and each later one that the worker gets.

    python benches/python/pickle_model.py path/to/model [path/to/model ..]

Prints the size of the pickle, the first `loads` in a process that does not have the model, and the median
of later ones, with the content inside the pickle and out of band (protocol 5). Needs only the package.
"""

import multiprocessing
import pickle
import statistics
import sys
import time

import rolecall

ROUNDS = 50


def seconds(call, rounds=ROUNDS):
    """The first time of a call, and the median of the others."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return times[0], statistics.median(times[1:] or times)


def receive(inside, outside, buffers):
    """Runs in a new process."""
    first, later = seconds(lambda: pickle.loads(inside))
    _, apart = seconds(lambda: pickle.loads(outside, buffers=buffers))
    return first, later, apart


def main(paths):
    for path in paths:
        model = rolecall.load(path)
        model.stop_ids()
        (dumped, again) = seconds(lambda: pickle.dumps(model, 5))
        buffers = []
        inside, outside = pickle.dumps(model, 5), pickle.dumps(model, 5, buffer_callback=buffers.append)
        buffers = [bytes(buffer) for buffer in buffers]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            first, later, apart = pool.apply(receive, (inside, outside, buffers))
        print(
            f"{path}: {len(inside) / 1e6:.1f} MB; dumps {dumped * 1e3:.0f} ms, again {again * 1e3:.2f} ms; "
            f"loads {first * 1e3:.0f} ms, again {later * 1e3:.3f} ms, out of band {apart * 1e3:.4f} ms"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
