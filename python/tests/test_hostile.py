"""Bad input of every kind, in every parameter of everything public.

The package is walked by introspection, so that what is added later is covered. Set ``ROLECALL_HOSTILE=100000`` to
make at least so many bad calls of each kind of value and compare the memory before and after.
"""

import array
import collections
import dataclasses
import enum
import gc
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import threading
import time
import types

import letters
import numpy as np
import pytest
import rolecall
import rolecall.data
from rolecall import _rolecall
from rolecall.errors import InternalError, RolecallError

CALLS = int(os.environ.get("ROLECALL_HOSTILE", "0"))


TEMPLATE = (
    "{%- if tools %}<|im_start|>system\nCall <tool_call>\n{\"name\": ..., \"arguments\": ...}\n</tool_call>"
    "{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}\n<tool_call>\n"
    "{\"name\": {{ call.function.name | tojson }}, \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>"
    "{%- endfor %}<|im_end|>\n{% endfor %}"
    "{%- for document in documents or [] %}{{ document | tojson }}{% endfor %}"
    "{%- if note is defined %}{{ note }}{% endif %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Own(Exception):
    """An exception of the caller's."""


def letters_model():
    """A model with a chat template, and a tokenizer of single characters."""
    return rolecall.load(chat_template=TEMPLATE, eos_token="<|im_end|>", tokenizer=letters.tokenizer_bytes())


@pytest.fixture(scope="module")
def model():
    return letters_model()


# ---- Odd values. Each is a function, so that iterators are new.


def raiser(*names):
    """A class whose named special methods raise the caller's own exception."""

    def raising(self, *_, **__):
        raise Own

    return type("Raiser", (), dict.fromkeys(names, raising))


class Endless:
    """Has every attribute, and each is itself."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_, **__):
        return self


class Wrong:
    """Answers every protocol with a value of a wrong type."""

    __index__ = __len__ = __iter__ = __fspath__ = __int__ = __str__ = __arrow_c_stream__ = __arrow_c_array__ = (
        lambda self, *_: 1.5
    )
    keys = items = tolist = model_dump = lambda self, *_, **__: 7
    __getitem__ = lambda self, _: self  # noqa: E731


@dataclasses.dataclass
class Cyclic:
    role: str = "user"
    content: object = None


def _self_list():
    loop = []
    loop.append(loop)
    return loop


def _self_dict():
    loop = {"role": "user"}
    loop["content"] = loop
    return loop


def _cyclic():
    one = Cyclic()
    one.content = one
    return one


def _raising_generator():
    yield {"role": "user", "content": "a"}
    raise Own


def _deep(kind, levels=100_000):
    value = "x"
    for _ in range(levels):
        value = [value] if kind is list else {"content": value}
    return value


class _Shrinking(list):
    """Empties itself while it is read."""

    def __iter__(self):
        for value in list.__iter__(self):
            self.clear()
            yield value


class _Shrink:
    """Empties the list that it is in while it is converted."""

    def __init__(self):
        self.inside = [self, {}, {}, {}]

    def model_dump(self, **_):
        self.inside.clear()
        return {"role": "user", "content": "x"}


ODD = {
    "None": lambda: None,
    "true": lambda: True,
    "zero": lambda: 0,
    "minus": lambda: -1,
    "large": lambda: 2**31,
    "huge": lambda: 2**64,
    "enormous": lambda: 10**5000,
    "float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "complex": lambda: 1j,
    "text": lambda: "x",
    "empty text": lambda: "",
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "surrogate inside": lambda: [{"role": "user", "content": "\udfff"}],
    "surrogate key": lambda: {"\ud800": 1},
    "bytes": lambda: b"\xff\xfe",
    "bytearray": lambda: bytearray(b"x"),
    "memoryview": lambda: memoryview(b"abc"),
    "released view": lambda: [view := memoryview(b"abc"), view.release()][0],
    "array": lambda: array.array("d", [1.0]),
    "object": object,
    "class": lambda: dict,
    "function": lambda: print.__class__,
    "module": lambda: json,
    "error": lambda: ValueError("x"),
    "ellipsis": lambda: ...,
    "list": lambda: [],
    "list of None": lambda: [None],
    "list of ids": lambda: [0, 1, 2**32],
    "list of minus": lambda: [-1],
    "dict": lambda: {},
    "dict of None": lambda: {None: None},
    "dict of ints": lambda: {1: 2},
    "dict of lists": lambda: {"role": [], "content": {}},
    "pair": lambda: ("a", 1),
    "set": lambda: {1, "a"},
    "self list": _self_list,
    "self dict": _self_dict,
    "self dataclass": _cyclic,
    "deep list": lambda: _deep(list),
    "deep dict": lambda: [_deep(dict)],
    "shrinking": lambda: _Shrinking([{"role": "user", "content": "x"}] * 3),
    "shrinking inside": lambda: _Shrink().inside,
    "raising iter": lambda: raiser("__iter__")(),
    "raising getattr": lambda: raiser("__getattr__")(),
    "raising getattribute": lambda: raiser("__getattribute__")(),
    "raising len": lambda: raiser("__len__", "__getitem__")(),
    "raising index": lambda: raiser("__index__", "__int__", "__float__", "__bool__")(),
    "raising buffer": lambda: raiser("__buffer__")(),
    "raising path": lambda: raiser("__fspath__")(),
    "raising text": lambda: raiser("__str__", "__repr__", "__hash__", "__eq__")(),
    "raising call": lambda: raiser("__call__")(),
    "raising stream": lambda: raiser("__arrow_c_stream__")(),
    "raising arrow": lambda: raiser("__arrow_c_array__", "__arrow_c_schema__")(),
    "raising dump": lambda: raiser("model_dump")(),
    "raising tolist": lambda: raiser("tolist")(),
    "raising keys": lambda: raiser("keys", "__getitem__", "items")(),
    "raising inside": lambda: [raiser("__iter__", "model_dump", "tolist")()],
    "raising generator": _raising_generator,
    "endless": Endless,
    "endless inside": lambda: [Endless()],
    "wrong": Wrong,
    "wrong inside": lambda: [Wrong()],
    "mapping": lambda: types.MappingProxyType({"role": "user"}),
    "default dict": lambda: collections.defaultdict(list),
    "range": lambda: range(3),
    "iterator": lambda: iter([1, 2]),
    "numpy floats": lambda: np.array([1.5, np.nan]),
    "numpy strided": lambda: np.arange(20, dtype=np.uint32)[::3],
    "numpy reversed": lambda: np.arange(5, dtype=np.int64)[::-1],
    "numpy matrix": lambda: np.zeros((2, 2), np.uint32),
    "numpy scalar": lambda: np.uint32(3),
    "numpy zero-dim": lambda: np.array(3),
    "numpy objects": lambda: np.array([None, "x", 1], dtype=object),
    "numpy bytes": lambda: np.array([b"x"]),
    "numpy text": lambda: np.array(["x"]),
    "numpy swapped": lambda: np.array([1, 2], dtype=">u4"),
    "numpy complex": lambda: np.array([1j]),
    "numpy record": lambda: np.zeros(2, dtype=[("a", "i4")]),
    "numpy bool": lambda: np.array([True]),
    "numpy dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "numpy empty": lambda: np.zeros(0, np.uint8),
    "own class": lambda: rolecall.Model,
    "own object": lambda: letters_model(),
}

try:
    import pyarrow as pa
except ImportError:
    pa = None
else:
    ODD |= {
        "arrow nulls": lambda: pa.array([None, "x"]),
        "arrow table": lambda: pa.table({"messages": [None, [{"role": None, "content": None}]]}),
        "arrow batch": lambda: pa.record_batch({"messages": pa.array([None, None])}),
        "arrow no columns": lambda: pa.table({}),
        "arrow binary": lambda: pa.table({"messages": [b"\xff"], "prompt": [b"\xff"]}),
        "arrow not UTF-8": lambda: pa.table({"messages": not_utf8(), "prompt": not_utf8()}),
        "arrow same names": lambda: pa.table([pa.array([1]), pa.array([2])], names=["prompt", "prompt"]),
        "arrow chunks": lambda: pa.chunked_array([["a"], [], [None]]),
        "arrow scalar": lambda: pa.scalar("x"),
        "arrow dates": lambda: pa.table({"messages": pa.array([0], pa.timestamp("ns"))}),
    }


def not_utf8():
    """An array of texts with bytes that are not UTF-8, which pyarrow does not check."""
    offsets = array.array("i", [0, 1, 3])
    return pa.StringArray.from_buffers(2, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"a\xff\xfe"))


# ---- What is called, and with what.


def modules():
    """All modules of the package that can be imported here."""
    found = [rolecall]
    for each in pkgutil.walk_packages(rolecall.__path__, "rolecall."):
        if "._" in each.name:
            continue
        try:
            found.append(importlib.import_module(each.name))
        except ImportError:
            continue
    return found


MESSAGES = [{"role": "user", "content": "Hi"}]
REPLY = [39, 72, 97]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


def good(model, name):
    """A value that fits a parameter of this name."""
    known = {
        "messages": MESSAGES, "reply": "Hi", "piece": "Hi", "text": "Hi", "chunks": ["Hi"], "ids": REPLY,
        "model": model, "opened": model, "batch": {"messages": [MESSAGES]}, "saved": model.session(MESSAGES).save(),
        "first": 0, "content": b"", "code": "1", "fields": {}, "source": "x", "tokens": [], "name": "x", "path": "x",
        "framework": "xtuner", "message": {"role": "user", "content": "x"}, "index": 0,
    }  # fmt: skip
    return known.get(name, "x")


def instances(model):
    """An object of each public class that has methods."""
    prompt = model.prompt(MESSAGES)
    session = model.session(MESSAGES, tools=TOOLS)
    delta = session.open()
    opened = session.fork()
    reply = session.accept(REPLY)
    answered = session.fork()
    return [
        model, prompt, prompt.encode(), model.explain(MESSAGES), model.parser(MESSAGES), model.reasoning_split(),
        model.grammar(MESSAGES, tools=TOOLS), model.attribute(MESSAGES), opened, session, delta, reply,
        session.plan(MESSAGES), answered.truncate(turns=1), session.difference(), session.rollout(),
        rolecall.data.encode([{"messages": MESSAGES}], model), rolecall.data.encoder(model), rolecall.data.Progress(),
        model.parse_stream(["Hi"]), rolecall.RolecallError("x"), model.run(MESSAGES, engine=lambda _: REPLY),
    ]  # fmt: skip


#: Methods that write files, change the process, or are part of a pickle.
LEFT_OUT = {"to_json", "register", "_of_forms"}
#: Classes that only the modules of `rolecall.interop` call. They check what their users pass.
INSIDE = {"FrameworkTemplate", "FrameworkPrompt"}
#: What objects have from Python.
PYTHONS_OWN = {"__init_subclass__", "__subclasshook__", "__class__", "__new__", "__reduce__", "__reduce_ex__",
               "__getattribute__", "__setattr__", "__delattr__", "__dir__", "__format__", "__sizeof__", "__doc__",
               "__weakref__", "__dict__", "__module__", "__init__", "__class_getitem__", "__orig_bases__",
               "__parameters__", "__hash__", "__getstate__", "__setstate__", "__traceback__", "__context__",
               "__cause__", "__suppress_context__"}  # fmt: skip


def is_own(value):
    return (getattr(value, "__module__", None) or "").startswith("rolecall")


def targets(model):
    """Everything public that can be called, by name, each with the names of its parameters."""
    found = {}
    for module in modules():
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            if getattr(value, "__name__", None) in INSIDE:
                continue
            if isinstance(value, type) and (is_own(value) or module is _rolecall):
                # Exceptions take any message, and enums refuse what they do not have, as Python's do.
                if not issubclass(value, (BaseException, enum.Enum)):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
            elif callable(value) and is_own(value):
                found[f"{module.__name__}.{name}"] = value
    for value in vars(_rolecall).values():
        if isinstance(value, type) and value.__name__ not in INSIDE:
            found[f"{value.__qualname__}"] = value
            for name, method in vars(value).items():
                if isinstance(method, (staticmethod, classmethod)) and name not in LEFT_OUT:
                    found[f"{value.__qualname__}.{name}"] = getattr(value, name)
    for at, thing in enumerate(instances(model)):
        kind = type(thing)
        for name in dir(kind):
            if name in PYTHONS_OWN or name in LEFT_OUT or (name.startswith("_") and not name.startswith("__")):
                continue
            label = f"{kind.__qualname__}#{at}.{name}"
            member = inspect.getattr_static(kind, name)
            if isinstance(member, property) or inspect.isdatadescriptor(member):
                found[label + " ="] = lambda value, thing=thing, name=name: setattr(thing, name, value)
                getattr(thing, name)
            elif callable(getattr(thing, name, None)):
                found[label] = getattr(thing, name)
    return found


def parameters(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("text", "other")]


def attempts(model, function):
    """Functions that call something with a value in one of its parameters, by the parameter's name."""
    every = parameters(function)
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = [one for one in every if one.default is one.empty and one.kind not in many]
    for changed in every:
        def call(value, changed=changed):
            args, named = [], {}
            for one in every:
                given = one is changed or one in required
                this = value if one is changed else good(model, one.name)
                if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and given:
                    if len(args) == every.index(one):
                        args.append(this)
                    else:
                        named[one.name] = this
                elif one.kind is one.KEYWORD_ONLY and given:
                    named[one.name] = this
                elif one.kind is one.VAR_KEYWORD and one is changed:
                    named["enable_thinking"] = this
            result = function(*args, **named)
            if isinstance(result, rolecall.EventStream) and not result.is_async:
                list(result)
            return result

        yield changed.name, call


#: What lines of a run begin with that only say what is done.
CALLED = "- "

#: The errors that a call with a bad value may raise.
ALLOWED = (RolecallError, TypeError, Own)
#: What Python itself says of iterators and containers.
BY_PROTOCOL = (StopIteration, StopAsyncIteration, AttributeError, KeyError)
#: What the odd values themselves raise when they are asked.
BY_VALUE = ("truth value of an", "released memoryview")


def outcome(call, value):
    """None, or what is wrong with the way that a call ended."""
    try:
        call(value)
    except InternalError as error:
        return f"a panic: {str(error)[:200]}"
    except ALLOWED as error:
        # A message must be readable, whatever was passed.
        try:
            str(error), repr(error)
        except Own:
            pass
        except Exception as again:
            return f"the message of {type(error).__name__} raises {again!r:.200}"
    except BY_PROTOCOL:
        return None
    except BaseException as error:
        if type(error) is ValueError and any(text in str(error) for text in BY_VALUE):
            return None
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def memory():
    """The memory of this process in bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(share, shares):
    """Make the calls of one share, and print what went wrong."""
    model = letters_model()
    calls = [
        (f"{name}({parameter})", call)
        for name, function in targets(model).items()
        for parameter, call in attempts(model, function)
    ]
    assert len(calls) > 500, "the package was not walked"
    # These are costly to make, and no call changes them.
    for costly in ("deep list", "deep dict", "enormous"):
        ODD[costly] = lambda value=ODD[costly](): value
    ODD["own object"] = lambda: model
    rounds = max(1, CALLS // len(calls))
    for at, (odd, make) in enumerate(ODD.items()):
        if at % shares != share:
            continue
        before, start = None, time.monotonic()
        for turn in range(rounds):
            for number, (name, call) in enumerate(calls):
                # The default run makes a part of the calls, another for each value, and the long run all.
                if not CALLS and (number + at) % (8 if "#" in name else 3):
                    continue
                print(f"{CALLED}{name} = {odd}", flush=True) if not turn else None
                if found := outcome(call, make()):
                    print(f"{name} = {odd}: {found}")
            if turn == rounds // 4:
                before = memory()
        if CALLS:
            grown, seconds = memory() - before, time.monotonic() - start
            print(f"{CALLED}{odd}: {rounds * len(calls)} calls in {seconds:.0f} s, grown by {grown >> 10} KiB", flush=True)
            if grown > 8 << 20:
                print(f"{odd}: memory grew by {grown} bytes")


def run(share, shares, folder, timeout):
    paths = [os.path.abspath(path) for path in (os.path.dirname(__file__), *sys.path)]
    code = f"import sys; sys.path[:0] = {paths!r}; import test_hostile; test_hostile.main({share}, {shares})"
    # A crash or a hang ends only this process. The last lines of stderr say which call it was.
    with open(os.path.join(folder, "errors"), "w+", errors="replace") as errors, subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", code],
        cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
    ) as process:  # fmt: skip
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        lines = []
        for line in process.stdout:
            lines.append(line)
            if " calls in " in line:
                # The long run takes most of an hour, so that it is good to see it go on.
                print(line, end="", flush=True)
        timer.cancel()
        process.wait()
        errors.seek(0)
        return process.returncode, lines, errors.read()


def test_no_value_anywhere_panics_crashes_or_hangs(tmp_path):
    status, lines, errors = run(0, 1, tmp_path, 3600 * 3 if CALLS else 240)
    assert status == 0, "".join(lines[-3:]) + errors[-3000:]
    assert "panicked" not in errors, errors[max(errors.index("panicked") - 500, 0) :][:3000]
    found = [line for line in lines if not line.startswith(CALLED)]
    assert found == [], "".join(found)[:5000]


def test_a_panic_is_an_error_that_a_loop_over_rows_survives(tmp_path):
    # In its own process, because numpy's functions are found once. Without them, its bindings panic.
    code = """if True:
        import pickle, sys
        import rolecall
        tokenizer = rolecall.Tokenizer(sys.argv[1])
        import numpy.lib
        try:
            from numpy._core import multiarray
        except ImportError:
            from numpy.core import multiarray
        there = multiarray._ARRAY_API
        for row in ["first", "second"]:
            multiarray._ARRAY_API = None if row == "first" else there
            try:
                print(len(tokenizer.encode("word")))
            except Exception as error:
                assert isinstance(error, rolecall.InternalError), type(error).__mro__
                again = pickle.loads(pickle.dumps(error))
                print(error.code, "report" in error.help, str(error).startswith("this is a bug in rolecall: "), again.code)
    """
    folder = letters.write(tmp_path / "some-model", TEMPLATE)
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "internal True True internal\n4\n"), done.stderr


def test_texts_that_are_not_utf_8_refuse_their_row(model):
    pytest.importorskip("pyarrow")
    texts = not_utf8()
    large = pa.LargeStringArray.from_buffers(
        2, pa.py_buffer(array.array("q", [0, 1, 3]).tobytes()), pa.py_buffer(b"a\xff\xfe")
    )
    for column in (texts, large, texts.dictionary_encode()):
        errors = rolecall.data.encode(pa.table({"prompt": column, "completion": ["x", "y"]}), model)["error"].to_pylist()
        assert errors[0] is None
        assert errors[1]["message"] == "prompt: expected a string, found bytes that are not UTF-8"
    keys = pa.MapArray.from_arrays([0, 1, 2], texts, pa.array(["x", "y"]))
    errors = rolecall.data.encode(pa.table({"chat_template_kwargs": keys, "messages": [ASKED] * 2}), model)["error"]
    assert [error is None for error in errors.to_pylist()] == [True, False]


ASKED = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def test_a_column_that_no_shape_reads_cannot_refuse_a_row(model):
    pytest.importorskip("pyarrow")
    table = pa.table({"messages": [ASKED] * 2, "score": [1.0, float("nan")], "note": not_utf8()})
    assert rolecall.data.encode(table, model)["error"].to_pylist() == [None, None]
    table = pa.table({"messages": [ASKED] * 2, "system": [1.0, float("nan")]})
    assert rolecall.data.encode(table, model)["error"].to_pylist()[1]["code"] == "wrong_type"


def test_numbers_out_of_range_and_paths_with_surrogates_are_typed_errors(model):
    session = model.session(MESSAGES)
    delta = session.open()
    for call in (
        lambda number: session.bytes_of(number),
        lambda number: session.bytes_of(0, number),
        lambda number: delta.lists(number),
        lambda number: model.explain(MESSAGES).text(width=number),
    ):
        call(1)
        for number in (-1, 2**64, "1", 1.0):
            with pytest.raises(rolecall.RequestError):
                call(number)
    for parts in ({"model": "\ud800"}, {"model": "chatml", "tokenizer": "\ud800"}, {"template": "\ud800"}):
        with pytest.raises(rolecall.OpenError) as raised:
            rolecall.load(**parts)
        assert raised.value.field == list(parts)[-1]
    registry = rolecall.Registry()
    for call, field in [
        (rolecall.Format.from_file, "path"), (rolecall.Registry, "paths"), (registry.add, "format_or_path"),
        (registry.find, "model"), (registry.identify, "model"),
    ]:  # fmt: skip
        for bad in ("\ud800", 1, b"x", None):
            with pytest.raises(rolecall.RequestError) as raised:
                call(bad)
            assert raised.value.field == field


def test_weights_keep_all_their_digits_and_others_are_refused(model):
    rows = [{"messages": ASKED}]
    weights = rolecall.data.encode(rows, model, loss_weight={"content": 0.123456789, "stop": 1e-7}).to_dict()
    assert set(weights["loss_weights"][0].tolist()) == {0.0, np.float32(0.123456789), np.float32(1e-7)}
    for bad in ({"content": "x"}, {"content": None}, {"content": 10**5000}, {"content": float("nan")}, {"a": 1}):
        with pytest.raises(rolecall.RequestError):
            rolecall.data.encode(rows, model, loss_weight=bad)
    for bad in (10**5000, ODD["self list"](), np.zeros(3)):
        with pytest.raises(rolecall.RequestError):
            rolecall.data.encode(rows, model, columns=bad)
