"""LMFlow's conversation templates: ``PRESET_TEMPLATES``, templates of your own, and labels for training.

>>> from rolecall.interop.lmflow import PRESET_TEMPLATES
>>> class Letters:
...     bos_token_id, eos_token_id = 1, 2
...     def encode(self, text, add_special_tokens=True):
...         return [ord(letter) for letter in text]
>>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
>>> [(question, answer)] = PRESET_TEMPLATES["empty"].encode_conversation(Letters(), messages)
>>> question, answer
([1, 72, 105], [89, 101, 115, 2])

A template of your own:

>>> mine = ConversationTemplate(
...     user_formatter=StringFormatter(template=[TemplateComponent(type="string", content="Q: {{content}}\\n")]),
...     assistant_formatter=StringFormatter(template=[TemplateComponent(type="string", content="A: {{content}}\\n")]),
... )
>>> mine.text(messages)
'Q: Hi\\nA: Yes\\n'

For newer models LMFlow has Jinja templates, which write the same here. They were written anew, and a reply's text
carries loss as in LMFlow. LMFlow's templates may also be passed as text.

>>> render_jinja("qwen3", messages)
('<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\nYes<|im_end|>\\n', [(30, 85)])
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from .. import _rolecall
from ..errors import FormatError, RequestError, TokenizerError
from . import _lmflow_jinja, _values

__all__ = [
    "JINJA_CONVERSATION_TEMPLATES",
    "PRESET_TEMPLATES",
    "ConversationTemplate",
    "EmptyFormatter",
    "Formatter",
    "StringFormatter",
    "TemplateComponent",
    "conversation_tokenize_function",
    "render_jinja",
]

IGNORE_INDEX = -100
"""The label of a token without loss."""

CONTENT = "{{content}}"


@dataclasses.dataclass
class TemplateComponent:
    """A part of a formatter: a "string", a "token" ("bos_token", "eos_token", or a token's text), or a
    "token_id".

    >>> TemplateComponent(type="token", content="bos_token").content
    'bos_token'
    """

    type: str
    content: str | int | Sequence[Any]
    mask: bool | None = True

    def _fields(self) -> dict[str, Any]:
        return {"type": self.type, "content": self.content}


@dataclasses.dataclass
class Formatter:
    """A list of components.

    >>> Formatter([TemplateComponent("string", "U: {{content}}")]).has_placeholder()
    True
    """

    template: list[TemplateComponent] = dataclasses.field(default_factory=list)

    def has_placeholder(self) -> bool:
        """Whether a component has a place for the message's text."""
        return any(isinstance(part.content, str) and CONTENT in part.content for part in self.template or ())


@dataclasses.dataclass
class EmptyFormatter(Formatter):
    """A formatter without a place for text.

    >>> EmptyFormatter([TemplateComponent("token", "eos_token")]).has_placeholder()
    False
    """

    def format(self, **kwargs: Any) -> list[TemplateComponent]:
        """Return the components."""
        return list(self.template)


@dataclasses.dataclass
class StringFormatter(Formatter):
    """A formatter with ``{{content}}`` where a message's text belongs.

    >>> StringFormatter([TemplateComponent("string", "U: {{content}}")]).format(content="Hi")[0].content
    'U: Hi'
    """

    def format(self, **kwargs: Any) -> list[TemplateComponent]:
        """Return the components with the placeholders replaced, each once. An empty string is one space.

        >>> StringFormatter([TemplateComponent("string", "<{{content}}>")]).format(content="{{content}}")[0].content
        '<{{content}}>'
        """
        return [self._filled(part, kwargs) for part in self.template]

    @staticmethod
    def _filled(part: TemplateComponent, values: Mapping[str, Any]) -> TemplateComponent:
        if part.type != "string":
            return part
        text = _values.text("content", part.content)
        for name, value in values.items():
            text = text.replace(f"{{{{{name}}}}}", _values.text(name, value), 1)
        return dataclasses.replace(part, content=text or " ")


_FORMATTERS = ("system_formatter", "user_formatter", "assistant_formatter", "function_formatter",
               "observation_formatter", "tools_formatter")


@dataclasses.dataclass
class ConversationTemplate:
    """A template for pairs of messages.

    A subclass may have an ``encode_conversation`` or ``_encode`` of its own, which is then used.

    >>> template = ConversationTemplate(
    ...     user_formatter=StringFormatter([TemplateComponent("string", "U: {{content}}\\n")]),
    ...     assistant_formatter=StringFormatter([TemplateComponent("string", "A: {{content}}\\n")]),
    ... )
    >>> template.text([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}])
    'U: Hi\\nA: Yes\\n'
    """

    user_formatter: Formatter
    assistant_formatter: Formatter
    function_formatter: Formatter | None = None
    observation_formatter: Formatter | None = None
    tools_formatter: Formatter | None = None
    system_formatter: Formatter | None = None
    force_system: bool = False
    separator: TemplateComponent | None = None
    remove_last_sep: bool = False
    special_starter: TemplateComponent | None = None
    special_stopper: TemplateComponent | None = None
    template_name: str | None = None
    system_default: str | None = None
    stops_questions: bool = False
    """Whether the stopper also ends a conversation without a last answer, as LMFlow's document prints it for Phi-3."""

    _kind: ClassVar[str] = "ConversationTemplate"

    def encode_conversation(
        self,
        tokenizer: Any,
        messages: Sequence[Mapping[str, Any]],
        system: str | None = None,
        tools: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> list[tuple[list[int], ...]]:
        """Encode a conversation: a list of turns, each the ids of the question and of the answer.

        The system text is ``system``, or that of a first message with the role "system".

        ``tokenizer`` has ``encode(text, add_special_tokens=False)``, ``bos_token_id``, ``eos_token_id``
        and, for templates with other tokens, ``convert_tokens_to_ids``. ``tools`` are texts that describe
        a tool each. In a template with calls, a turn also has the ids of calls and results. The answer to
        a question that is still open is empty.

        Messages are used by position: a question, an answer, and so on. The ids of a text are those of the
        tokenizer; whether text that spells a control token becomes that token is its choice.

        Raises :class:`rolecall.RenderError` for a system text that the template has no place for, and
        :class:`rolecall.RequestError` for messages of the wrong shape.
        """
        return self._encode(tokenizer, messages, system, tools)

    def text(
        self,
        messages: Sequence[Mapping[str, Any]],
        system: str | None = None,
        tools: Sequence[str] | None = None,
        *,
        bos_token: str = "<s>",
        eos_token: str = "</s>",
    ) -> str:
        """Return the text of a conversation."""
        names = {"bos_token": bos_token, "eos_token": eos_token}
        turns = self._turns(messages, system, tools)
        return "".join(names.get(kind or "", text) for turn in turns for kind, text, _ in turn.pieces)

    def _encode(
        self, tokenizer: Any, messages: Sequence[Mapping[str, Any]], system: str | None, tools: Any
    ) -> list[tuple[list[int], ...]]:
        pairs: list[tuple[list[int], ...]] = []
        parts: list[list[int]] = []
        opening: list[int] = []
        for turn in self._turns(messages, system, tools):
            ids, _ = _encode_pieces(tokenizer, turn.pieces)
            if turn.slot in ("begin", "system", "system-first"):
                opening += ids
                continue
            if turn.slot == "end" and (parts or pairs):
                if not parts:
                    parts = list(pairs.pop())
                parts[-1] = parts[-1] + ids
                continue
            parts.append(opening + ids)
            opening = []
            is_answer = turn.role == "assistant" if self._has_calls() else len(parts) == 2
            if is_answer:
                pairs.append(tuple(parts))
                parts = []
        if parts:
            # The question may still be open. In a template with calls, turns have no fixed number of parts.
            pairs.append(tuple(parts) if self._has_calls() or len(parts) > 1 else (parts[0], []))
        return pairs

    def _encode_template(self, template: Sequence[TemplateComponent], tokenizer: Any) -> list[int]:
        """Return the ids of components, for an ``_encode`` of a subclass."""
        ids: list[int] = []
        for part in template:
            if part.type == "string":
                ids += _values.token_ids(tokenizer, _values.text("content", part.content))
            elif part.type == "token_id":
                ids += [part.content] if isinstance(part.content, int) else list(part.content)
            elif part.type == "token":
                kind = part.content if part.content in ("bos_token", "eos_token") else "token"
                ids += _token_ids(tokenizer, kind, part.content)
            else:
                help = "use one of `string`, `token`, `token_id`"
                raise FormatError(f"unknown component type {part.type!r}", code="unknown_name", field="type", help=help)
        return ids

    def _has_calls(self) -> bool:
        return bool(self.function_formatter is not None and self.function_formatter.template)

    def _turns(
        self,
        messages: Sequence[Mapping[str, Any]],
        system: str | None,
        tools: Any,
        *,
        purpose: str = "answer",
        loss: str | None = None,
    ) -> list[_Turn]:
        messages = _values.items("messages", messages)
        if system is not None:
            messages = [{"role": "system", "content": _values.text("system", system)}, *messages]
        tools = [_values.text(f"tools[{at}]", tool) for at, tool in enumerate(_values.items("tools", tools or []))]
        prompt = self._compiled().render(messages, tools=tools or None, purpose=purpose, add_generation_prompt=False)
        turns = []
        for slot, message, pieces in prompt.turns(loss):
            role = None if message is None else _role(message, messages[message])
            turns.append(_Turn(slot, role, [(kind, text, learned) for kind, text, _, learned in pieces]))
        return turns

    def _compiled(self) -> _rolecall.FrameworkTemplate:
        fields: dict[str, Any] = {"class": self._kind}
        for name in _FORMATTERS:
            formatter = getattr(self, name)
            if formatter is not None and not isinstance(formatter, Formatter):
                raise _values.wrong_type(name, "a StringFormatter", formatter)
            # A formatter of tools only joins them, which the class does.
            if formatter is not None and name != "tools_formatter":
                fields[name] = [_component(name, part) for part in _values.items(name, formatter.template)]
        for name in ("separator", "special_starter", "special_stopper"):
            if getattr(self, name) is not None:
                fields[name] = _component(name, getattr(self, name))
        fields["force_system"], fields["remove_last_sep"] = bool(self.force_system), bool(self.remove_last_sep)
        fields["stops_questions"] = bool(self.stops_questions)
        fields["system_default"], fields["template_name"] = self.system_default, self.template_name
        try:
            text = json.dumps(fields)
        except (TypeError, ValueError, RecursionError):
            # The engine says which value is wrong.
            return _rolecall.FrameworkTemplate.lmflow(fields)
        return _compiled_text(text)


@lru_cache(maxsize=128)
def _compiled_text(text: str) -> _rolecall.FrameworkTemplate:
    return _rolecall.FrameworkTemplate.lmflow(json.loads(text))


def _component(name: str, part: Any) -> dict[str, Any]:
    if not isinstance(part, TemplateComponent):
        raise _values.wrong_type(name, "a TemplateComponent", part)
    return part._fields()


# The kind of token, or None for text; the text; and whether it carries loss.
_Piece = tuple["str | None", str, bool]


@dataclasses.dataclass
class _Turn:
    slot: str
    role: str | None
    pieces: list[_Piece]


def _encode_pieces(tokenizer: Any, pieces: Sequence[_Piece]) -> tuple[list[int], list[int]]:
    """Return the ids and labels of a turn's pieces. Adjacent texts are encoded as one."""
    ids: list[int] = []
    labels: list[int] = []
    at = 0
    while at < len(pieces):
        kind, text, learned = pieces[at]
        at += 1
        if kind is None:
            while at < len(pieces) and pieces[at][0] is None and pieces[at][2] == learned:
                text += pieces[at][1]
                at += 1
            new = _values.token_ids(tokenizer, text)
        else:
            new = _token_ids(tokenizer, kind, text)
        ids += new
        labels += new if learned else [IGNORE_INDEX] * len(new)
    return ids, labels


def _token_ids(tokenizer: Any, kind: str, text: Any) -> list[int]:
    if kind in ("bos_token", "eos_token"):
        own = getattr(tokenizer, f"{kind}_id", None)
        # A tokenizer without the token has nothing to write.
        return [] if own is None else [own]
    if kind.startswith("#"):
        return [int(kind[1:])]
    id = tokenizer.convert_tokens_to_ids(_values.text("content", text))
    if isinstance(id, bool) or not isinstance(id, int):
        help = "use the tokenizer of the model that the template is for"
        raise TokenizerError(f"the tokenizer has no token {text!r}", code="unknown_token", help=help)
    return [id]


def conversation_tokenize_function(
    examples: Mapping[str, Sequence[Any]],
    data_args: Any,
    tokenizer: Any,
    column_names: Sequence[str] | None = None,
    conversation_template: Any = None,
) -> dict[str, list[list[int]]]:
    """Encode a batch of conversations with labels, for ``datasets.map(batched=True)``.

    ``examples`` has the column ``messages``, and may have ``system`` and ``tools``. The result has a list
    for each conversation in ``input_ids``, ``attention_mask`` and ``labels``, where -100 is the label of a
    token without loss. Answers carry loss; with ``data_args.train_on_prompt`` everything does.

    A conversation of an odd number of messages loses the last one. One with fewer than two messages, or that
    does not start with the user, has empty lists. ``conversation_template`` is a
    :class:`ConversationTemplate`, a name of ``PRESET_TEMPLATES``, or the text of a Jinja template.
    As in LMFlow, whether a text that spells a control token becomes that token is the tokenizer's choice.

    >>> class Letters:
    ...     bos_token_id, eos_token_id = 1, 2
    ...     def encode(self, text, add_special_tokens=True):
    ...         return [ord(letter) for letter in text]
    >>> class Arguments:
    ...     train_on_prompt = False
    >>> batch = {"messages": [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]}
    >>> conversation_tokenize_function(batch, Arguments(), Letters(), ["messages"], "empty")["labels"]
    [[-100, -100, 98, 2]]
    """
    template = _find(conversation_template)
    batch = _values.items("messages", _values.mapping("examples", examples).get("messages"))
    systems, tools = (examples.get(name) or [None] * len(batch) for name in ("system", "tools"))
    learns_all = bool(getattr(data_args, "train_on_prompt", False))
    found: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for messages, system, offered in zip(batch, systems, tools, strict=True):
        ids, labels = _labelled(template, tokenizer, messages, system, offered, learns_all)
        found["input_ids"].append(ids)
        found["attention_mask"].append([1] * len(ids))
        found["labels"].append(labels)
    return found


def _labelled(
    template: Any, tokenizer: Any, messages: Any, system: Any, tools: Any, learns_all: bool
) -> tuple[list[int], list[int]]:
    said = _values.items("messages", messages)
    if said and system is None and _role(0, said[0]) == "system":
        system, said = _content(said[0]), said[1:]
    if len(said) < 2 or _role(0, said[0]) != "user":
        return [], []
    said = said[: len(said) - len(said) % 2]
    if isinstance(template, str):
        return _labelled_jinja(template, tokenizer, said, system, tools, learns_all)
    own = type(template)
    renders = getattr(own, "_encode", None) is ConversationTemplate._encode
    if not renders or own.encode_conversation is not ConversationTemplate.encode_conversation:
        pairs = template.encode_conversation(tokenizer=tokenizer, messages=said, system=system, tools=tools)
        ids: list[int] = []
        labels: list[int] = []
        for question, *answer in pairs:
            rest = [id for part in answer for id in part]
            ids += [*question, *rest]
            labels += [*question, *rest] if learns_all else [*[IGNORE_INDEX] * len(question), *rest]
        return ids, labels
    ids, labels = [], []
    for turn in template._turns(said, system, tools, purpose="training", loss="all" if learns_all else "assistant"):
        more = _encode_pieces(tokenizer, turn.pieces)
        ids += more[0]
        labels += more[1]
    return ids, labels


def _role(index: int, message: Any) -> Any:
    if isinstance(message, Mapping):
        return message.get("role")
    if hasattr(message, "role"):
        return message.role
    help = "pass a dict with `role` and `content`"
    found = type(message).__name__
    raise RequestError(f"expected a dict, found {found}", code="wrong_type", message_index=index, help=help)


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, Mapping) else getattr(message, "content", None)


def _labelled_jinja(
    source: str, tokenizer: Any, messages: list[Any], system: Any, tools: Any, learns_all: bool
) -> tuple[list[int], list[int]]:
    if system is not None:
        messages = [{"role": "system", "content": _values.text("system", system)}, *messages]
    tokens = {name: getattr(tokenizer, name, None) or "" for name in ("bos_token", "eos_token")}
    text, spans = render_jinja(source, messages, tools=tools or None, **tokens)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = list(encoded["input_ids"]), encoded["offset_mapping"]
    learned = (learns_all or any(start < high and low < end for low, high in spans) for start, end in offsets)
    return ids, [id if has_loss else IGNORE_INDEX for id, has_loss in zip(ids, learned)]


def _find(template: Any) -> Any:
    if isinstance(template, str):
        if template in PRESET_TEMPLATES:
            return PRESET_TEMPLATES[template]
        if template in JINJA_CONVERSATION_TEMPLATES:
            return JINJA_CONVERSATION_TEMPLATES[template]
        if "{" not in template:
            known = ", ".join([*PRESET_TEMPLATES, *JINJA_CONVERSATION_TEMPLATES])
            help = f"use one of {known}, or pass the text of a Jinja template"
            raise FormatError(f"there is no template `{template}`", code="unknown_format", help=help)
        return template
    if not hasattr(template, "encode_conversation"):
        raise _values.wrong_type("conversation_template", "a ConversationTemplate or a name", template)
    return template


def render_jinja(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Any] | None = None,
    add_generation_prompt: bool = False,
    bos_token: str = "",
    eos_token: str = "",
) -> tuple[str, list[tuple[int, int]]]:
    """Render a Jinja template. Return the text, and its ``{% generation %}`` blocks in characters.

    ``template`` is a text, or a name of ``JINJA_CONVERSATION_TEMPLATES``. Raises
    :class:`rolecall.TemplateError` for a template with an error, or one that refuses the conversation.

    >>> render_jinja("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}", [{"role": "user", "content": "a"}])
    ('user: a', [])
    """
    template = JINJA_CONVERSATION_TEMPLATES.get(_values.text("template", template), template)
    tokens = (("bos_token", _values.word("bos_token", bos_token)), ("eos_token", _values.word("eos_token", eos_token)))
    prompt = _compiled_jinja(template, tokens).render(
        messages, tools=tools, add_generation_prompt=bool(add_generation_prompt)
    )
    return prompt.text, prompt.generated


