"""Renders random templates and contexts with this crate and with Python's jinja2, and prints the differences.

    cargo build --release -p rolecall-jinja --example render_lines
    python crates/jinja/fuzz/differential.py PATH/TO/render_lines [seconds] [seed]

To reproduce a difference, pass its seed: `differential.py PATH 0.01 SEED`. Add each finding as a case in fixtures/jinja/.
"""
import collections
import json
import random
import re
import resource
import signal
import subprocess
import sys
import time

import oracle
from typed import Typed
from wild import Wild

# The number of contexts for each template.
CONTEXTS = 3

# Python output that contains an address, or the name of a class that exists only there.
UNSTABLE = re.compile(r" at 0x[0-9a-f]+|0x[0-9a-z]{10,}|<(generator|list_reverse|built-in|function|bound|list_reverse|Undefined|reversed|range_iter|dict_\w*iter|Template|jinja2|__main__|oracle|namespace)|object at|<Namespace|<Macro|<method|complex|\dj\)", re.I)


def same(ours, theirs):
    if "text" in ours and "text" in theirs:
        return ours["text"] == theirs["text"] or bool(UNSTABLE.search(theirs["text"])) or bool(UNSTABLE.search(ours["text"]))
    if "error" in ours and (ours["error"] == "unsupported" or ours["error"].startswith("limit")):
        return True
    if re.match("TimeoutError|MemoryError", theirs.get("message", "")):
        return True
    # jinja2 evaluates constants at compile time: their errors are raised early, and operands skipped by `and` are never looked up.
    messages = ours.get("message", "") + theirs.get("message", "")
    if re.search(r"subscriptable|unhashable|named `\w+\.|str to write", messages):
        return True
    if "error" in ours and "error" in theirs:
        return ours["error"] == theirs["error"]
    # Python cannot compile constants that are not finite, nor some nested brackets.
    return bool(re.search(r"NameError|too many nested parentheses|RecursionError|complex|too many statically|exceeds the limit|invalid decimal", theirs.get("message", "")))


def give_up(*_):
    raise TimeoutError("Python took too long")


def outcome(ours, theirs):
    if "text" in ours and "text" in theirs:
        return "rendered by both"
    if "error" in ours and (ours["error"] == "unsupported" or ours["error"].startswith("limit")):
        return f"{ours['error']} here"
    return "refused by both" if "error" in ours and "error" in theirs else "known to differ"


def main():
    binary = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    engine = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # A text that doubles in each loop pass hits a limit of this engine, but not of Python.
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    signal.signal(signal.SIGALRM, give_up)
    start = time.time()
    templates = differences = 0
    outcomes = collections.Counter()
    while time.time() - start < seconds:
        rng = random.Random(seed)
        grammar = Wild(rng) if rng.random() < 0.15 else Typed(rng)
        source = grammar.template()
        templates += 1
        template = oracle.compiled(source)
        for _ in range(CONTEXTS):
            context = grammar.context()
            engine.stdin.write((json.dumps({"template": source, "context": context}) + "\n").encode())
            engine.stdin.flush()
            line = engine.stdout.readline()
            if not line:
                print("DIED", seed, repr(source), json.dumps(context))
                return 1
            ours = json.loads(line)
            signal.alarm(5)
            theirs = oracle.rendered(template, context)
            signal.alarm(0)
            if same(ours, theirs):
                outcomes[outcome(ours, theirs)] += 1
                continue
            differences += 1
            print(f"--- seed {seed}\n{source!r}\n{json.dumps(context)}\n  python {json.dumps(theirs)[:600]}\n  ours   {json.dumps(ours)[:600]}", flush=True)
            break
        seed += 1
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
    print(f"{templates} templates in {time.time() - start:.0f} s, {differences} differences; renderings: {counts}; next seed {seed}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
