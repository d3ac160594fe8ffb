"""The process of a template with code of its own, for ``rolecall serve --template-python``.

``python -m rolecall.serving._template_process FILE.py:NAME`` imports the file, or a module by its name, and renders
conversations: a JSON object per line on the standard input, and one on the standard output. What the code prints goes
to the standard error. The process ends when its standard input does.

A second process, made before the first conversation, runs the code with the texts of conversations. The first one has
only marks in their places, so whatever the code remembers, it never writes a text as its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import queue
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ..errors import OpenError, RolecallError
from ..interop import lmdeploy
from ..interop._code import CodeTemplate

# The name of a file's module.
_FILE_MODULE = "rolecall_template"

_METHODS = ("messages2prompt", "get_prompt")


def open_template(asked: str) -> CodeTemplate:
    """Open the template of a file or module: ``FILE.py``, ``FILE.py:NAME``, ``MODULE`` or ``MODULE:NAME``."""
    place, _, name = asked.rpartition(":")
    if not place or Path(asked).is_file():
        place, name = asked, ""
    _stand_in_for_lmdeploy()
    module = _imported(place)
    found = dict(_templates(module))
    if not name:
        classes = {id(made): known for known, made in found.items()}
        if len(classes) != 1:
            known = ", ".join(f"`{place}:{known}`" for known in found) or "a class with `messages2prompt`"
            what = "several templates" if found else "no template"
            raise OpenError(f"{place} has {what}", code="ambiguous", field="template_python", help=f"name {known}")
        # A registered name comes first.
        name = next(iter(found))
    if name not in found:
        known = ", ".join(f"`{known}`" for known in found) or "none"
        help = f"its templates are: {known}"
        raise OpenError(f"{place} has no template `{name}`", code="unknown_name", field="template_python", help=help)
    return lmdeploy.code_template(found[name](), name)


def _stand_in_for_lmdeploy() -> None:
    """Let a file that imports ``lmdeploy.model`` work without LMDeploy."""
    if "lmdeploy" in sys.modules or importlib.util.find_spec("lmdeploy") is not None:
        return
    package = types.ModuleType("lmdeploy")
    package.__path__ = []
    package.model = lmdeploy
    package.ChatTemplateConfig = lmdeploy.ChatTemplateConfig
    sys.modules["lmdeploy"] = package
    sys.modules["lmdeploy.model"] = lmdeploy


def _imported(place: str) -> types.ModuleType:
    path = Path(place)
    if not path.is_file():
        if place.endswith(".py") or os.sep in place:
            help = "pass the path of a Python file, or the name of a module"
            raise OpenError(f"there is no file {place}", code="unreadable", field="template_python", help=help)
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location(_FILE_MODULE, path)
    if spec is None or spec.loader is None:
        raise OpenError(f"{place} is not a Python file", code="wrong_type", field="template_python", help="name it .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_FILE_MODULE] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _templates(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """The templates that a module defines, by their names: the registered ones, and then the others."""
    registries = [lmdeploy.MODELS]
    real = sys.modules.get("lmdeploy.model")
    if real is not None and real is not lmdeploy:
        registries.append(real.MODELS)
    for registry in registries:
        for name, made in registry.module_dict.items():
            if getattr(made, "__module__", None) == module.__name__:
                yield name, made
    for name, made in vars(module).items():
        is_class = isinstance(made, type) and made.__module__ == module.__name__
        if is_class and any(callable(getattr(made, method, None)) for method in _METHODS):
            yield name, made


class _Twin:
    """A process that runs the code with texts."""

    def __init__(self, template: CodeTemplate) -> None:
        ours, its = socket.socketpair()
        if os.fork() == 0:
            ours.close()
            os.register_at_fork(after_in_child=lambda: os._exit(1))
            source, out = its.makefile("r", encoding="utf-8"), its.makefile("w", encoding="utf-8")
            _answer_all(source, out, lambda asked: {"text": template.text(asked["messages"], asked["switches"])})
            os._exit(0)
        its.close()
        self._answers, self._questions = ours.makefile("r", encoding="utf-8"), ours.makefile("w", encoding="utf-8")

    def write(self, messages: Any, switches: Any) -> str:
        """Return what the code writes."""
        print(json.dumps({"messages": messages, "switches": switches}), file=self._questions, flush=True)
        line = self._answers.readline()
        if not line:
            # Whoever asked starts both again.
            os._exit(1)
        answer = json.loads(line)
        if error := answer.get("error"):
            message = error.pop("message")
            raise RolecallError(message, **error)
        return answer["text"]


def _error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, RolecallError):
        parts = {"code": error.code, "message_index": error.message_index, "field": error.field, "help": error.help}
        return {"error": {"message": _words(error.args[0]), **parts}}
    return {"error": {"message": _words(f"{type(error).__name__}: {error}"), "code": "code_failed"}}


def _words(text: object) -> str:
    """A text without surrogates, which are no characters."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _answer_all(source: TextIO, out: TextIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer lines, each with its number, until there are no more."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_lines, args=(source, lines), daemon=True).start()
    while (line := lines.get()) is not None:
        number = None
        try:
            asked = json.loads(line)
            number = asked.get("number")
            answered = answer(asked)
        except Exception as error:
            answered = _error(error)
        print(json.dumps({"number": number, **answered}), file=out, flush=True)


def _lines(source: TextIO, lines: queue.SimpleQueue[str | None]) -> None:
    for line in source:
        lines.put(line)
    # Whoever asked has gone. The code may be in an endless loop.
    lines.put(None)
    time.sleep(1)
    os._exit(1)


def main(asked: str) -> None:
    """Answer what comes on the standard input."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    source = os.fdopen(os.dup(sys.stdin.fileno()), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())

    try:
        template = open_template(asked)
        first = {"name": template.name, "stop_words": template.stop_words}
    except Exception as error:
        first = _error(error)
    if "error" not in first:
        twin = _Twin(template)
        # A process that the code forks would answer, too.
        os.register_at_fork(after_in_child=lambda: os._exit(1))
    print(json.dumps(first), file=out, flush=True)
    if "error" not in first:
        write = twin.write
        _answer_all(source, out, lambda asked: {"pieces": template.pieces(asked["messages"], asked["switches"], write)})


if __name__ == "__main__":
    main(sys.argv[1])
