"""The next turns of a conversation: rolecall's Renderer and the package renderers, through its protocol.

    taskset -c 0 python benches/python/bridge.py

Needs rolecall as a release build, renderers and transformers. Both continue the same prompt with the same
sampled ids and tool results for some turns; each turn continues the ids that the turn before returned.
Both get and return lists of ints. The two take turns, conversation by conversation, and their ids are
compared. Each figure is the median of all turns. The second line of each length also reads the lists
about the ids (whose they are, and whether they are content), which rolecall makes when they are first
read.
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
TURNS = 8
REPLY = (
    "<think>\nThe user asks for the weather, so I look it up.\n</think>\n\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>'
)
RESULT = '{"city": "Rome", "temperature": 21.5, "sky": "clear", "wind": {"speed": 12, "from": "north-west"}}'


def converse(renderer, prompt, sampled, is_read):
    """The times of a conversation's turns in seconds, and its last ids."""
    times = []
    for turn in range(TURNS):
        new = [{"role": "tool", "content": RESULT.replace("21.5", f"{turn}.5")}]
        start = time.perf_counter()
        found = renderer.bridge_to_next_turn(prompt, sampled, new, tools=TOOLS)
        if is_read:
            found.message_indices, found.sampled_mask, found.is_content
        times.append(time.perf_counter() - start)
        prompt = found.token_ids
    return times, prompt


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokenizer", type=pathlib.Path, default=SHARED / "tokenizers" / "qwen3" / "tokenizer.json")
    arguments.add_argument("--template", type=pathlib.Path, default=SHARED / "templates" / "trl--qwen3.jinja")
    arguments.add_argument("--rounds", type=int, default=50)
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
        print(f"bridge_to_next_turn: rolecall {rolecall.__version__}, renderers {version('renderers')}, medians of {options.rounds} conversations of {TURNS} turns")
        ratios = {False: [], True: []}
        for words, label in [(0, "short"), (1_500, "2k"), (6_000, "8k"), (24_000, "32k")]:
            text = "What is the weather in Rome?" + " Say it in a few words of your own." * (words // 9)
            sampled = model.session().encode_sampled(REPLY).tolist()
            for is_read in (False, True):
                own, other = [], []
                for number in range(options.rounds):
                    # No two conversations have the same ids.
                    messages = [{"role": "user", "content": f"{number:03}{'ab'[is_read]} {text}"}]
                    prompt = ours.render_ids(messages, tools=TOOLS, add_generation_prompt=True)
                    times, ids = converse(ours, prompt, sampled, is_read)
                    own += times
                    times, their_ids = converse(peer, prompt, sampled, is_read)
                    other += times
                    if ids != their_ids:
                        raise SystemExit(f"{label}: the two give other ids")
                own, other = statistics.median(own), statistics.median(other)
                ratios[is_read].append(other / own)
                print(
                    f"  {label if not is_read else 'lists':>5}: {len(prompt):6} to {len(ids)} ids, "
                    f"rolecall {own * 1e6:8.1f} µs, renderers {other * 1e6:8.1f} µs, {other / own:5.1f} times as fast"
                )
        print(f"  least: {min(ratios[False]):.1f} times as fast, with the lists {min(ratios[True]):.1f} times")


if __name__ == "__main__":
    main()
