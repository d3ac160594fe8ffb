"""Encodes a dataset with Ray Data, on all machines of a cluster.

    python examples/python/ray_data.py path/to/model chats.parquet encoded

Each worker process has one copy of the model: it is sent once, and found again by its digest.
"""

import sys

import ray
import rolecall
from rolecall.data import encoder


def encode(dataset: ray.data.Dataset, model: rolecall.Model, batch_format: str = "pyarrow", **options):
    """Returns the encoded dataset. Rows with an error have no ids, and say why in `error`."""
    return dataset.map_batches(encoder(model, **options), batch_format=batch_format, batch_size=1000)


def main(folder: str, chats: str, output: str) -> None:
    dataset = encode(ray.data.read_parquet(chats), rolecall.load(folder), max_tokens=4096)
    dataset.write_parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
