"""The tokens of a model file."""

import struct
from dataclasses import dataclass

# Types of values in a GGUF file, with their formats. 8 is a string and 9 an array.
# Source: docs/gguf.md of ggml.
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


@dataclass
class Vocabulary:
    """The tokens, and the one that ends a reply."""

    tokens: list
    end: int

    def bytes_of(self, token: int) -> bytes:
        return self.tokens[token]


def read_vocabulary(path: str) -> Vocabulary:
    """Reads the tokens of a model file with byte-level BPE."""
    with open(path, "rb") as file:
        entries = read_entries(file)
    assert entries["tokenizer.ggml.model"] == b"gpt2", "the tokenizer is not byte-level BPE"
    letters = byte_letters()
    spelled = [token.decode() for token in entries["tokenizer.ggml.tokens"]]
    # Control tokens are not spelled with the letters for bytes.
    kinds = entries["tokenizer.ggml.token_type"]
    tokens = [
        bytes(letters[letter] for letter in token) if kind == 1 else token.encode()
        for token, kind in zip(spelled, kinds)
    ]
    return Vocabulary(tokens, entries["tokenizer.ggml.eos_token_id"])


def read_entries(file) -> dict:
    magic, _version, _tensors, count = struct.unpack("<4sIQQ", file.read(24))
    assert magic == b"GGUF", "this is no GGUF file"
    entries = {}
    for _ in range(count):
        name = read_text(file).decode()
        entries[name] = read_value(file, read_number(file, "<I"))
    return entries


def read_value(file, kind: int):
    if kind == 8:
        return read_text(file)
    if kind == 9:
        inner, length = read_number(file, "<I"), read_number(file, "<Q")
        return [read_value(file, inner) for _ in range(length)]
    return read_number(file, NUMBERS[kind])


def read_text(file) -> bytes:
    return file.read(read_number(file, "<Q"))


def read_number(file, form: str):
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def byte_letters() -> dict:
    """Returns the bytes for which the letters of byte-level BPE stand."""
    shown = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
