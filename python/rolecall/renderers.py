"""The protocol of the package ``renderers``, for the chat template of any model.

>>> import rolecall
>>> from rolecall.renderers import Renderer
>>> renderer = Renderer(rolecall.load("path/to/model"))
>>> prompt = renderer.render_ids([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
>>> sampled = [301, 706]  # "Hello", and the stop token
>>> following = renderer.bridge_to_next_turn(prompt, sampled, [{"role": "user", "content": "Thanks"}])
>>> following.token_ids[: len(prompt) + 2] == prompt + sampled, len(following.token_ids)
(True, 21)

The protocol passes ids and no conversation. :class:`Renderer` therefore remembers the sessions of the
prompts that it rendered, and finds them again by their ids. The memory is bounded. Where a prompt is not
known, ``bridge_to_next_turn`` returns None, and ``Renderer.last_miss`` says why.

The results are those of the package if it is installed, and otherwise dataclasses of this module with the
same fields.
"""

from __future__ import annotations

import copy
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cache, partial
from typing import Any, Literal

from ._prompts import Prompts
from ._rolecall import Delta, Model, Reply, Session
from .errors import EncodeError, RenderError, RequestError, SessionError, TemplateError

__all__ = [
    "Miss",
    "ParsedResponse",
    "ParsedToolCall",
    "RenderedTokens",
    "Renderer",
    "ToolCallParseStatus",
]

#: The most prompts that a renderer remembers, and the most ids in all of them together.
MAX_PROMPTS = 4096
MAX_IDS = 4_000_000

#: The most ids at the end of a prompt that say how a reply begins.
MAX_TAIL = 4096

#: The most lists of tools for which a renderer keeps what parses replies.
MAX_PARSERS = 16


class Miss(str, Enum):
    """Why ``bridge_to_next_turn`` returned None.

    >>> renderer = Renderer(rolecall.load("path/to/model"))
    >>> renderer.bridge_to_next_turn([1, 2], [3], [{"role": "user", "content": "Hi"}])
    >>> renderer.last_miss is Miss.UNKNOWN_PROMPT
    True
    """

    UNKNOWN_PROMPT = "unknown_prompt"
    """The prompt was not rendered here, or was forgotten since."""
    NO_MESSAGES = "no_messages"
    """There are no new messages."""
    ASSISTANT_MESSAGE = "assistant_message"
    """A new message is the assistant's. Its ids would not be those that were sampled."""
    OTHER_TOOLS = "other_tools"
    """The tools are not those of the prompt."""
    UNKNOWN_IDS = "unknown_ids"
    """The completion has an id that the tokenizer does not have."""
    REWRITES = "rewrites"
    """The template writes earlier turns in another way once the new messages follow."""
    REFUSED = "refused"
    """The template refuses the new messages."""

    def __str__(self) -> str:
        return self.value


@dataclass
class RenderedTokens:
    """Ids with what each belongs to: the fields of the package's class of this name.

    All lists have one entry per id. ``message_indices`` is -1 for text outside the messages.
    ``sampled_mask`` is True for what the model itself writes, and ``is_content`` also for the content of
    other messages. ``message_roles`` and ``message_tool_names`` have one entry per message.

    >>> renderer = Renderer(rolecall.load("path/to/model"))
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    >>> renderer.render(messages).message_indices
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """

    token_ids: list[int] = field(default_factory=list)
    message_indices: list[int] = field(default_factory=list)
    sampled_mask: list[bool] = field(default_factory=list)
    is_content: list[bool] = field(default_factory=list)
    message_roles: list[str] = field(default_factory=list)
    message_tool_names: list[str | None] = field(default_factory=list)
    multi_modal_data: None = None


class ToolCallParseStatus(str, Enum):
    """What became of a tool call: the values of the package's class of this name.

    >>> print(ToolCallParseStatus.UNCLOSED_BLOCK)
    unclosed_block
    """

    OK = "ok"
    INVALID_JSON = "invalid_json"
    UNCLOSED_BLOCK = "unclosed_block"
    MISSING_NAME = "missing_name"
    MALFORMED_STRUCTURE = "malformed_structure"
    UNKNOWN_TOOL = "unknown_tool"

    def __str__(self) -> str:
        return self.value


@dataclass
class ParsedToolCall:
    """A tool call of a reply: the fields of the package's class of this name.

    >>> model = rolecall.load("path/to/model")
    >>> ids = model.session().encode_sampled(
    ...     '<tool_call>\\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\\n</tool_call><|im_end|>')
    >>> [call] = Renderer(model).parse_response(ids.tolist()).tool_calls
    >>> call.name, call.arguments, str(call.status.value)
    ('get_weather', {'city': 'Oslo'}, 'ok')
    """

    raw: str
    name: str | None = None
    arguments: dict[str, Any] | str | None = None
    token_span: tuple[int, int] | None = None
    status: ToolCallParseStatus = ToolCallParseStatus.OK
    id: str | None = None


