"""What the plug-ins share: the model of a tokenizer, and the reply as the engines cut it."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import rolecall
from rolecall import events

_models: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_named: dict[str, Any] = {}
_lock = threading.Lock()


def model_of(tokenizer: Any) -> Any:
    """Return the model of an engine's tokenizer. It is opened once."""
    named = os.environ.get("ROLECALL_MODEL")
    if tokenizer is None and not named:
        raise rolecall.OpenError(
            "the engine passed no tokenizer", code="no_tokenizer", help="set ROLECALL_MODEL to the model's folder"
        )
    with _lock:
        if named:
            if named not in _named:
                _named[named] = rolecall.load(named)
            return _named[named]
        try:
            known = _models.get(tokenizer)
        except TypeError:
            # It cannot be hashed, or not be referred to weakly.
            return rolecall.load(tokenizer)
        if known is None:
            known = _models[tokenizer] = rolecall.load(tokenizer)
        return known


def switches_of(arguments: Any) -> dict[str, Any]:
    """Return the switches for templates among a request's ``chat_template_kwargs``."""
    taken = {"messages", "tools", "documents", "continue_final_message", "policies", "completion", "prompt_tail"}
    if not isinstance(arguments, Mapping):
        return {}
    return {str(name): value for name, value in arguments.items() if name not in taken}


def tools_of(tools: Any) -> list[Any] | None:
    """Return the functions among a request's tools, in the shape of chat completions."""
    found = []
    for tool in tools or []:
        tool = tool if isinstance(tool, Mapping) else tool.model_dump(exclude_none=True)
        if tool.get("type", "function") != "function":
            continue
        if "function" not in tool:
            tool = {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
        found.append({"type": "function", "function": tool["function"]})
    return found or None


def split_of(model: Any, switches: Mapping[str, Any], tail: str | None) -> Any:
    """Return the splitter of a reply."""
    try:
        return model.reasoning_split(prompt_tail=tail, **switches)
    except rolecall.RolecallError:
        if not switches:
            raise
        # The template may refuse a switch for an assumed conversation.
        return model.reasoning_split(prompt_tail=tail)


class Call:
    """A part of a call: its start if it has a name, and added arguments."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int, id: str | None = None, name: str | None = None, arguments: str = "") -> None:
        self.index, self.id, self.name, self.arguments = index, id, name, arguments


class Answer:
    """The part of a reply after its reasoning: text and calls."""

    def __init__(
        self, model: Any, tools: list[Any] | None, *, after_reasoning: bool = True, policies: Any = None
    ) -> None:
        # Ids of calls must differ between replies.
        policies = {"id_seed": int.from_bytes(os.urandom(8), "big"), **(policies or {})}
        options = {"policies": policies, "after_reasoning": after_reasoning}
        try:
            self._parser = model.parser(tools=tools, **options)
        except rolecall.RolecallError:
            # The tools only determine the types of arguments.
            self._parser = model.parser(**options)
        self._is_code: set[int] = set()

    def push(self, text: str) -> tuple[str, list[Call]]:
        """Return the text and the parts of calls that are now certain."""
        return self._parts(self._parser.push(text))

    def finish(self) -> tuple[str, list[Call]]:
        """Return what was held back."""
        return self._parts([] if self._parser.finished else self._parser.finish())

    def _parts(self, found: list[Any]) -> tuple[str, list[Call]]:
        text: list[str] = []
        calls: list[Call] = []

        def call(index: int) -> Call:
            if not calls or calls[-1].index != index:
                calls.append(Call(index))
            return calls[-1]

        for event in found:
            match event:
                # Reasoning after the reasoning has no other place.
                case events.Content(delta) | events.Reasoning(delta):
                    text.append(delta)
                case events.CallStarted(index, id, name):
                    calls.append(Call(index, id, name))
                case events.Arguments(index, delta):
                    call(index).arguments += delta
                case events.CodeStarted(index, id):
                    # The engines know functions only.
                    self._is_code.add(index)
                    calls.append(Call(index, id, "code_interpreter", '{"input": "'))
                case events.Code(index, delta):
                    call(index).arguments += json.dumps(delta, ensure_ascii=False)[1:-1]
                case events.CallFinished(index):
                    if index in self._is_code:
                        call(index).arguments += '"}'
        return "".join(text), calls


def whole(parts: list[Call]) -> list[Call]:
    """Join the parts of each call."""
    calls: dict[int, Call] = {}
    for part in parts:
        known = calls.setdefault(part.index, Call(part.index))
        known.id = part.id or known.id
        known.name = part.name or known.name
        known.arguments += part.arguments
    return list(calls.values())
