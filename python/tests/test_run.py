"""The loop of replies and calls: what runs, what the model reads, when it ends, and who is interrupted."""

import functools
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Annotated, Any, Literal, Optional

import letters
import numpy as np
import pytest
import rolecall
from letters import END, IDS
from rolecall._functions import definition
from test_hostile import letters_model

USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def model():
    return letters_model()


def spelled(text):
    """The ids of a text, in which spaces and lines are what they are."""
    return [IDS[{" ": "Ġ", "\n": "Ċ"}.get(letter, letter)] for letter in text]


def call(name, /, **arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def script(*replies, requests=None):
    """An engine that samples these replies."""
    left = iter(replies)

    def engine(request):
        if requests is not None:
            requests.append(request)
        return [*spelled(next(left)), END]

    return engine


def results(result):
    return [message["content"] for message in result.messages if message["role"] == "tool"]


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first
            of them.
        b (int): The second.

    Returns:
        their sum
    """
    return a + b


def test_a_function_is_called_and_its_result_is_the_next_turn(model):
    requests, seen = [], []
    result = model.run(
        USER, tools=[add], engine=script("Hm." + call("add", a=2, b=3), "It is 5.", requests=requests),
        on_event=seen.append,
    )  # fmt: skip
    assert (result.answer, result.end) == ("It is 5.", "answer")
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert results(result) == ["5"]
    first, second = requests
    assert list(first) == ["ids", "keep", "stop_ids", "text", "max_tokens", "grammar"]
    assert first["keep"] == 0 and first["stop_ids"] == [END] and first["max_tokens"] is first["grammar"] is None
    assert first["text"] == letters.text_of(first["ids"])
    # What the engine has is what it got and what it sampled.
    assert second["keep"] == len(first["ids"]) + len(spelled("Hm." + call("add", a=2, b=3))) + 1
    assert second["ids"][: len(first["ids"])] == first["ids"]
    assert result.ids.tolist() == [*second["ids"], *spelled("It is 5."), END]
    assert result.events == seen
    assert {event["type"] for event in seen} >= {"prompt", "content", "message", "call", "result", "end"}
    assert result.conversation["messages"] == result.messages
    assert result.conversation["tools"] == [definition(add)]
    assert repr(result).startswith('RunResult(end="answer", 4 messages, ')
    # What was sampled is trained on.
    assert result.session.rollout().weights.sum() == len(spelled("Hm." + call("add", a=2, b=3) + "It is 5.")) + 2


def test_definitions_come_from_names_docstrings_and_hints():
    def search(
        query: str, tags: list[str], kind: Literal["a", "b"], limit: Optional[int] = None, score: float | None = None,
        options: dict = {}, weights: dict[str, float] = {}, deep: Annotated[bool, "Whether to look far."] = False,
    ):  # fmt: skip
        """Search for things."""

    assert definition(search)["function"] == {
        "name": "search",
        "description": "Search for things.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "limit": {"type": "integer", "nullable": True},
                "score": {"type": "number", "nullable": True},
                "options": {"type": "object"},
                "weights": {"type": "object", "additionalProperties": {"type": "number"}},
                "deep": {"type": "boolean", "description": "Whether to look far."},
            },
            "required": ["query", "tags", "kind"],
        },
    }
    assert definition(add)["function"]["parameters"]["properties"] == {
        "a": {"type": "integer", "description": "The first of them."},
        "b": {"type": "integer", "description": "The second."},
    }

    def bare():
        pass

    assert definition(bare)["function"] == {"name": "bare", "parameters": {"type": "object", "properties": {}}}


def test_definitions_are_those_of_transformers():
    utils = pytest.importorskip("transformers.utils")
    ours, theirs = definition(add), utils.get_json_schema(add)
    theirs["function"].pop("return", None)
    for schema in (ours, theirs):
        # transformers keeps the line breaks of descriptions.
        for each in schema["function"]["parameters"]["properties"].values():
            each["description"] = " ".join(each["description"].split())
    assert ours == theirs


def _unhinted(a):
    pass


def _any(a: Any):
    pass


def _tuple(a: tuple[int, int]):
    pass


def _mixed(a: int | str):
    pass


def _many(*a: int):
    pass


def _named(**a: int):
    pass


def _positional(a: int, /):
    pass


def _missing(a: "NoSuchClass"):  # noqa: F821
    pass


async def _coroutine(a: int):
    pass


@pytest.mark.parametrize("tool", [
    _unhinted, _any, _tuple, _mixed, _many, _named, _positional, _missing, _coroutine, functools.partial(add, a=1),
    lambda a: a, print, 7, None, "add", {}, {"function": {"name": "f"}}, {"function": {}, "call": add},
    {"function": {"name": "f"}, "call": 7}, (1, 2), ({"function": {"name": 7}}, add),
    ({"function": {"name": "code_interpreter"}}, add), ({"function": {"name": "f", "x": object()}}, add),
])  # fmt: skip
def test_functions_that_cannot_be_offered_are_refused(model, tool):
    with pytest.raises(rolecall.RequestError) as raised:
        model.run(USER, tools=[tool], engine=script("Hi"))
    assert raised.value.field.startswith("tools") and raised.value.code in ("wrong_argument", "wrong_type", "unknown_annotation")


@pytest.mark.parametrize("arguments", [
    {"engine": None}, {"engine": 7}, {"tools": add}, {"tools": 7}, {"tools": "add"}, {"tools": [add, add]},
    {"interpreter": 7}, {"interpreter": True}, {"interpreter": {"memory": -1}, "allow": "code_interpreter"},
    {"interpreter": {"x": 1}, "allow": "code_interpreter"}, {"allow": "subtract"}, {"allow": 7}, {"allow": [7]},
    {"ask": 7}, {"rounds": 0}, {"rounds": -1}, {"rounds": 1.5}, {"rounds": True}, {"time": -1}, {"time": "1"},
    {"time": float("nan")}, {"max_tokens": 0}, {"parallel": 0}, {"on_event": 7}, {"replay": 7}, {"replay": "x"},
    {"replay": [{"type": "message"}]}, {"tool_choice": 7}, {"round": 1}, {"on_evnt": print},
])  # fmt: skip
def test_bad_arguments_are_refused_before_anything_runs(model, arguments):
    def engine(request):
        raise AssertionError

    with pytest.raises(rolecall.RequestError) as raised:
        model.run(USER, **{"tools": [add], "engine": engine, **arguments})
    assert raised.value.code and str(raised.value)


def test_what_functions_return_is_text_and_what_they_raise_is_read(model):
    class Silent(Exception):
        def __str__(self):
            raise ValueError

    def give(what: str):
        if what in values:
            return values[what]
        raise errors[what]

    values = {"text": "é\n", "dict": {"ü": [1, None]}, "none": None, "object": object(), "surrogate": "\ud800"}
    errors = {"value": ValueError("no\ud800"), "empty": KeyError(), "silent": Silent()}
    names = [*values, *errors]
    result = model.run(
        USER, tools=[give], engine=script("".join(call("give", what=name) for name in names), "Well."),
    )  # fmt: skip
    assert result.end == "answer"
    assert results(result) == [
        "é\n", '{"ü": [1, null]}', "null", "error: TypeError: Object of type object is not JSON serializable",
        "error: UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        "error: ValueError: no?", "error: KeyError", "error: Silent",
    ]  # fmt: skip
    codes = [event.get("error") for event in result.events if event["type"] == "result"]
    assert codes == [None, None, None] + ["tool_failed"] * 5


def test_wrong_calls_are_read_by_the_model(model):
    replies = [call("subtract", a=1), call("add", x=1), '<tool_call>\n{"name": "add", "arguments": []}\n</tool_call>']
    for reply, text in zip(replies, ["error: there is no tool `subtract`; there are: add", "error: TypeError: add()", None]):
        result = model.run(USER, tools=[add], engine=script(reply, "Well."))
        assert result.end == "answer"
        assert text is None or results(result)[0].startswith(text)


def test_a_definition_and_a_function_are_a_tool(model):
    described = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for tool in [{"type": "function", "function": described, "call": lambda **given: given},
                 {"function": described, "call": lambda **given: given},
                 ({"function": described}, lambda **given: given)]:
        result = model.run(USER, tools=[tool], engine=script(call("f", x=1), "Well."))
        assert results(result) == ['{"x": 1}']
        assert result.conversation["tools"] == [{"type": "function", "function": described}]


def test_calls_of_one_reply_run_in_parallel_threads_and_stay_in_order(model):
    barrier, threads = threading.Barrier(3), set()

    def meet(name: str) -> str:
        barrier.wait(20)
        threads.add(threading.get_ident())
        return name

    replies = "".join(call("meet", name=name) for name in "abc")
    result = model.run(USER, tools=[meet], engine=script(replies, "Well."))
    assert results(result) == ["a", "b", "c"]
    assert len(threads) == 3 and threading.get_ident() not in threads


def test_calls_one_by_one_run_in_the_thread_of_the_caller(model):
    threads = []

    def where() -> None:
        threads.append(threading.get_ident())

    def engine(request):
        threads.append(threading.get_ident())
        return next(replies)

    replies = iter([call("where") * 3 + "<|im_end|>", "Well.<|im_end|>"])
    model.run(USER, tools=[where], engine=engine, parallel=1, on_event=lambda _: threads.append(threading.get_ident()))
    assert set(threads) == {threading.get_ident()}


def test_runs_in_several_threads_do_not_wait_for_each_other(model):
    barrier = threading.Barrier(4)

    def meet() -> str:
        barrier.wait(20)
        return "met"

    found = []

    def work():
        found.append(results(model.run(USER, tools=[meet], engine=script(call("meet"), "Well."))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [["met"]] * 4


def test_a_function_may_run_a_model(model):
    def ask_another(question: str) -> str:
        return model.run([{"role": "user", "content": question}], tools=[add], engine=script(call("add", a=1), "Two.")).answer

    for parallel in (1, 4):
        result = model.run(
            USER, tools=[ask_another], engine=script(call("ask_another", question="1+1?"), "So."), parallel=parallel
        )
        assert results(result) == ["Two."]


def test_rounds_and_time_and_tokens_end_a_run(model):
    again = [call("add", a=1)] * 5
    result = model.run(USER, tools=[add], engine=script(*again), rounds=2)
    assert (result.end, len(results(result)), result.answer) == ("rounds", 1, "")
    assert model.run(USER, tools=[add], engine=script(*again), time=0).end == "time"
    assert model.run(USER, tools=[add], engine=script("Hi"), time=float("inf")).end == "answer"
    for engine in (lambda _: spelled("abcdef"), lambda _: iter(spelled("abcdef")), lambda _: spelled("abc"),
                   lambda _: {"ids": spelled("abc"), "finish": "length"}):
        result = model.run(USER, engine=engine, max_tokens=3)
        assert (result.end, result.answer) == ("length", "abc")
    assert model.run(USER, engine=lambda _: [*spelled("ab"), END], max_tokens=3).end == "answer"
    assert model.run(USER, engine=lambda _: {"ids": spelled("abc"), "finish": "stop"}, max_tokens=3).end == "answer"
    assert model.run(USER, engine=lambda _: {"ids": spelled("abc"), "finish": "abort"}).end == "stopped"


ENGINES = {
    "list": lambda: [*spelled("Hello"), END],
    "tuple": lambda: (*spelled("Hello"), END),
    "array": lambda: np.array([*spelled("Hello"), END]),
    "dict": lambda: {"ids": spelled("Hello"), "finish": "stop"},
    "dict of an array": lambda: {"ids": np.array(spelled("Hello"))},
    "list of lists": lambda: [spelled("He"), [], spelled("llo"), [END]],
    "ids one by one": lambda: iter([*spelled("Hello"), END]),
    "arrays one by one": lambda: (np.array([token]) for token in [*spelled("Hello"), END]),
    "dicts one by one": lambda: iter([{"ids": spelled("Hello")}, {"finish": "stop"}]),
    "more than the stop token": lambda: iter([*spelled("Hello"), END, *spelled("no")]),
    "text": lambda: "Hello<|im_end|>",
    "texts one by one": lambda: iter(["Hel", "lo", "<|im_end|>"]),
    "dict of text": lambda: {"text": "Hello", "finish": "stop"},
}


@pytest.mark.parametrize("name", ENGINES)
def test_engines_return_replies_in_many_ways(model, name):
    result = model.run(USER, engine=lambda request: ENGINES[name]())
    assert (result.answer, result.end) == ("Hello", "answer")
    assert result.ids.tolist()[-6:] in ([*spelled("Hello"), END], [IDS["Ċ"], *spelled("Hello")])


@pytest.mark.parametrize("returned", [None, 7.5, object(), [1.5], [-1], {}, {"ids": [1], "text": "a"}, {"ids": "x"},
                                      iter([None]), iter([{}]), {"ids": [1], "finish": "never"}, [99_999], b"Hi", "\ud800"])  # fmt: skip
def test_what_is_no_reply_is_refused(model, returned):
    with pytest.raises(rolecall.RolecallError) as raised:
        model.run(USER, engine=lambda request: returned)
    assert raised.value.code


def test_a_stream_is_seen_as_it_comes_and_closed_at_its_end(model):
    order = []

    def engine(request):
        try:
            for letter in "abc":
                order.append(letter)
                yield spelled(letter)
            yield END
            order.append("not reached")
        finally:
            order.append("closed")

    model.run(USER, engine=engine, on_event=lambda event: event["type"] == "content" and order.append(event))
    texts = [one if isinstance(one, str) else one["text"].upper() for one in order]
    assert texts == ["a", "A", "b", "B", "c", "C", "closed"]


def test_what_the_callers_code_raises_is_raised(model):
    class Own(Exception):
        pass

    def fails(*_):
        raise Own

    def stream(request):
        yield spelled("a")
        raise Own

    engine = script(call("add", a=1), "Well.")
    for arguments in [{"engine": fails}, {"engine": stream}, {"engine": engine, "on_event": fails}]:
        with pytest.raises(Own):
            model.run(USER, tools=[add], **arguments)

    def leaves():
        raise SystemExit(3)

    for parallel in (1, 4):
        with pytest.raises(SystemExit):
            model.run(USER, tools=[({"function": {"name": "leaves"}}, leaves)], engine=script(call("leaves")), parallel=parallel)


def test_messages_and_switches_are_those_of_a_prompt(model):
    requests = []
    model.run([{"role": "system", "content": "S"}, *USER], engine=script("Hi", requests=requests), note="noted")
    assert requests[0]["text"] == model.prompt([{"role": "system", "content": "S"}, *USER], note="noted").text
    for messages in ([], [{"role": "user", "content": 7}]):
        with pytest.raises(rolecall.RolecallError):
            model.run(messages, engine=script("Hi"))
    with pytest.raises(rolecall.TokenizerError):
        rolecall.load("chatml").run(USER, engine=script("Hi"))
    # A run goes on from the messages of another.
    first = model.run(USER, engine=script("Hello"))
    second = model.run([*first.messages, {"role": "user", "content": "More"}], engine=script("No", requests=requests))
    assert [message["content"] for message in second.messages] == ["Hi", "Hello", "More", "No"]


def test_a_call_can_be_required(model):
    requests = []
    for choice in ("required", {"name": "add"}, {"type": "function", "function": {"name": "add"}}):
        model.run(USER, tools=[add], engine=script(call("add", a=1), "Well.", requests=requests), tool_choice=choice)
        first, second = requests[-2:]
        assert "tool_call" in first["grammar"].gbnf() and second["grammar"] is None
    with pytest.raises(rolecall.GrammarError):
        model.run(USER, engine=script("Hi"), tool_choice="required")


def test_a_run_is_replayed_without_running_anything(model):
    calls = []

    def note(text: str) -> str:
        calls.append(text)
        return f"noted {text}"

    result = model.run(USER, tools=[note], engine=script(call("note", text="a"), "Well."))
    lines = "".join(json.dumps(event) + "\n" for event in result.events)
    for replay in (result.events, lines, lines.splitlines(keepends=True)):
        again = model.run(USER, tools=[note], replay=replay)
        assert (again.events, again.ids.tolist(), again.end) == (result.events, result.ids.tolist(), "answer")
    assert calls == ["a"]
    with pytest.raises(rolecall.RequestError, match="no further reply") as raised:
        model.run(USER, tools=[note], replay=result.events[:-3])
    assert raised.value.help


def test_results_are_pickled(model):
    result = model.run(USER, tools=[add], engine=script(call("add", a=1), "Well."))
    other = pickle.loads(pickle.dumps(result))
    assert (other.messages, other.end, other.answer, other.events) == (result.messages, result.end, "Well.", result.events)
    assert (other.ids.tolist(), other.conversation) == (result.ids.tolist(), result.conversation)
    assert other.session.rollout().weights.tolist() == result.session.rollout().weights.tolist()


# What an interrupt does, in a process of its own.
INTERRUPTED = """
import os, signal, sys, threading, time
sys.path[:0] = {paths!r}
from test_run import USER, call, letters_model, spelled
model = letters_model()
events = []

def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

def wait() -> str:
    time.sleep({sleep})
    return "done"

def endless(request):
    while True:
        time.sleep(0.01)
        yield spelled("a")

def blocking(request):
    time.sleep(60)

def calling(request):
    return call("wait") * 2 + "<|im_end|>"

threading.Thread(target=interrupt).start()
start = time.monotonic()
try:
    model.run(USER, tools=[wait], engine={engine}, parallel={parallel}, on_event=events.append)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < {most})
