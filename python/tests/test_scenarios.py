"""The scenarios of the makers' documents, in Python: the model's words from a file, functions as tools, a real kernel.

The other doors play the same files: the library, the terminal and the gateway.
"""

import json
import pathlib

import letters
import pytest
import rolecall

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "scenarios"

#: The control tokens of the formats, with their ids.
TOKENS = {
    "internlm2": {"<s>": 1, "</s>": 2, "<|plugin|>": 92538, "<|interpreter|>": 92539, "<|action_end|>": 92540,
                  "<|action_start|>": 92541, "<|im_end|>": 92542, "<|im_start|>": 92543},
    "chatglm3": {"</s>": 2, "[gMASK]": 64790, "sop": 64792, "<|system|>": 64794, "<|user|>": 64795,
                 "<|assistant|>": 64796, "<|observation|>": 64797},
}  # fmt: skip


def model_of(form):
    """A model of a format, with tokens of single characters."""
    tokens = TOKENS[form]
    content = letters.tokenizer_json()
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    content["added_tokens"] = [{"id": token, "content": text, **flags} for text, token in tokens.items()]
    vocabulary = {letter: token + 1000 for letter, token in letters.IDS.items()}
    content["model"]["vocab"] = vocabulary | tokens
    return rolecall.load(form, tokenizer=json.dumps(content).encode())


def tool_of(tool, calls):
    """The definition of a tool, and a function that expects the scenario's call."""

    def call(**arguments):
        assert arguments == tool["arguments"]
        calls.append(tool["definition"]["name"])
        return tool["result"]

    return {"type": "function", "function": tool["definition"]}, call


def check(text, parts):
    assert text.startswith(parts[0])
    for part in parts:
        before, found, text = text.partition(part)
        assert found, f"not there: {part!r} in {before!r}"
    assert not text


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_scenario_of_the_documents_runs(path, kernel):
    scenario = json.loads(path.read_text(encoding="utf-8"))
    model, calls = model_of(scenario["format"]), []
    messages, result = scenario["messages"], None
    with rolecall.Interpreter() as interpreter:
        parts = []
        for name, rows in scenario["files"].items():
            content = "".join(f"{line}\n" * count for count, line in rows).encode()
            interpreter.write(name, content)
            parts.append({"type": "file", "file": {"path": f"/mnt/data/{name}", "size": len(content)}})
        for turn in scenario["turns"]:
            replies = iter(turn["replies"])
            content = [*parts, {"type": "text", "text": turn["user"]}] if parts else turn["user"]
            parts = []
            result = model.run(
                [*messages, {"role": "user", "content": content}],
                tools=[tool_of(tool, calls) for tool in scenario["tools"]],
                interpreter=interpreter if scenario["interpreter"] else None,
                allow="code_interpreter" if scenario["interpreter"] else None,
                engine=lambda _, replies=replies: next(replies),
            )
            assert (result.end, result.answer.strip()) == ("answer", turn["answer"])
            messages = result.conversation["messages"]
        for name in scenario["pictures"]:
            assert interpreter.read(name).startswith(b"\x89PNG")
    check(model.tokenizer.decode(result.ids), scenario["text"])
    assert calls == [tool["definition"]["name"] for tool in scenario["tools"]]
