"""Tries grammars on the libraries that they are written for.

The input is cases of fixtures/grammar (a grammar in three languages, texts that it accepts and texts
that it rejects), lines of JSON with the same contents, as `grammar_cases` prints them, and a
tokenizer.json; the default is a tokenizer with a token for each byte. The output is every text that a
library judges differently, and a count.

    python prove.py [--tokenizer FILE] [--cases DIR] [--lines FILE]
    python prove.py [--tokenizer FILE] --added    prints the tokens to pass to `grammar_cases`, one per line
"""

import argparse
import json
import pathlib
import sys
import types


class Absent(types.ModuleType):
    """A stub for a library that xgrammar imports but does not need to match texts."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **named: None})


def import_xgrammar():
    import tvm_ffi  # noqa: F401  looks for torch itself, and works without it

    for name in ("torch", "transformers"):
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = Absent(name)
    import xgrammar

    return xgrammar


xgrammar = import_xgrammar()
import llguidance  # noqa: E402


class Broken(Exception):
    """A library rejects the grammar itself."""


def structural_tag(case, _tokenizer):
    try:
        grammar = xgrammar.Grammar.from_structural_tag(json.loads(case["structural-tag"]))
    except Exception as error:
        raise Broken(str(error)) from error
    return lambda text: matched_by_xgrammar(grammar, text)


def gbnf(case, _tokenizer):
    try:
        grammar = xgrammar.Grammar.from_ebnf(case["gbnf"])
    except Exception as error:
        raise Broken(str(error)) from error
    return lambda text: matched_by_xgrammar(grammar, text)


def matched_by_xgrammar(grammar, text):
    matcher = xgrammar.testing._get_matcher_from_grammar(grammar)
    return bool(matcher.accept_string(text)) and bool(matcher.is_completed())


def lark(case, tokenizer):
    # A token that is not a tag is named by its id. If the grammar does not name it, it stays text.
    named = [token for token in case.get("tokens", []) if "<[" in case["lark"] or token[0] + token[-1] == "<>"]
    tokens = tokenizer.with_tokens(named)
    wrong = llguidance.LLMatcher.validate_grammar(case["lark"], tokens)
    if wrong:
        raise Broken(wrong)

    def matched(text):
        matcher = llguidance.LLMatcher(tokens, case["lark"])
        if matcher.is_error():
            raise Broken(matcher.get_error())
        # Text that spells a control token is the token, because this is a model's output.
        ids = tokens.tokenize_str(text, parse_special=True)
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    return matched


class Tokenizers:
    """A tokenizer extended with the control tokens of each case."""

    def __init__(self, path):
        self.file = json.loads(pathlib.Path(path).read_text()) if path else of_bytes()
        self.known = {}

    def with_tokens(self, tokens):
        key = tuple(sorted(tokens))
        if key not in self.known:
            file = json.loads(json.dumps(self.file))
            added = file["added_tokens"]
            there = {token["content"] for token in added}
            number = max([token["id"] for token in added] + list(file["model"]["vocab"].values())) + 1
            for token in tokens:
                if token not in there:
                    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
                    added.append(dict(id=number, content=token, **flags))
                    number += 1
            self.known[key] = llguidance.LLTokenizer(json.dumps(file))
        return self.known[key]


def of_bytes():
    """Returns a tokenizer with a token for each byte, and one that ends a text."""
    shown = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
    vocabulary = {letters[byte]: byte for byte in range(256)}
    return dict(
        version="1.0",
        added_tokens=[dict(id=256, content="<|endoftext|>", **flags)],
        pre_tokenizer=level,
        decoder=level,
        model=dict(type="BPE", vocab=vocabulary, merges=[]),
    )


def read_case(path):
    """Reads a case file: sections after lines `--- name`."""
    sections, name = {}, None
    for line in path.read_text().split("\n"):
        if line.startswith("--- "):
            name = line[4:]
            sections[name] = []
        elif name is not None:
            sections[name].append(line)
    case = {name: "\n".join(lines).rstrip("\n") for name, lines in sections.items()}
    for name in ("accepts", "refuses"):
        case[name] = [json.loads(line) for line in case.get(name, "").split("\n") if line]
    # Engines whose schema support differs from the others on purpose.
    case["leaves-out"] = json.loads(case.get("leaves-out", "[]"))
    case["tokens"] = json.loads(case.get("tokens", "[]"))
    case["name"] = str(path)
    return case


def read_cases(arguments):
    if arguments.cases:
        paths = sorted(pathlib.Path(arguments.cases).rglob("*.case"))
        yield from (case for case in map(read_case, paths) if "gbnf" in case)
    if arguments.lines:
        with open(arguments.lines) as lines:
            yield from map(json.loads, lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer")
    parser.add_argument("--added", action="store_true")
    parser.add_argument("--cases")
    parser.add_argument("--lines")
    arguments = parser.parse_args()
    tokenizer = Tokenizers(arguments.tokenizer)
    if arguments.added:
        print(*(token["content"] for token in tokenizer.file["added_tokens"]), sep="\n")
        return False
    engines = {"xgrammar structural tag": structural_tag, "xgrammar GBNF": gbnf, "llguidance Lark": lark}
    taken = dict.fromkeys(engines, 0)
    refused = dict.fromkeys(engines, 0)
    wrong = 0
    for case in read_cases(arguments):
        for name, engine in engines.items():
            if name in case.get("leaves-out", []):
                continue
            try:
                matches = engine(case, tokenizer)
                for texts, wanted, counts in [(case["accepts"], True, taken), (case["refuses"], False, refused)]:
                    for text in texts:
                        counts[name] += 1
                        if matches(text) != wanted:
                            wrong += 1
                            print(f"{case['name']}: {name} {'rejects' if wanted else 'accepts'} {text!r}")
            except Broken as error:
                wrong += 1
                print(f"{case['name']}: {name} rejects the grammar: {str(error)[:400]}")
    for name in engines:
        print(f"{name}: {taken[name]} texts to accept, {refused[name]} to reject")
    print(f"{sum(taken.values()) + sum(refused.values()) - wrong} passed, {wrong} failed")
    idle = [name for name in engines if not taken[name] or not refused[name]]
    if idle:
        print(f"FAILED: nothing was compared with {', '.join(idle)}")
    return wrong > 0 or bool(idle)


if __name__ == "__main__":
    sys.exit(main())
