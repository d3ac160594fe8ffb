"""A small model for the examples: a chat template and a tokenizer, and no weights.

It stands for the folder of a real model, so that the examples run without a download::

    python examples/small_model.py path/to/model
"""

import json
import pathlib
import sys

#: Frequent words get a token of their own. All other text is encoded as single bytes.
WORDS = """
    user assistant system tool Hello Hi What Which is are the The weather in Oslo Paris London city and of you it a an
    I can will look help how today tomorrow sunny rain degrees name arguments get_weather type function answer question
    content string object parameters properties required description please thanks Thanks You will be for to with
""".split()

CONTROL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|endoftext|>"]

CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}
Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call> to call one.<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "assistant" %}<|im_start|>assistant
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}
{%- if not loop.first or message.content %}{{ "\\n" }}{% endif -%}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def byte_letters():
    """Return the character that byte-level tokenizers write for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + at) for at, byte in enumerate(others)}}


def tokenizer_json():
    """Return the tokenizer as the content of a ``tokenizer.json``."""
    letters = byte_letters()
    vocabulary = {letter: at for at, letter in enumerate(letters.values())}
    merges = []
    for word in WORDS:
        for text in (word, " " + word):
            text = "".join(letters[byte] for byte in text.encode())
            for end in range(2, len(text) + 1):
                if text[:end] not in vocabulary:
                    merges.append(f"{text[:end - 1]} {text[end - 1]}")
                    vocabulary[text[:end]] = len(vocabulary)
    added = [
        {"id": len(vocabulary) + at, "content": text, "special": text.startswith("<|"), "normalized": False,
         "lstrip": False, "rstrip": False, "single_word": False}
        for at, text in enumerate(CONTROL)
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges, "ignore_merges": True},
    }


def write(folder):
    """Write the files of the model into a folder, and return the folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
    return folder


if __name__ == "__main__":
    print(write(sys.argv[1]))
