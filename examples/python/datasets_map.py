"""Encodes a dataset of Hugging Face's `datasets` for TRL's `SFTTrainer`.

    python examples/python/datasets_map.py path/to/model chats.jsonl encoded

The dataset on disk has the columns `input_ids` and `labels`, so the trainer takes it as it is.
"""

import sys

import datasets
import pyarrow.compute
import rolecall
from rolecall.data import encoder


def encode(dataset: datasets.Dataset, model: rolecall.Model, **options) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Returns the encoded rows, and the rows that have an error."""
    # Arrow tables go in and out, so that no text becomes a Python object.
    encoded = dataset.with_format("arrow").map(
        encoder(model, columns="trl", **options), batched=True, remove_columns=dataset.column_names
    )

    def with_ids(table):
        return pyarrow.compute.is_valid(table.column("input_ids"))

    def without_ids(table):
        return pyarrow.compute.is_null(table.column("input_ids"))

    good = encoded.filter(with_ids, batched=True).select_columns(["input_ids", "labels"])
    bad = encoded.filter(without_ids, batched=True).select_columns(["row", "error"])
    return good.with_format(None), bad.with_format(None)


def main(folder: str, chats: str, output: str) -> None:
    good, bad = encode(datasets.Dataset.from_json(chats), rolecall.load(folder), max_tokens=4096)
    for row in bad:
        print(f"{row['error']['code']}: {row['error']['message']}", file=sys.stderr)
    print(f"{len(good)} conversations, {len(bad)} refused")
    good.save_to_disk(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