# The package works as before.
print(model.run(USER, engine=lambda request: "Hi<|im_end|>").answer)
"""


@pytest.mark.parametrize(("engine", "sleep", "parallel", "most"), [
    ("endless", 0, 4, 1.5), ("blocking", 0, 4, 1.5), ("calling", 1, 4, 2.5), ("calling", 60, 4, 5), ("calling", 60, 1, 1.5),
])  # fmt: skip
def test_an_interrupt_ends_a_run(engine, sleep, parallel, most):
    paths = [os.path.abspath(path) for path in (os.path.dirname(__file__), *sys.path)]
    code = INTERRUPTED.format(paths=paths, engine=engine, sleep=sleep, parallel=parallel, most=most)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("interrupted True\nHi\n", 0), done.stderr


# ---- Code


@pytest.fixture(scope="module")
def coder():
    """A model of a family that was trained to write code, with tokens of single characters."""
    tokens = {"<s>": 1, "</s>": 2, "<|plugin|>": 92538, "<|interpreter|>": 92539, "<|action_end|>": 92540,
              "<|action_start|>": 92541, "<|im_end|>": 92542, "<|im_start|>": 92543}  # fmt: skip
    content = letters.tokenizer_json()
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    content["added_tokens"] = [{"id": token, "content": text, **flags} for text, token in tokens.items()]
    content["model"]["vocab"] = {letter: token + 3 for letter, token in IDS.items()} | tokens
    return rolecall.load("internlm2", tokenizer=json.dumps(content).encode())


def code(text):
    return f"<|action_start|><|interpreter|>\n```python\n{text}\n```<|action_end|><|im_end|>"


def test_code_runs_only_if_it_is_allowed(coder):
    with pytest.raises(rolecall.RequestError) as raised:
        coder.run(USER, engine=lambda _: "Hi<|im_end|>", interpreter=True)
    assert raised.value.code == "nobody_allows" and "allow" in raised.value.help


def test_code_of_a_model_runs_in_a_kernel(coder, kernel):
    replies = iter([code("x = 6 * 7\nprint('so')\nx"), code("x + 1"), "43.<|im_end|>"])
    seen = []
    result = coder.run(
        USER, engine=lambda _: next(replies), interpreter=True, allow="code_interpreter", on_event=seen.append,
    )  # fmt: skip
    assert (result.answer, results(result)) == ("43.", ["so\n42", "43"])
    assert [event["text"] for event in seen if event["type"] == "output"] == ["so\n", "42", "43"]
    again = coder.run(USER, interpreter=True, replay=result.events)
    assert results(again) == results(result) and again.ids.tolist() == result.ids.tolist()


def test_somebody_is_asked_about_code(coder, kernel):
    asked = []

    def ask(call):
        asked.append(call["code"])
        return decisions.pop(0)

    decisions = [True, False, "too risky"]
    replies = iter([code("1"), code("2"), code("3"), "Well.<|im_end|>"])
    result = coder.run(USER, engine=lambda _: next(replies), interpreter={"time": 30}, ask=ask)
    assert asked == ["1", "2", "3"]
    assert results(result) == [
        "1", "error: this call was refused: the user said no", "error: this call was refused: too risky",
    ]  # fmt: skip
    again = coder.run(USER, interpreter=True, replay=result.events)
    assert results(again) == results(result)
    for bad in (None, 7):
        with pytest.raises(rolecall.RequestError):
            coder.run(USER, engine=lambda _: code("1"), interpreter=True, ask=lambda call: bad)


def test_an_interpreter_keeps_variables_and_files(coder, kernel):
    with rolecall.Interpreter() as interpreter:
        interpreter.write("data.csv", b"a,b\n1,2\n")
        shown = []
        outputs = interpreter.run("text = open('data.csv').read(); print(len(text))", on_output=shown.append)
        assert outputs == shown == [{"type": "output", "kind": "stdout", "text": "8\n"}]
        replies = iter([code("open('out.txt', 'w').write(text)"), "Done.<|im_end|>"])
        result = coder.run(USER, engine=lambda _: next(replies), interpreter=interpreter, allow=["code_interpreter"])
        assert results(result) == ["8"]
        assert interpreter.read("out.txt") == b"a,b\n1,2\n"
        assert {(entry["name"], entry["size"]) for entry in interpreter.files} == {("data.csv", 8), ("out.txt", 8)}
        assert interpreter.run("1 / 0")[0]["name"] == "ZeroDivisionError"
        for name in ("../x", "", "a\0b"):
            with pytest.raises(rolecall.InterpreterError) as raised:
                interpreter.write(name, b"")
            assert raised.value.code == "file_name"
        with pytest.raises(rolecall.InterpreterError) as raised:
            interpreter.run("print(1)\nimport time; time.sleep(3)", on_output=lambda _: interpreter.run("2"))
        assert raised.value.code == "kernel_busy"
    with pytest.raises(rolecall.InterpreterError) as raised:
        interpreter.run("1")
    assert raised.value.code == "closed"


def test_an_interrupt_stops_code_and_the_kernel_goes_on(kernel):
    source = textwrap.dedent("""
        import os, signal, threading, time
        import rolecall
        interpreter = rolecall.Interpreter()
        interpreter.run("x = 7")
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            interpreter.run("import time; time.sleep(60)")
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 10)
        print(interpreter.run("x")[-1]["text"])
    """)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted True\n7\n", 0), done.stderr


def test_what_is_missing_is_said_with_what_to_do():
    with pytest.raises(rolecall.InterpreterError) as raised:
        rolecall.Interpreter(python="/no/such/python")
    assert raised.value.code == "interpreter_missing" and raised.value.help
    # Without the programs that make a sandbox.
    code = "import rolecall\ntry: rolecall.Interpreter()\nexcept rolecall.InterpreterError as error: print(error.code, error.help)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": "/nowhere"},
    )  # fmt: skip
    assert done.stdout.startswith("interpreter_missing install it: ") and "bubblewrap" in done.stdout, done
    for bad in ({"time": -1}, {"memory": 1.5}, {"unsafe_no_sandbox": "no"}, {"python": 7}, {"kernelspec": 7}):
        with pytest.raises(rolecall.RequestError):
            rolecall.Interpreter(**bad)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_says_that_it_has_no_kernels(kernel):
    rolecall.Interpreter().close()
    child = os.fork()
    if child == 0:
        try:
            rolecall.Interpreter().run("1")
        except rolecall.InterpreterError as error:
            os._exit(0 if error.code == "kernel_start" else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
