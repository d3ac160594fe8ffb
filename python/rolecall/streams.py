"""Replies that arrive in chunks: :func:`parse_stream`."""

from __future__ import annotations

import io
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import RequestError

if TYPE_CHECKING:
    from ._rolecall import Model, OutputParser

__all__ = ["EventStream", "parse_stream"]

_T = TypeVar("_T")


def parse_stream(
    opened: Model,
    /,
    chunks: Any,
    messages: Any = None,
    *,
    tools: Any = None,
    documents: Any = None,
    finish_reason: str | Callable[[], str] = "stop",
    continue_final_message: bool | None = None,
    policies: Any = None,
    as_openai: bool = False,
    id: str | None = None,
    model: str | None = None,
    created: int | None = None,
    **switches: Any,
) -> EventStream[Any]:
    """Parse a reply while it arrives. This is :meth:`Model.parse_stream`.

    ``chunks`` is an iterable or an asynchronous iterable of str, of token ids, or of lists of token ids.
    The result is an iterator of :mod:`rolecall.events`, or an asynchronous one if the chunks are. However
    the reply is cut into chunks, the events add up to the same message. The last event is a ``Stop``, unless
    the model goes on after the token that ends its turn: the rest is then reported as ``Malformed`` and
    parsed as usual.

    ``messages``, ``tools``, ``documents`` and ``switches`` are what the model answers, as in
    :meth:`Model.parse`. ``finish_reason`` says why the engine stopped: ``"stop"``, or ``"length"`` or
    ``"abort"`` for a reply that was cut off. It may be a function, which is called after the last chunk.

    With ``as_openai``, the items are dicts in the shape of OpenAI's ``chat.completion.chunk``. ``id`` is
    generated, ``model`` is the model's name, and ``created`` is the current time by default. Ids of calls
    are then different for each reply, unless ``policies`` has an ``id_seed``. If the model may write the
    id of a call after its arguments, each call is sent when it ends, so that its first chunk has this id.

    An error of the source passes through. If the consumer stops early, the source is closed.

    >>> import rolecall
    >>> qwen = rolecall.load("qwen2.5")
    >>> for event in qwen.parse_stream(["Hel", "lo<|im_", "end|>"]):
    ...     print(event)
    Content(text='Hel')
    Content(text='lo')
    Stop(reason='stop')
    >>> for chunk in qwen.parse_stream(["Hi"], as_openai=True):
    ...     print(chunk["choices"][0]["delta"])
    {'role': 'assistant', 'content': ''}
    {'content': 'Hi'}
    {}

    Raises :class:`RequestError` for chunks of another type, and :class:`ParseError` if text and ids are
    mixed.
    """
    _check(chunks)
    completion = None
    if as_openai:
        seed = int.from_bytes(os.urandom(8), "big")
        completion = {
            "id": f"chatcmpl-{seed:016x}" if id is None else id,
            "model": opened.name if model is None else model,
            "created": int(time.time()) if created is None else created,
        }
        policies = {"id_seed": seed, **(policies or {})}
    parser = opened.parser(
        messages,
        tools=tools,
        documents=documents,
        continue_final_message=continue_final_message,
        policies=policies,
        completion=completion,
        **switches,
    )
    return EventStream(parser, chunks, finish_reason)


class EventStream(Generic[_T]):
    """The events of a reply that arrives in chunks: an iterator, or an asynchronous one.

    :func:`parse_stream` makes it. It is also a context manager, which closes the source of the chunks.

    >>> import rolecall
    >>> stream = EventStream(rolecall.load("qwen2.5").parser(), ["Hi", "<|im_end|>"])
    >>> [event.type for event in stream]
    ['content', 'stop']
    >>> stream.parser.message()
    {'role': 'assistant', 'content': 'Hi'}
    """

    __slots__ = ("__weakref__", "_events", "_parser", "_source")

    def __init__(
        self, parser: OutputParser, chunks: Any, finish_reason: str | Callable[[], str] = "stop"
    ) -> None:
        _check(chunks)
        self._parser = parser
        self._events: Any
        # The generators do not refer to this object: without a cycle, a loop that ends early drops them
        # at once.
        if hasattr(chunks, "__aiter__"):
            self._source = chunks.__aiter__()
            self._events = _read_async(parser, self._source, finish_reason)
        else:
            self._source = iter(chunks)
            self._events = _read(parser, self._source, finish_reason)

    @property
    def parser(self) -> OutputParser:
        """The parser of the reply, which has the message so far."""
        return self._parser

    @property
    def is_async(self) -> bool:
        """Whether the chunks, and so the events, are asynchronous."""
        return hasattr(self._events, "__anext__")

    def __iter__(self) -> Iterator[_T]:
        if self.is_async:
            raise _refused("the chunks are asynchronous", "use `async for`")
        return self._events  # type: ignore[no-any-return]

    def __next__(self) -> _T:
        return next(self.__iter__())

    def __aiter__(self) -> AsyncIterator[_T]:
        if not self.is_async:
            raise _refused("the chunks are not asynchronous", "use `for`")
        return self._events  # type: ignore[no-any-return]

    def __anext__(self) -> Any:
        return self.__aiter__().__anext__()

    def close(self) -> None:
        """End the iteration and close the source of the chunks."""
        iter(self)
        self._events.close()
        # A generator that has not begun does not close its source.
        _close(self._source)

    async def aclose(self) -> None:
        """End the asynchronous iteration and close the source of the chunks."""
        self.__aiter__()
        await self._events.aclose()
        await _aclose(self._source)

    def __enter__(self) -> EventStream[_T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> EventStream[_T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _read(parser: OutputParser, source: Any, finish_reason: Any) -> Iterator[Any]:
    push = parser.push
    try:
        for chunk in source:
            yield from push(chunk)
        yield from parser.finish(finish_reason() if callable(finish_reason) else finish_reason)
    finally:
        _close(source)


async def _read_async(parser: OutputParser, source: Any, finish_reason: Any) -> AsyncIterator[Any]:
    push = parser.push
    try:
        async for chunk in source:
            for event in push(chunk):
                yield event
        for event in parser.finish(finish_reason() if callable(finish_reason) else finish_reason):
            yield event
    finally:
        await _aclose(source)


def _close(source: Any) -> None:
    # An open file belongs to the caller.
    close = None if isinstance(source, io.IOBase) else getattr(source, "close", None)
    if close is not None:
        close()


async def _aclose(source: Any) -> None:
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        closing = close()
        if hasattr(closing, "__await__"):
            await closing


def _check(chunks: Any) -> None:
    found = type(chunks).__name__
    if isinstance(chunks, (bytes, bytearray, memoryview)):
        raise _refused(f"expected chunks of str or token ids, found {found}", "decode the bytes first")
    if isinstance(chunks, str):
        raise _refused("expected chunks, found one str", "pass a list of chunks, or call `parse` for a whole reply")
    if not (hasattr(chunks, "__aiter__") or hasattr(chunks, "__iter__") or hasattr(chunks, "__getitem__")):
        raise _refused(f"expected an iterable of chunks, found {found}", "pass an iterator of str or token ids")


def _refused(message: str, help: str) -> RequestError:
    return RequestError(message, code="wrong_type", field="chunks", help=help)