@dataclass
class ParsedResponse:
    """A parsed reply: the fields of the package's class of this name.

    >>> parsed = Renderer(rolecall.load("path/to/model")).parse_response([301, 706])
    >>> parsed.content, parsed.tool_calls
    ('Hello', [])
    """

    content: str
    reasoning_content: str | None = None
    tool_calls: list[ParsedToolCall] = field(default_factory=list)
    reasoning_complete: bool | None = True


@cache
def _types() -> Any:
    """The module with the classes of the results."""
    try:
        import renderers.base as package
    except ImportError:
        return sys.modules[__name__]
    return package


@cache
def _following() -> Any:
    """What makes the results of :meth:`Renderer.bridge_to_next_turn`: ``RenderedTokens`` whose lists about
    the ids are made when they are first read. Before the new messages, they only repeat one value."""
    rendered = _types().RenderedTokens

    class RenderedTokens(rendered):
        def __getattr__(self, name: str) -> Any:
            # Only for attributes that are not there.
            if name not in ("message_indices", "sampled_mask", "is_content"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            indices, content = self._delta.lists(self._first)
            before = self._delta.total - len(indices)
            # Longer lists are extended much faster than they are added.
            self.message_indices = [-1] * before
            self.message_indices += indices
            self.is_content = [False] * before
            self.is_content += content
            self.sampled_mask = [False] * self._delta.total
            return self.__dict__[name]

        def __eq__(self, other: object) -> bool:
            if not isinstance(other, rendered):
                return NotImplemented
            return all(getattr(self, name) == getattr(other, name) for name in names)

        __hash__ = None  # type: ignore[assignment]

        def __reduce__(self) -> tuple[Any, ...]:
            return _rendered, ({name: getattr(self, name) for name in names},)

    names = [own.name for own in fields(rendered)]
    known = {own.name for own in fields(sys.modules[__name__].RenderedTokens)}
    # What a later release of the package may add.
    others = [(own.name, own.default_factory) for own in fields(rendered) if own.name not in known]
    others = [(name, make) for name, make in others if make is not MISSING]
    RenderedTokens.__module__, RenderedTokens.__qualname__ = rendered.__module__, rendered.__qualname__

    def follow(ids: list[int], roles: list[str], tools: list[str | None], delta: Delta, first: int) -> Any:
        made = object.__new__(RenderedTokens)
        made.token_ids, made.message_roles, made.message_tool_names = ids, roles, tools
        made._delta, made._first = delta, first
        for name, make in others:
            setattr(made, name, make())
        return made

    return follow


def _rendered(values: dict[str, Any]) -> Any:
    return _types().RenderedTokens(**values)


class Renderer:
    """Renders conversations, parses replies, and continues prompts without rendering them again.

    ``switches`` are what the chat template reads besides, for example ``enable_thinking``. Where a
    template writes earlier turns in another way once a new message follows, ``on_rewrite="refuse"`` makes
    :meth:`bridge_to_next_turn` return None, so that the caller renders the conversation again;
    ``"keep"`` keeps the sampled ids.

    At most ``max_prompts`` prompts with ``max_ids`` ids are remembered; the least recently used are
    forgotten first. Threads may share a renderer.

    >>> renderer = Renderer(rolecall.load("path/to/model"), max_prompts=100)
    >>> renderer.get_stop_token_ids(), renderer.is_prefix_stable
    ([706], True)
    """

    def __init__(
        self,
        model: Model,
        *,
        on_rewrite: Literal["refuse", "keep"] = "refuse",
        max_prompts: int = MAX_PROMPTS,
        max_ids: int = MAX_IDS,
        **switches: Any,
    ) -> None:
        if not isinstance(on_rewrite, str) or on_rewrite not in ("refuse", "keep"):
            found = ascii(on_rewrite) if isinstance(on_rewrite, str) else type(on_rewrite).__name__
            raise RequestError(
                f'expected "refuse" or "keep", found {found}', code="wrong_argument", field="on_rewrite"
            )
        self.model = model
        self.on_rewrite = on_rewrite
        try:
            self.switches = copy.deepcopy(switches)
        except RecursionError:
            raise RequestError("the value nests too deeply", code="wrong_type", field="switches") from None
        #: How often ``bridge_to_next_turn`` returned None, by reason.
        self.misses: Counter[Miss] = Counter()
        #: How often it continued a prompt.
        self.hits = 0
        self._last_miss = threading.local()
        self._prompts = Prompts(max_prompts, max_ids)
        self._parsers: list[tuple[Any, Session]] = []
        self._is_prefix_stable: bool | None = None
        self._lock = threading.Lock()

    @property
    def last_miss(self) -> Miss | None:
        """Why this thread's last ``bridge_to_next_turn`` returned None, or None if it did not."""
        return getattr(self._last_miss, "why", None)

    @property
    def is_prefix_stable(self) -> bool:
        """Whether a conversation that goes on after a reply keeps the ids rendered so far.

        It is found out by rendering conversations that were chosen to expose changes. False means that
        one of them changes, or that the template refuses all of them.
        """
        if self._is_prefix_stable is None:
            self._is_prefix_stable = self.model.is_prefix_stable(**self.switches)
        return self._is_prefix_stable

    def render(
        self, messages: Sequence[Any], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> Any:
        """Render messages to ids, with what each belongs to: ``RenderedTokens``."""
        messages = _listed(messages, "messages")
        rendered = self.model.attribute(
            messages, tools=tools, add_generation_prompt=bool(add_generation_prompt), **self.switches
        )
        ids = rendered.ids.tolist()
        if add_generation_prompt:
            session = self.model.session(messages, tools=tools, **self.switches)
            if session.open().ids.tolist() == ids:
                self._prompts.add(ids.copy(), session, copy.deepcopy(tools))
        roles, names = _described(messages)
        return _types().RenderedTokens(
            token_ids=ids,
            message_indices=rendered.message_indices.tolist(),
            sampled_mask=rendered.sampled.tolist(),
            is_content=rendered.is_content.tolist(),
            message_roles=roles,
            message_tool_names=names,
        )

    def render_ids(
        self, messages: Sequence[Any], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Render messages to ids."""
        if not add_generation_prompt:
            encoded = self.model.encode(messages, tools=tools, add_generation_prompt=False, **self.switches)
            return encoded.ids.tolist()
        session = self.model.session(messages, tools=tools, **self.switches)
        ids = session.open().ids.tolist()
        self._prompts.add(ids.copy(), session, copy.deepcopy(tools))
        return ids

    def parse_response(
        self,
        token_ids: Sequence[int],
        *,
        tools: Sequence[Any] | None = None,
        prompt_ids: Sequence[int] | None = None,
    ) -> Any:
        """Parse the ids of a completion: ``ParsedResponse``.

        ``prompt_ids`` say how the reply begins, for example inside reasoning. Text that cannot be read as
        a call is part of the content, and the attempt is in ``tool_calls`` too, with its status.
        """
        # What says how a reply begins is at the end of the prompt.
        tail = None if prompt_ids is None else _listed(prompt_ids, "prompt_ids")[-MAX_TAIL:]
        return _response(self._parser(tools).parse(token_ids, prompt_ids=tail))

    def get_stop_token_ids(self) -> list[int]:
        """The ids with which the model may stop."""
        return list(self.model.stop_ids())

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
    ) -> Any | None:
        """Continue a prompt and its completion with new messages, up to the next generation prompt.

        The result is ``RenderedTokens`` whose ids begin with those of the prompt and of the completion,
        unchanged. ``message_indices`` count from the first new message. None means that this cannot be
        shown to be what the template writes; :attr:`last_miss` says why.
        """
        prompt, sampled = previous_prompt_ids, previous_completion_ids
        if not (type(prompt) is type(sampled) is type(new_messages) is list):
            new_messages = _listed(new_messages, "new_messages")
            prompt = _listed(prompt, "previous_prompt_ids")
            sampled = _listed(sampled, "previous_completion_ids")
        if not new_messages:
            return self._miss(Miss.NO_MESSAGES)
        roles, names = _described(new_messages)
        if "assistant" in roles:
            return self._miss(Miss.ASSISTANT_MESSAGE)
        known = self._prompts.get(prompt)
        if known is None:
            return self._miss(Miss.UNKNOWN_PROMPT)
        if tools is not None and (tools or known.tools) and tools != known.tools:
            return self._miss(Miss.OTHER_TOOLS)
        try:
            session, delta, first = known.session.next_turn(sampled, new_messages, on_rewrite=self.on_rewrite)
        except EncodeError:
            return self._miss(Miss.UNKNOWN_IDS)
        except SessionError as error:
            if error.code != "rewrites":
                raise
            return self._miss(Miss.REWRITES)
        except (RenderError, TemplateError):
            return self._miss(Miss.REFUSED)
        self.hits += 1
        self._last_miss.why = None
        new = sampled + delta.tolist()
        ids = prompt + new
        self._prompts.extend(known, new, ids, session)
        return _following()(ids, roles, names, delta, first)

    def _miss(self, why: Miss) -> None:
        self._last_miss.why = why
        with self._lock:
            self.misses[why] += 1

    def _parser(self, tools: Sequence[Any] | None) -> Session:
        """A session with these tools, whose model parses replies."""
        with self._lock:
            for at, (known, session) in enumerate(self._parsers):
                if known == tools:
                    # The most recent ones are first.
                    self._parsers.insert(0, self._parsers.pop(at))
                    return session
        session = self.model.session(tools=tools, **self.switches)
        with self._lock:
            self._parsers.insert(0, (copy.deepcopy(tools), session))
            del self._parsers[MAX_PARSERS:]
        return session

    def __repr__(self) -> str:
        return f"Renderer({self.model!r}, {len(self._prompts)} prompts remembered)"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "model": self.model, "on_rewrite": self.on_rewrite, "max_prompts": self._prompts.most,
            "max_ids": self._prompts.most_ids, **{f"switch_{name}": value for name, value in self.switches.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        switches = {name[7:]: state[name] for name in state if name.startswith("switch_")}
        self.__init__(  # type: ignore[misc]
            state["model"], on_rewrite=state["on_rewrite"], max_prompts=state["max_prompts"],
            max_ids=state["max_ids"], **switches,
        )


def _listed(values: Any, argument: str) -> list[Any]:
    """Values as a list of plain objects."""
    if type(values) is list:
        return values
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)) or (
        isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray, memoryview))
    ):
        return list(values)
    found = type(values).__name__
    raise RequestError(
        f"expected a list, found {found}", code="wrong_type", field=argument, help="pass a list of ids, or of messages"
    )


def _get(message: Any, name: str) -> Any:
    if type(message) is dict or isinstance(message, Mapping):
        return message.get(name)
    return getattr(message, name, None)


def _described(messages: Sequence[Any]) -> tuple[list[str], list[str | None]]:
    """The role of each message, and the name of the tool that it is a result from: its own, or that of the
    call with its id."""
    called: dict[Any, str] = {}
    roles: list[str] = []
    names: list[str | None] = []
    for message in messages:
        get = message.get if type(message) is dict else partial(_get, message)
        role, name = get("role") or "", None
        if role == "tool":
            name = get("name") or (called and called.get(get("tool_call_id")))
        elif role == "assistant":
            for call in get("tool_calls") or ():
                function = _get(call, "function")
                if isinstance(_get(call, "id"), str) and isinstance(_get(function, "name"), str):
                    called[_get(call, "id")] = _get(function, "name")
        roles.append(role)
        names.append(name if isinstance(name, str) and name else None)
    return roles, names


def _response(reply: Reply) -> Any:
    types = _types()
    statuses = types.ToolCallParseStatus
    reading = reply.reading
    message = reading["message"]
    # What is wrong, and where: the text that was read as no call, or a call that has a fault.
    faults = [(*fault["span"], _STATUSES[fault["code"]]) for fault in reading["malformed"] if fault["code"] in _STATUSES]
    text = reply.bytes.decode("utf-8", "replace").encode()
    attempts = []
    for call, place in zip(message.get("tool_calls", []), reply.calls):
        function = call["function"]
        arguments = _object(function["arguments"])
        is_good = isinstance(arguments, dict) and place["whole"]
        # A call that was recognized only at the end has no place, but its fault may have one.
        first, end = place["bytes"] or (faults[0][:2] if faults and not is_good else (len(text), len(text)))
        own = [fault for fault in faults if fault[0] < end and fault[1] > first]
        faults = [fault for fault in faults if fault not in own]
        if is_good:
            status = statuses.OK
        elif own:
            status = statuses(own[0][2])
        else:
            status = statuses.INVALID_JSON if place["whole"] else statuses.UNCLOSED_BLOCK
        raw = text[first:end].decode("utf-8", "replace")
        attempt = types.ParsedToolCall(
            raw=raw or json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False),
            name=function["name"] or None,
            arguments=arguments,
            token_span=place["ids"] and tuple(place["ids"]),
            status=status,
            # Other ids are not the model's own.
            id=call["id"] if call.get("id") and call["id"].encode() in text[:end] else None,
        )
        attempts.append((first, attempt))
    for first, end, status in faults:
        raw = text[first:end].decode("utf-8", "replace")
        if raw.strip():
            attempts.append((first, types.ParsedToolCall(raw=raw, status=statuses(status))))
    attempts.sort(key=lambda attempt: attempt[0])
    return types.ParsedResponse(
        content=message["content"] or "",
        reasoning_content=message.get("reasoning_content"),
        tool_calls=[attempt for _, attempt in attempts],
        reasoning_complete=not reply.in_reasoning,
    )


#: The status of an attempt by what is wrong with it.
_STATUSES = {
    "bad_value": "invalid_json",
    "too_deep": "invalid_json",
    "unfinished": "unclosed_block",
    "expected": "malformed_structure",
    "too_long": "malformed_structure",
    "unknown_name": "unknown_tool",
}


def _object(arguments: Any) -> Any:
    """Arguments as a dict, or as they are if they are none."""
    if not isinstance(arguments, str):
        return arguments
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return read if isinstance(read, dict) else arguments
