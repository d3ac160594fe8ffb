"""`rolecall chat` on a real engine: a grammar forces the first call, the tool runs in the sandbox, and the model reads
its result."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from conftest import FORMAT, ROLECALL

TOOL = "import json, sys\nprint('It rains in', json.load(sys.stdin)['city'])\n"

TOOLS = """
[[tool]]
name = "get_weather"
description = "Get the weather of a city"
argv = ["python3", "weather.py"]
parameters = { type = "object", properties = { city = { type = "string", maxLength = 20 } }, required = ["city"] }
"""


@pytest.fixture
def folder():
    """A folder that every user can read: for root, a sandbox is another user.

    It is not one of pytest's, whose parent each run of pytest closes to others again when it begins."""
    check = subprocess.run([ROLECALL, "interpreter", "--check"], capture_output=True, text=True)
    if check.returncode != 0:
        assert "CI" not in os.environ, check.stdout
        pytest.skip("no code runs here: " + check.stdout)
    with tempfile.TemporaryDirectory(prefix="agent") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "weather.py").write_text(TOOL)
        (folder / "tools.toml").write_text(TOOLS)
        yield folder


def chat(folder, weights, lines: str, *arguments: str) -> list:
    """Chats, and returns the steps."""
    command = [ROLECALL, "chat", "--format", FORMAT, "--tokenizer", weights, "--json", "--allow", "get_weather"]
    command += ["--tools", str(folder / "tools.toml"), *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_forced_call_runs_and_its_result_is_read(weights, folder):
    # An engine of its own: what other tests sample depends on what an engine has in its cache.
    record = str(folder / "record.jsonl")
    steps = chat(folder, weights, "What is the weather in Paris?\n", "--engine", "local:" + weights,
                 "--local-python", sys.executable, "--require-call",
                 "--max-tokens", "60", "--rounds", "2", "--record", record)
    kinds = [step["type"] for step in steps]
    assert kinds.count("prompt") == 2 and kinds[-1] == "end"
    call = next(step for step in steps if step["type"] == "call")
    city = json.loads(call["arguments"])["city"]
    result = next(step for step in steps if step["type"] == "result")
    assert result["text"] == f"It rains in {city}" and "error" not in result
    # The second prompt goes on from the first: what was sent and sampled stays.
    first, second = [step for step in steps if step["type"] == "prompt"]
    message = next(step for step in steps if step["type"] == "message")
    assert second["keep"] >= len(first["ids"]) + len(message["ids"]) - 1
    # A replay makes the same prompts, with no engine and with nothing run.
    (folder / "weather.py").write_text("raise SystemExit('it was run')")
    again = chat(folder, weights, "What is the weather in Paris?\n", "--replay", record, "--rounds", "2")
    assert [step for step in again if step["type"] == "prompt"] == [first, second]
