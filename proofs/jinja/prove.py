"""Renders the cases of fixtures/jinja with Python's jinja2, set up as transformers does.

Reports every case whose `output` or kind of `error` differs from jinja2's, and a count. Cases whose
`source` says that the expectation is our own output are counted and left out.

    python prove.py [FOLDER]
"""

import json
import pathlib
import sys
from datetime import datetime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "crates/jinja/fuzz"))
import oracle  # noqa: E402

# The current time in `crates/jinja/tests/cases.rs`.
oracle.NOW = datetime(2026, 11, 21, 12, 34, 56)


def sections(path):
    """Reads a case file: sections after lines `--- name`; the last line break belongs to the next line."""
    found, name = {}, None
    with open(path, newline="") as file:
        for line in file.read().split("\n"):
            if line.startswith("--- "):
                name = line[4:]
                found[name] = ""
            elif name is not None:
                found[name] += line + "\n"
    found = {name: body[:-1] for name, body in found.items()}
    if name is not None and found[name].endswith("\n"):
        found[name] = found[name][:-1]
    return found


def judged(case):
    """Describes what is wrong with a case, or returns None."""
    source = json.loads(case["template as JSON"]) if "template as JSON" in case else case["template"]
    found = oracle.rendered(oracle.compiled(source), json.loads(case.get("context", "{}")))
    if "error" in case:
        wanted = case["error"].split(":")[0]
        return None if found.get("error") == wanted else f"expected error {wanted}, jinja2 gives {found}"
    wanted = json.loads(case["output as JSON"]) if "output as JSON" in case else case["output"]
    return None if found.get("text") == wanted else f"expected {wanted!r}, jinja2 gives {found}"


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "fixtures/jinja"
    same, ours, wrong = 0, 0, 0
    for path in sorted(folder.rglob("*.case")):
        case = sections(path)
        if "analysis" in case or "our own output" in case.get("source", ""):
            ours += 1
            continue
        difference = judged(case)
        if difference:
            wrong += 1
            print(f"{path.relative_to(folder)}: {difference}")
        else:
            same += 1
    print(f"{same} cases equal jinja2's output, {ours} are our own output by their source, {wrong} differ")
    if same == 0:
        print(f"FAILED: no case was compared in {folder}")
    return wrong > 0 or same == 0


if __name__ == "__main__":
    sys.exit(main())
