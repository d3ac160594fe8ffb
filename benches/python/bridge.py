"""The next turn of a conversation: rolecall's Renderer and the package renderers, through its protocol.

    taskset -c 0 python benches/python/bridge.py

Needs rolecall as a release build, renderers and transformers. Both continue the same ids with the same
tool result, and both get and return lists of ints. Each figure is the median of the rounds, in which the
two take turns; the results are compared first.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time
from importlib.metadata import version

import rolecall
from rolecall.renderers import Renderer

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
REPLY = (
    "<think>\nThe user asks for the weather, so I look it up.\n</think>\n\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>'
)
RESULT = '{"city": "Rome", "temperature": 21.5, "sky": "clear", "wind": {"speed": 12, "from": "north-west"}}'


def median(calls, rounds):
    """The medians of calls that take turns, in seconds."""
    times = [[] for _ in calls]
    for _ in range(rounds):
        for call, own in zip(calls, times):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokenizer", type=pathlib.Path, default=SHARED / "tokenizers" / "qwen3" / "tokenizer.json")
    arguments.add_argument("--template", type=pathlib.Path, default=SHARED / "templates" / "trl--qwen3.jinja")
    arguments.add_argument("--rounds", type=int, default=300)
    options = arguments.parse_args()

    from renderers.qwen3 import Qwen3Renderer
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(options.tokenizer), eos_token="<|im_end|>")
    peer = Qwen3Renderer(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_bytes(options.tokenizer.read_bytes())
        (folder / "chat_template.jinja").write_bytes(options.template.read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
        model = rolecall.load(folder)
        ours = Renderer(model)
        print(f"bridge_to_next_turn: rolecall {rolecall.__version__}, renderers {version('renderers')}, medians of {options.rounds}")
        ratios = []
        for words, label in [(0, "short"), (1_500, "2k"), (6_000, "8k"), (24_000, "32k")]:
            text = "What is the weather in Rome?" + " Say it in a few words of your own." * (words // 9)
            messages = [{"role": "user", "content": text}]
            prompt = ours.render_ids(messages, tools=TOOLS, add_generation_prompt=True)
            sampled = model.session().encode_sampled(REPLY).tolist()
            new = [{"role": "tool", "content": RESULT}]
            found = ours.bridge_to_next_turn(prompt, sampled, new, tools=TOOLS)
            theirs = peer.bridge_to_next_turn(prompt, sampled, new, tools=TOOLS)
            if found.token_ids != theirs.token_ids:
                raise SystemExit(f"{label}: the two give other ids")
            own, other = median(
                [
                    lambda: ours.bridge_to_next_turn(prompt, sampled, new, tools=TOOLS),
                    lambda: peer.bridge_to_next_turn(prompt, sampled, new, tools=TOOLS),
                ],
                options.rounds,
            )
            ratios.append(other / own)
            print(
                f"  {label:>5}: {len(prompt):6} + {len(sampled)} ids, rolecall {own * 1e6:8.1f} µs, "
                f"renderers {other * 1e6:8.1f} µs, {other / own:5.1f} times as fast"
            )
        print(f"  least: {min(ratios):.1f} times as fast")


if __name__ == "__main__":
    main()
