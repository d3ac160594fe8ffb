"""The peer with sessions, timed in its own process.

Reads a job, then orders, and answers each line with a line. The action `answer` returns the ids
that follow a reply; `time` makes them a number of times and returns the time taken.
"""

import importlib.metadata
import json
import platform
import sys
import time

import transformers
from renderers import Qwen3Renderer

job = json.loads(sys.stdin.readline())
tokenizer = transformers.AutoTokenizer.from_pretrained(job["tokenizer"])
renderer = Qwen3Renderer(tokenizer)
versions = f"renderers {importlib.metadata.version('renderers')}, Python {platform.python_version()}"
print(json.dumps({"versions": versions}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    case = job["cases"][order["case"]]
    prompt, completion, new, tools = case["prompt"], case["completion"], case["new"], case["tools"]
    if order["action"] == "answer":
        made = renderer.bridge_to_next_turn(prompt, completion, new, tools=tools)
        ids = list(made.token_ids)[len(prompt) + len(completion) :]
        print(json.dumps(ids), flush=True)
        continue
    start = time.perf_counter_ns()
    for _ in range(order["times"]):
        renderer.bridge_to_next_turn(prompt, completion, new, tools=tools)
    print(time.perf_counter_ns() - start, flush=True)
