"""A small tokenizer for tests: a token for each character of ASCII, and two control tokens."""

import json
import pathlib

#: The characters, as byte-level tokenizers write them.
LETTERS = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]

#: The control tokens, whose ids follow those of the characters.
CONTROLS = ["<|im_start|>", "<|im_end|>"]

#: The ids of the characters, as byte-level tokenizers write them.
IDS = {letter: at for at, letter in enumerate(LETTERS)}

#: The ids of the control tokens.
START, END = len(LETTERS), len(LETTERS) + 1


def tokenizer_json():
    """The content of the ``tokenizer.json``, with every key that the library ``tokenizers`` writes."""
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(LETTERS) + at, "content": text, **flags} for at, text in enumerate(CONTROLS)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": IDS, "merges": []},
    }  # fmt: skip


def tokenizer_bytes():
    """The same as the bytes of the file."""
    return json.dumps(tokenizer_json()).encode()


def write(folder, template=None):
    """Write a model's folder with this chat template, and return it."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(tokenizer_bytes())
    config = {"eos_token": "<|im_end|>"} | ({"chat_template": template} if template is not None else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def text_of(ids):
    """The text of ids."""
    texts = [*LETTERS[:-2], " ", "\n", *CONTROLS]
    return "".join(texts[token] for token in ids)
