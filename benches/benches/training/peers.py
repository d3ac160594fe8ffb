"""The peers that make ids and training masks, timed in their own process.

Reads a job, then orders, and answers each line with a line. The action `answers` returns the ids
and masks of all conversations; `time` makes those of one group and returns the time taken.
"""

import importlib.metadata
import json
import platform
import sys
import time

import transformers

job = json.loads(sys.stdin.readline())
tokenizer = transformers.AutoTokenizer.from_pretrained(job["tokenizer"])
template, switches, groups = job["template"], job["switches"], job["groups"]


def by_tag(messages, tools):
    """The mask of the template's `{% generation %}` blocks."""
    made = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        chat_template=template,
        return_dict=True,
        return_assistant_tokens_mask=True,
        **switches,
    )
    return made["input_ids"], made["assistant_masks"]


def encode(messages, tools, add_generation_prompt=False):
    return tokenizer.apply_chat_template(
        messages,
        tools=tools,
        chat_template=template,
        add_generation_prompt=add_generation_prompt,
        return_dict=False,
        **switches,
    )


def by_turns(messages, tools):
    """Renders up to each reply, without and with it: what trainers do for templates without tags."""
    ids = encode(messages, tools)
    mask = [0] * len(ids)
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            start = len(encode(messages[:at], tools, add_generation_prompt=True))
            # The last rendering is that of the whole conversation.
            end = len(encode(messages[: at + 1], tools)) if at + 1 < len(messages) else len(ids)
            mask[start:end] = [1] * (end - start)
    return ids, mask


versions = f"transformers {transformers.__version__}, Python {platform.python_version()}"
peers = {"by tag": by_tag, "by turns": by_turns}
try:
    from renderers import Qwen3Renderer, build_training_sample

    renderer = Qwen3Renderer(tokenizer)

    def by_class(messages, tools):
        """The mask of a renderer that was written by hand for one family."""
        made = build_training_sample(renderer, messages, tools=tools)
        return made.token_ids, made.loss_mask

    peers["renderers"] = by_class
    versions += f", renderers {importlib.metadata.version('renderers')}"
except ImportError:
    pass
print(json.dumps({"versions": versions, "peers": list(peers)}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    run = peers[order["peer"]]
    if order["action"] == "answers":
        made = [run(one["messages"], one["tools"]) for group in groups for one in group]
        print(json.dumps([{"ids": list(ids), "mask": [int(is_in) for is_in in mask]} for ids, mask in made]), flush=True)
        continue
    group = groups[order["group"]]
    start = time.perf_counter_ns()
    for one in group:
        run(one["messages"], one["tools"])
    print(time.perf_counter_ns() - start, flush=True)
