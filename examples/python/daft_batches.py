"""Encodes a dataset with Daft.

    python examples/python/daft_batches.py path/to/model 'chats/*.parquet' encoded
"""

import sys

import daft
import rolecall
from rolecall.data import encode


def encoded(frame: daft.DataFrame, model: rolecall.Model, **options) -> daft.DataFrame:
    """Returns the encoded rows. Partitions are read and encoded one after the other."""
    tables = (encode(batch, model, **options) for batch in frame.to_arrow_iter())
    return daft.from_arrow(list(tables))


def main(folder: str, chats: str, output: str) -> None:
    encoded(daft.read_parquet(chats), rolecall.load(folder), max_tokens=4096).write_parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
