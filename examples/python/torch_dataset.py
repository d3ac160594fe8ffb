"""Feeds encoded rows to PyTorch: batches of ids, padded, with labels of -100 where there is no loss.

    python examples/python/torch_dataset.py path/to/model chats.jsonl
"""

import json
import sys

import rolecall
import torch
from rolecall.data import encode


class Samples(torch.utils.data.Dataset):
    """The rows that have ids."""

    def __init__(self, rows, model: rolecall.Model, **options):
        columns = encode(rows, model, columns="trl", **options).to_dict()
        pairs = zip(columns["input_ids"], columns["labels"], strict=True)
        self.samples = [pair for pair in pairs if pair[0] is not None]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, at):
        ids, labels = self.samples[at]
        return {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}


def pad(samples):
    """Pads the samples of a batch to the same length."""
    pad_sequence = torch.nn.utils.rnn.pad_sequence
    ids = [sample["input_ids"] for sample in samples]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        "labels": pad_sequence([sample["labels"] for sample in samples], batch_first=True, padding_value=-100),
    }


def main(folder: str, chats: str) -> None:
    with open(chats, encoding="utf-8") as lines:
        samples = Samples([json.loads(line) for line in lines], rolecall.load(folder), max_tokens=4096)
    for batch in torch.utils.data.DataLoader(samples, batch_size=8, collate_fn=pad):
        print({name: tuple(tensor.shape) for name, tensor in batch.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
