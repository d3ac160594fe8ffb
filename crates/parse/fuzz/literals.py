"""Texts in Python's literal syntax, valid and damaged, and the values that Python itself reads from them.

    python3 crates/parse/fuzz/literals.py 700 > fixtures/values/python.jsonl

The first line names the version of Python. Each other line has a `kind` (`value`: `ast.literal_eval`;
`arguments`: the text between the parentheses of a call), a `text`, and a `value` as `json.dumps` writes
it, unless Python refuses the text or JSON cannot express the value. Texts for which the parser
deliberately differs are left out: comments, line continuations, signs before parentheses, tuples without
parentheses, adjacent strings outside of other values (such a value ends with its quote), and `\\/`, which
is a slash in a value that may be JSON.
"""

import ast
import io
import json
import random
import re
import sys
import tokenize
import warnings

warnings.simplefilter("ignore")
rng = random.Random(7)
NUMBERS = """0 1 -3 +3 1_000 0x1f 0X_ff 0o17 0b101 1. -.5 .5 1e5 1E+05 -1.5e-3 1_0.0_1e1_0 00 0_0 007.5 12345678901234567890123
1e4 -0 3.14 0.0 1.50""".split() + ["- 3"]
PARTS = ["a", "Oslo", "é", "😀", " ", "\t", "{", "}", ")", "(", ",", "=", "#", "</tool_call>"] + [
    "\\" + escape
    for escape in ["n", "t", "\\", "'", '"', "x41", "xe9", "u00e9", "u4e0a", "U0001F600", "101", "0", "12", "7x", "q", "d+", "a"]
    + ["b", "f", "v", "r", "\n"]
]
DAMAGE = list("'\",)([]{}x01=:+-*\\_.\nj ")


def string():
    quote = rng.choice(["'", "'", '"', '"', "'''", '"""'])
    parts = PARTS + ['"' if quote[0] == "'" else "'"]
    parts += ["\n", "\n\n", quote[0] + "x"] if len(quote) == 3 else []
    body = "".join(rng.choice(parts) for _ in range(rng.randint(0, 6)))
    return rng.choice([""] * 8 + ["r", "u", "R", "U"]) + quote + body + quote


def strings():
    text = string()
    for _ in range(rng.choice([0] * 6 + [1, 2])):
        text += rng.choice(["", " "]) + string().lstrip("rRuU")
    return text


def space(depth):
    return rng.choice(["", "", "", " ", "  "] + (["\n", "\t"] if depth else []))


def value(levels, depth):
    kind = rng.randint(0, 11) % (12 if levels else 6)
    if kind < 2:
        return strings()
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 6:
        return rng.choice(["True", "False", "None"])
    items = []
    for _ in range(rng.randint(0, 3)):
        item = space(1) + value(levels - 1, depth + 1) + space(1)
        if kind in (8, 9):
            key = strings() if rng.random() < 0.8 else rng.choice(["1", "-2", "1.5", "None", "False"])
            item = space(1) + key + space(1) + ":" + item
        items.append(item)
    text = ",".join(items) + ("," if items and rng.random() < 0.25 else "") + space(1)
    return {6: "[%s]", 7: "[%s]", 8: "{%s}", 9: "{%s}"}.get(kind, "(%s)") % text


def arguments():
    parts = []
    for name in rng.sample(["city", "days", "n", "deep", "x_1", "größe", "_a"], rng.randint(0, 4)):
        chance = rng.random()
        if chance < 0.1:
            parts.append("**{'a-%d': %s}" % (rng.randint(0, 9), value(2, 1)))
        elif chance < 0.13:
            parts.append("**{}")
        else:
            parts.append(space(1) + name + space(1) + "=" + space(1) + value(3, 1) + space(1))
    return ",".join(parts) + ("," if parts and rng.random() < 0.1 else "")


def damaged(text):
    at = rng.randrange(len(text)) if text else 0
    return text[:at] + rng.choice(["", rng.choice(DAMAGE)]) + text[at + rng.choice([0, 1]) :]


def read(kind, text):
    if kind == "value":
        return dumped(ast.literal_eval(text))
    call = ast.parse("f(" + text + ")", mode="eval").body
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        raise ValueError
    found = {}
    for keyword in call.keywords:
        given = ast.literal_eval(keyword.value)
        found.update(given if keyword.arg is None else {keyword.arg: given})
    return dumped(found)


def dumped(found):
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    text.encode()
    return json.loads(text)


def is_left_out(kind, text):
    source = text if kind == "value" else "f(" + text + ")"
    try:
        top = ast.parse(source, mode="eval").body
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except Exception:
        return False
    strings = [token.string for token in tokens if token.type == tokenize.STRING]
    bare = source
    for string in strings:
        bare = bare.replace(string, "", 1)
    if "\\\n" in bare or re.search(r"[-+]\s*\(", bare) or any(token.type == tokenize.COMMENT for token in tokens):
        return True
    if kind == "arguments":
        return False
    if "\\/" in text:
        return True
    is_bare_tuple = isinstance(top, ast.Tuple) and top.col_offset > 0 or text[-1] != ")" and isinstance(top, ast.Tuple)
    return is_bare_tuple or isinstance(top, ast.Constant) and len(strings) > 1


def emit(kind, text, seen):
    text = text.strip(" \t\n") if kind == "value" else text
    if (kind, text) in seen or len(text) > 160 or is_left_out(kind, text):
        return
    seen.add((kind, text))
    row = {"kind": kind, "text": text}
    try:
        row["value"] = read(kind, text)
    except Exception as fault:
        if "Out of range float" in str(fault):
            return
    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    print(json.dumps({"kind": "meta", "source": "CPython " + sys.version.split()[0] + ", ast.literal_eval and ast.parse"}))
    seen = set()
    for _ in range(int(sys.argv[1])):
        for kind, text in ("value", value(3, 0)), ("arguments", arguments()):
            emit(kind, text, seen)
            emit(kind, damaged(text), seen)
