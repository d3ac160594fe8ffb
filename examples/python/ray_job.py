"""A long job with Ray Data that survives being killed: run it again, and it does what is left.

    python examples/python/ray_job.py make chats 200000 100
    python examples/python/ray_job.py run path/to/model chats encoded
    python examples/python/ray_job.py check chats encoded

The dataset is a folder of Parquet files. Each becomes one file of the output, which gets its name only
when it is complete. A killed worker is replaced by Ray, which repeats its task. If the whole job is
killed, the next run skips the files that are complete, so every row is in the output exactly once. Each
task holds one batch of rows and one of results, whatever the size of the dataset.
"""

import collections
import os
import pathlib
import random
import resource
import sys
import time

import pyarrow
import pyarrow.compute
import pyarrow.parquet
from rolecall.data import Progress, encoder

ROWS_PER_BATCH = 500


def make(folder: str, count: int, bad: int, rows_per_file: int = 5000) -> None:
    """Writes a dataset in which `bad` rows have a message without a role, or no messages."""
    words = "the of and a to in is you that it he was for on are as with his they at be this have from or".split()
    generator = random.Random(7)
    wrong = set(generator.sample(range(count), bad))
    turns = pyarrow.list_(pyarrow.struct({"role": pyarrow.string(), "content": pyarrow.string()}))
    schema = pyarrow.schema({"id": pyarrow.int64(), "messages": turns})
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for start in range(0, count, rows_per_file):
        rows = []
        for number in range(start, min(start + rows_per_file, count)):
            said = [" ".join(generator.choices(words, k=generator.randint(5, 60))) for _ in range(4)]
            roles = ["user", "assistant"] * 2
            messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
            if number in wrong:
                messages = [] if number % 2 else [{"role": None, "content": "no role"}]
            rows.append({"id": number, "messages": messages})
        table = pyarrow.Table.from_pylist(rows, schema)
        pyarrow.parquet.write_table(table, f"{folder}/part-{start // rows_per_file:05}.parquet")


class EncodeFile:
    """Encodes one file of the dataset. Ray sends it to its workers."""

    def __init__(self, encode, output: str):
        self.encode, self.output = encode, output

    def __call__(self, batch):
        results = [self.encode_file(path) for path in batch["path"]]
        return {name: [result[name] for result in results] for name in results[0]}

    def encode_file(self, path: str) -> dict:
        done = pathlib.Path(self.output, pathlib.Path(path).name)
        # A task that Ray repeats must not collide with what is left of its first attempt.
        open_file = done.with_suffix(f".{os.getpid()}.open")
        counts = collections.Counter()
        writer = None
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(ROWS_PER_BATCH):
            columns = self.encode(batch)
            writer = writer or pyarrow.parquet.ParquetWriter(open_file, columns.schema)
            writer.write_batch(columns)
            counts["rows"] += batch.num_rows
            counts["refused"] += columns.num_rows - columns.column("error").null_count
            counts["tokens"] += pyarrow.compute.sum(columns.column("length")).as_py() or 0
        writer.close()
        os.replace(open_file, done)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return {"path": path, "peak_mb": peak, **counts}


def run(folder: str, chats: str, output: str, workers: int = 2) -> None:
    """Encodes the files that the output does not have yet."""
    import ray
    import rolecall

    pathlib.Path(output).mkdir(parents=True, exist_ok=True)
    for left in pathlib.Path(output).glob("*.open"):
        left.unlink()
    paths = [path for path in sorted(pathlib.Path(chats).glob("*.parquet")) if not pathlib.Path(output, path.name).exists()]
    print(f"{len(paths)} files to encode", flush=True)
    if not paths:
        return
    ray.init(num_cpus=workers, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    encode_file = EncodeFile(encoder(rolecall.load(folder), max_tokens=4096), str(pathlib.Path(output).resolve()))
    files = ray.data.from_items([{"path": str(path.resolve())} for path in paths], override_num_blocks=len(paths))
    line, peak = Progress(), 0
    for result in files.map_batches(encode_file, batch_size=1, batch_format="numpy", num_cpus=1).iter_rows():
        peak = max(peak, result["peak_mb"])
        line.add(result)
    line.end()
    print(f"at most {peak} MB in a worker")


def check(chats: str, output: str) -> dict:
    """Counts how often each row of the dataset is in the output."""
    rows, refused = collections.Counter(), 0
    for path in sorted(pathlib.Path(output).glob("*.parquet")):
        table = pyarrow.parquet.read_table(path, columns=["id", "ids", "error"])
        rows.update(int(number) for number in table.column("id").to_pylist())
        failed = table.num_rows - table.column("error").null_count
        assert failed == table.column("ids").null_count, f"{path}: a row has neither ids nor an error"
        refused += failed
    expected = sum(pyarrow.parquet.read_metadata(path).num_rows for path in pathlib.Path(chats).glob("*.parquet"))
    found = {
        "rows": expected,
        "once": sum(count == 1 for count in rows.values()),
        "several_times": sum(count > 1 for count in rows.values()),
        "missing": expected - len(rows),
        "refused": refused,
    }
    print(found)
    return found


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    begun = time.monotonic()
    if command == "make":
        make(arguments[0], *map(int, arguments[1:]))
    else:
        {"run": run, "check": check}[command](*arguments)
    print(f"{time.monotonic() - begun:.1f} s")
