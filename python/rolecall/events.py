"""Events of a reply that is being parsed.

:meth:`OutputParser.push` and :meth:`Model.parse_stream` return them in the order of the reply. They are
frozen dataclasses, so ``match`` works, and each has a ``type``, which is the name that
``rolecall parse --events`` prints.

>>> import rolecall
>>> from rolecall.events import CallStarted, Content
>>> said = []
>>> for event in rolecall.load("qwen2.5").parse_stream(["Hel", "lo<|im_", "end|>"]):
...     match event:
...         case Content(text):
...             said.append(text)
...         case CallStarted(index, id, name):
...             print("calls", name)
>>> said
['Hel', 'lo']
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Union

__all__ = [
    "Arguments",
    "CallFinished",
    "CallStarted",
    "Code",
    "CodeStarted",
    "Content",
    "Event",
    "Malformed",
    "Reasoning",
    "Stop",
]


class _Event:
    __slots__ = ()
    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the event as ``rolecall parse --events`` prints it.

        >>> Content("Hi").to_dict()
        {'type': 'content', 'text': 'Hi'}
        """
        values = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        given = {name: list(value) if name == "span" else value for name, value in values if value is not None}
        return {"type": self.type, **given}


@dataclass(frozen=True, slots=True)
class Content(_Event):
    """A delta of the answer.

    >>> rolecall.load("path/to/model").parser().push("Hello")
    [Content(text='Hello')]
    """

    type: ClassVar[Literal["content"]] = "content"
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning(_Event):
    """A delta of the reasoning.

    >>> rolecall.load("path/to/model").parser().push("<think>\\nHm")
    [Reasoning(text='Hm')]
    """

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted(_Event):
    """A call of a function begins.

    ``index`` counts the calls of the turn from 0. ``id`` is the model's own if it wrote one before the
    arguments, or else a generated one.

    >>> parser = rolecall.load("path/to/model").parser(policies={"id_seed": 1})
    >>> event = parser.push('<tool_call>\\n{"name": "get_time", "arguments": {')[0]
    >>> event.index, event.name, event.id[:5]
    (0, 'get_time', 'call_')
    """

    type: ClassVar[Literal["call_started"]] = "call_started"
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Arguments(_Event):
    """A delta of a call's arguments, as JSON text. Emitted text is never retracted.

    >>> parser = rolecall.load("path/to/model").parser()
    >>> [started, arguments] = parser.push('<tool_call>\\n{"name": "get_time", "arguments": {"zone": "U')
    >>> arguments
    Arguments(index=0, text='{"zone": "U')
    """

    type: ClassVar[Literal["arguments"]] = "arguments"
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallFinished(_Event):
    """A call ends.

    ``whole`` says whether its arguments or code are complete. ``id`` is the model's own if it wrote one
    after the name; it replaces the generated one.

    >>> parser = rolecall.load("path/to/model").parser()
    >>> events = parser.push('<tool_call>\\n{"name": "get_time", "arguments": {}}\\n</tool_call>') + parser.finish()
    >>> [event for event in events if event.type == "call_finished"]
    [CallFinished(index=0, whole=True, id=None)]
    """

    type: ClassVar[Literal["call_finished"]] = "call_finished"
    index: int
    whole: bool
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CodeStarted(_Event):
    """A call of the code interpreter begins. Functions and code are counted together.

    >>> parser = rolecall.load("internlm2").parser()
    >>> parser.push("<|action_start|><|interpreter|>\\nprint(1)<|action_end|>")[0].type
    'code_started'
    """

    type: ClassVar[Literal["code_started"]] = "code_started"
    index: int
    id: str


@dataclass(frozen=True, slots=True)
class Code(_Event):
    """A delta of the code for the code interpreter.

    >>> parser = rolecall.load("internlm2").parser()
    >>> parser.push("<|action_start|><|interpreter|>\\nprint(1)<|action_end|>")[1]
    Code(index=0, text='print(1)')
    """

    type: ClassVar[Literal["code"]] = "code"
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Stop(_Event):
    """The turn ends, because the model closed it (``"stop"``) or the reply was cut off.

    >>> rolecall.load("path/to/model").parser().finish("length")
    [Stop(reason='length')]
    """

    type: ClassVar[Literal["stop"]] = "stop"
    reason: Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class Malformed(_Event):
    """A part of the reply does not match the layout. Its text becomes content.

    ``span`` is the start and end in bytes, from the start of the reply. ``code`` is a stable name of the
    kind of fault.

    >>> parser = rolecall.load("path/to/model").parser()
    >>> events = parser.push("<tool_call>\\nno JSON\\n</tool_call>") + parser.finish()
    >>> [event.code for event in events if event.type == "malformed"]
    ['...']
    """

    type: ClassVar[Literal["malformed"]] = "malformed"
    span: tuple[int, int]
    code: str
    message: str


#: Any event.
Event = Union[
    Content, Reasoning, CallStarted, Arguments, CallFinished, CodeStarted, Code, Stop, Malformed
]