@lru_cache(maxsize=64)
def _compiled_jinja(source: str, tokens: tuple[tuple[str, str], ...]) -> _rolecall.FrameworkTemplate:
    return _rolecall.FrameworkTemplate.jinja(source, tokens=list(tokens))


def _read_presets() -> dict[str, ConversationTemplate]:
    """Make a class for each of LMFlow's classes, and the presets of the data files."""
    files = {name.removesuffix(".json"): json.loads(text) for name, text in _rolecall.framework_data("lmflow")}
    classes: dict[str, type[ConversationTemplate]] = {ConversationTemplate.__name__: ConversationTemplate}
    for name in files.pop("about")["classes"]:
        if name not in classes:
            example = f">>> isinstance({name}(StringFormatter(), StringFormatter()), ConversationTemplate)\nTrue\n"
            body = {"__doc__": f"LMFlow's {name}.\n\n{example}", "__module__": __name__, "_kind": name}
            classes[name] = dataclasses.dataclass(type(name, (ConversationTemplate,), body))
            globals()[name] = classes[name]
            __all__.append(name)
    return {name: _preset(classes, fields) for name, fields in files.items()}


def _preset(classes: Mapping[str, type[ConversationTemplate]], fields: dict[str, Any]) -> ConversationTemplate:
    given: dict[str, Any] = {}
    for key, value in fields.items():
        # A preset encodes whole pairs, so it has no use for the prompt that opens an answer.
        if key in ("class", "generate") or value is None:
            continue
        if key in ("separator", "special_starter", "special_stopper"):
            given[key] = TemplateComponent(**value)
        elif isinstance(value, list):
            given[f"{key}_formatter"] = StringFormatter([TemplateComponent(**part) for part in value])
        else:
            given[key] = value
    return classes[fields.get("class", ConversationTemplate.__name__)](**given)


PRESET_TEMPLATES: dict[str, ConversationTemplate] = _read_presets()
"""LMFlow's presets by name."""

JINJA_CONVERSATION_TEMPLATES: dict[str, str] = dict(_lmflow_jinja.TEMPLATES)
"""Jinja templates by name: LMFlow's, in rolecall's own words. Add the text of your model's own chat template."""
