"""Python functions as tools of a model: their definitions, and calls with arguments in JSON."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from .errors import RequestError

#: The types of JSON schemas for annotations without parameters.
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def read_tools(tools: Any) -> list[tuple[str, dict[str, Any], Callable[..., Any]]]:
    """Return the name, the definition and the function of each tool."""
    if isinstance(tools, (str, bytes, Mapping)) or not hasattr(tools, "__iter__"):
        raise _refused(f"expected a list of functions, found {type(tools).__name__}", code="wrong_type")
    read: dict[str, tuple[str, dict[str, Any], Callable[..., Any]]] = {}
    for at, tool in enumerate(tools):
        name, *rest = _read_tool(tool, f"tools[{at}]")
        if name == "code_interpreter":
            raise _refused("`code_interpreter` is the name of the interpreter", f"tools[{at}]")
        if name in read:
            raise _refused(f"two tools have the name `{name}`", f"tools[{at}]")
        read[name] = (name, *rest)
    return list(read.values())


def _read_tool(tool: Any, field: str) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    if isinstance(tool, Mapping):
        described: Any = {key: value for key, value in tool.items() if key != "call"}
        call = tool.get("call")
    elif isinstance(tool, (tuple, list)) and len(tool) == 2:
        described, call = tool
    elif callable(tool):
        described, call = definition(tool, field), tool
    else:
        raise _refused(f"expected a function or a dict, found {type(tool).__name__}", field, code="wrong_type")
    if not callable(call):
        help = 'pass a function, or {"function": {..}, "call": f} with the function that is called'
        raise _refused("expected a function that is called", field, code="wrong_type", help=help)
    _refuse_coroutines(call, field)
    function = described.get("function") if isinstance(described, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise _refused('expected a definition {"function": {"name": ..}}', field, code="wrong_type")
    return name, {"type": "function", **described}, call


def definition(function: Callable[..., Any], field: str = "tools") -> dict[str, Any]:
    """Return a function's definition in OpenAI's form, from its name, docstring and type hints.

    >>> def weather(city: str, days: int = 1) -> str:
    ...     '''Get the weather.
    ...
    ...     Args:
    ...         city: The city's name.
    ...     '''
    >>> definition(weather)["function"]["parameters"]["properties"]["city"]
    {'type': 'string', 'description': "The city's name."}
    """
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        help = 'pass {"function": {"name": .., "parameters": ..}, "call": f}'
        raise _refused("expected a function with a name", field, help=help)
    _refuse_coroutines(function, field)
    where = f"{field}.{name}"
    try:
        parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
        raise _refused(f"its signature cannot be read: {error}", where) from error
    description, described = _read_docstring(inspect.getdoc(function) or "")
    properties, required = {}, []
    for parameter in parameters.values():
        place = f"{where}.{parameter.name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _refused(f"a model cannot pass `{parameter}`: it passes arguments by name", place)
        if parameter.name not in hints:
            raise _refused("expected a type hint", place)
        schema = _schema(hints[parameter.name], place)
        if "description" not in schema and parameter.name in described:
            schema["description"] = described[parameter.name]
        properties[parameter.name] = schema
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    own = {"name": name, "description": description, "parameters": schema}
    if not description:
        del own["description"]
    return {"type": "function", "function": own}


def call(function: Callable[..., Any], arguments: str) -> tuple[bool, str]:
    """Call a function, and return whether it worked, and what the model reads."""
    try:
        value = function(**json.loads(arguments))
        text = str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text.encode()
        return True, text
    except Exception as error:
        return False, _message(error)


def _message(error: Exception) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = ""
    text = f"{name}: {message}" if message else name
    return text.encode("utf-8", "replace").decode()


def _schema(hint: Any, place: str) -> dict[str, Any]:
    """Return the JSON schema of a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = _schema(arguments[0], place)
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], place)}
    if origin is dict and arguments[0] is str:
        values = {} if arguments[1] is Any else {"additionalProperties": _schema(arguments[1], place)}
        return {"type": "object", **values}
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        return {**_schema(next(one for one in arguments if one is not type(None)), place), "nullable": True}
    if origin is typing.Literal:
        kinds = {type(value) for value in arguments}
        if len(kinds) == 1 and kinds <= {str, int, bool}:
            return {"type": _PLAIN[kinds.pop()], "enum": list(arguments)}
    raise _refused(
        f"expected a type hint that JSON can hold, found {hint!r}",
        place,
        code="unknown_annotation",
        help="use str, int, float, bool, list, dict, Optional or Literal, or pass the definition as a dict",
    )


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's description, and those of the arguments in its section ``Args:``."""
    lines = text.splitlines()
    sections = [at for at, line in enumerate(lines) if _SECTION.match(line)]
    description = "\n".join(lines[: sections[0] if sections else len(lines)]).strip()
    described: dict[str, str] = {}
    for at in sections:
        if lines[at].startswith(("Args", "Arguments", "Parameters")):
            end = next((later for later in sections if later > at), len(lines))
            name = None
            for line in inspect.cleandoc("\n" + "\n".join(lines[at + 1 : end])).splitlines():
                found = None if line.startswith(" ") else _ARGUMENT.match(line)
                if found:
                    name, described[found[1]] = found[1], found[2].strip()
                elif name and line.strip():
                    described[name] = f"{described[name]} {line.strip()}".strip()
    return description, {name: text for name, text in described.items() if text}


def _refuse_coroutines(function: Any, field: str) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        help = "pass a function that runs it, for example with asyncio.run"
        raise _refused("a coroutine cannot be called from a thread", field, help=help)


def _refused(message: str, field: str = "tools", code: str = "wrong_argument", help: str | None = None) -> RequestError:
    return RequestError(message, code=code, field=field, help=help)
