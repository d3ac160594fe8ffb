"""XTuner's prompt templates: ``PROMPT_TEMPLATE``, the map functions, and ``encode_fn``.

>>> from rolecall.interop.xtuner import PROMPT_TEMPLATE, openai_map_fn, template_map_fn_factory
>>> example = {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}
>>> map_fn = template_map_fn_factory(PROMPT_TEMPLATE.vicuna)
>>> map_fn(openai_map_fn(example))["conversation"][0]["input"]
'USER: 2+2? ASSISTANT:'

A template of your own is a dict with the same fields:

>>> mine = dict(INSTRUCTION="Q: {input}\\nA: ", SEP="\\n")
>>> template_map_fn({"conversation": [{"input": "{x}?", "output": "y"}]}, mine)["conversation"][0]["input"]
'Q: {x}?\\nA: '
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from .. import _rolecall
from ..errors import FormatError, RequestError
from . import _values

__all__ = [
    "DEFAULT_IMAGE_TOKEN",
    "IGNORE_INDEX",
    "IMAGE_TOKEN_INDEX",
    "MODEL_TEMPLATES",
    "PROMPT_TEMPLATE",
    "SYSTEM_TEMPLATE",
    "ConfigDict",
    "TemplateName",
    "chat_inputs",
    "encode_fn",
    "get_bos_eos_token_ids",
    "openai_map_fn",
    "stop_words",
    "template_map_fn",
    "template_map_fn_factory",
    "template_of",
]

IGNORE_INDEX = -100
"""The label of a token without loss."""

DEFAULT_IMAGE_TOKEN = "<image>"
"""The text that stands for an image."""

IMAGE_TOKEN_INDEX = -200
"""The id that stands for an image."""

_FIELDS = ("SYSTEM", "INSTRUCTION", "SUFFIX", "SUFFIX_AS_EOS", "SEP", "STOP_WORDS")


class ConfigDict(dict):
    """A dict whose items are attributes too.

    >>> template = ConfigDict(INSTRUCTION="{input}")
    >>> template.INSTRUCTION, template["INSTRUCTION"], template.get("SEP", "")
    ('{input}', '{input}', '')
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no `{name}`; there are {', '.join(map(str, self))}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"there is no `{name}`") from None

    def copy(self) -> ConfigDict:
        return type(self)(self)


def _read_files() -> tuple[ConfigDict, ConfigDict, dict[str, list[int]]]:
    files = {name.removesuffix(".json"): json.loads(text) for name, text in _rolecall.framework_data("xtuner")}
    about = files.pop("about")
    # `none` is this project's name for no template, and `models` is the table of models.
    templates = {name: ConfigDict(fields) for name, fields in files.items() if name not in ("models", "none")}
    return ConfigDict(templates), ConfigDict(about["system_templates"]), about["tokenizer_classes"]


PROMPT_TEMPLATE, SYSTEM_TEMPLATE, _BOS_IDS = _read_files()


class TemplateName(str):
    """The name of a template in ``PROMPT_TEMPLATE``, as XTuner's table of models has it.

    >>> name = template_of("internlm/internlm2-7b")
    >>> name
    'default'
    >>> name.footnote
    'the official template has special tokens that were not trained in pretraining, so the template `default` is used'
    """

    footnote: str | None
    """What the table's footnote says, or None if the model has no star."""

    def __new__(cls, name: str, footnote: str | None = None) -> TemplateName:
        own = super().__new__(cls, _values.text("name", name))
        own.footnote = footnote
        return own

    def __getnewargs__(self) -> tuple[str, str | None]:
        return str(self), self.footnote


MODEL_TEMPLATES = {model: TemplateName(name, note) for model, name, note in _rolecall.xtuner_models()}
"""XTuner's table: the template of each model."""


def template_of(model: str) -> TemplateName:
    """Return the name of the template that XTuner's table has for a model.

    ``model`` is the model's name, or a path whose last part is that of the name. Case does not matter.
    Raises :class:`rolecall.FormatError` for a model that is not in the table.

    >>> template_of("internlm/internlm2-chat-7b")
    'internlm2_chat'
    >>> PROMPT_TEMPLATE[template_of("models/vicuna-7b-v1.5")].SEP
    '\\n'
    """
    found = _rolecall.xtuner_model(_values.word("model", model))
    if found is None:
        help = "use a name of PROMPT_TEMPLATE, or rolecall.load(model) for any other model"
        raise FormatError(f"XTuner's table has no model `{model}`", code="unknown_model", field="model", help=help)
    return TemplateName(*found[1:])


def _template(template: Any) -> dict[str, Any]:
    """Return the fields of a template, given as a dict or by its name in ``PROMPT_TEMPLATE``."""
    if isinstance(template, str):
        if template not in PROMPT_TEMPLATE:
            help = f"use one of {', '.join(PROMPT_TEMPLATE)}, or pass a dict"
            raise FormatError(f"there is no template `{template}`", code="unknown_format", help=help)
        template = PROMPT_TEMPLATE[template]
    return dict(_values.mapping("template", template))


def _compiled(template: Any, bos: Sequence[str] = ("<s>",), eos: str = "</s>") -> _rolecall.FrameworkTemplate:
    fields = _template(template)
    try:
        key = json.dumps(fields)
    except (TypeError, ValueError, RecursionError):
        # The engine says which value is wrong.
        return _rolecall.FrameworkTemplate.xtuner(fields, bos=list(bos), eos=eos)
    return _compiled_text(key, tuple(bos), eos)


@lru_cache(maxsize=128)
def _compiled_text(text: str, bos: tuple[str, ...], eos: str) -> _rolecall.FrameworkTemplate:
    return _rolecall.FrameworkTemplate.xtuner(json.loads(text), bos=list(bos), eos=eos)


def openai_map_fn(example: Mapping[str, Any]) -> dict[str, Any]:
    """Turn messages into pairs of an input and an output: ``{"conversation": [..]}``.

    ``example`` has ``messages``, or is the list itself. A system text belongs to the pair after it.
    Assistant messages that open the conversation, and user messages without an answer, are left out.
    Several user messages in a row are joined without a separator. A message may have ``loss``, a bool or
    "true": it says whether an answer carries loss, and becomes ``output_with_loss``. Any other str means
    that it does not.

    Raises :class:`rolecall.RequestError` for another role, or for a message without text.

    >>> openai_map_fn({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    {'conversation': [{'system': '', 'input': 'a', 'output': 'b'}]}
    """
    messages = example if isinstance(example, (list, tuple)) else _values.mapping("example", example).get("messages")
    pairs: list[dict[str, Any]] = []
    system, asked, is_open = "", "", False
    for index, message in enumerate(_values.items("messages", messages)):
        role, content = _read_message(index, message)
        if role == "system":
            system, is_open = content, True
        elif role == "user":
            asked, is_open = asked + content, True
        elif role == "assistant":
            if not is_open:
                continue
            pair = {"system": system, "input": asked, "output": content}
            # A column of a table has None where a message has no such key.
            if message.get("loss") is not None:
                pair["output_with_loss"] = _is_learned(index, message["loss"])
            pairs.append(pair)
            system, asked = "", ""
        else:
            help = "use `system`, `user` or `assistant`"
            message = f"unknown role {role!r}"
            raise RequestError(message, code="unknown_role", message_index=index, field="role", help=help)
    return {"conversation": pairs}


def _read_message(index: int, message: Any) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        found = type(message).__name__
        help = "pass a dict with `role` and `content`"
        raise RequestError(f"expected a dict, found {found}", code="wrong_type", message_index=index, help=help)
    role, content = message.get("role"), message.get("content")
    # An answer without content is empty.
    content = "" if content is None and "content" in message else content
    for field, value in (("role", role), ("content", content)):
        if not isinstance(value, str):
            found = type(value).__name__
            help = f"add `{field}`" if field not in message else f"write a str as `{field}`"
            message = f"expected a str, found {found}"
            raise RequestError(message, code="wrong_type", message_index=index, field=field, help=help)
    return role, content


def _is_learned(index: int, loss: Any) -> bool:
    if isinstance(loss, str):
        return loss.lower() == "true"
    if not isinstance(loss, bool):
        help = "write true or false"
        message = f"expected a bool, found {loss!r}"
        raise RequestError(message, code="wrong_type", message_index=index, field="loss", help=help)
    return loss


def template_map_fn(example: Mapping[str, Any], template: Any) -> dict[str, Any]:
    """Write the pairs of ``example["conversation"]`` with a template.

    Each pair of ``system``, ``input`` and ``output`` gets the model's whole ``input``, the ``output`` with
    its suffix, ``need_eos_token``, and ``sep``. Other keys are kept. The example itself is not changed.
    ``template`` is a dict, or a name of ``PROMPT_TEMPLATE``.

    Raises :class:`rolecall.FormatError` for a template that cannot be read, and
    :class:`rolecall.RenderError` for a system text with a template that has no ``SYSTEM``.

    >>> pairs = [{"system": "Be brief.", "input": "2+2?", "output": "4"}]
    >>> template_map_fn({"conversation": pairs}, "internlm_chat")["conversation"][0]["output"]
    '4<eoa>'
    """
    pairs = _values.items("conversation", _values.mapping("example", example).get("conversation", []))
    compiled = _compiled(template)
    messages: list[dict[str, str]] = []
    for index, pair in enumerate(pairs):
        pair = _values.mapping(f"conversation[{index}]", pair)
        system, asked, answer = (
            _values.text(f"conversation[{index}].{field}", "" if pair.get(field) is None else pair[field])
            for field in ("system", "input", "output")
        )
        if system:
            messages.append({"role": "system", "content": system})
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    if not messages:
        return {"conversation": []}
    written = compiled.render(messages, purpose="training", add_generation_prompt=False).pairs()
    return {"conversation": [{**pair, **own} for pair, own in zip(pairs, written)]}


def template_map_fn_factory(template: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return :func:`template_map_fn` with a template, for ``datasets.map``. It can be pickled.

    >>> template_map_fn_factory("qwen_chat")({"conversation": [{"input": "a", "output": "b"}]})["conversation"][0]["sep"]
    '\\n'
    """
    return partial(template_map_fn, template=ConfigDict(_template(template)))


def get_bos_eos_token_ids(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that open and close a text. Some classes of tokenizers open with none, or with two.

    >>> class Letters:
    ...     bos_token_id, eos_token_id = 1, 2
    >>> get_bos_eos_token_ids(Letters())
    ([1], [2])
    """
    name = type(tokenizer).__name__.lower()
    known = [ids for pattern, ids in _BOS_IDS.items() if fnmatch.fnmatchcase(name, pattern)]
    bos, eos = getattr(tokenizer, "bos_token_id", None), getattr(tokenizer, "eos_token_id", None)
    return (list(known[0]) if known else [] if bos is None else [bos]), ([] if eos is None else [eos])


def encode_fn(
    example: Mapping[str, Any],
    tokenizer: Any,
    max_length: int,
    input_ids_with_output: bool = True,
    with_image_token: bool = False,
) -> dict[str, list[int]]:
    """Encode the pairs that :func:`template_map_fn` wrote: lists of int ``input_ids`` and ``labels``.

    ``tokenizer`` has ``encode(text, add_special_tokens=False)``, ``bos_token_id`` and ``eos_token_id``.
    The labels of inputs and separators are -100, and so are those of an output whose pair has
    ``output_with_loss`` False. Both lists are cut at ``max_length``. Without ``input_ids_with_output``,
    only the input of a single pair is encoded. ``with_image_token`` puts the id -200 where the input has
    ``<image>``.

    As in XTuner, whether a text that spells a control token becomes that token is the tokenizer's choice.

    >>> class Letters:
    ...     bos_token_id, eos_token_id = 1, 2
    ...     def encode(self, text, add_special_tokens=True):
    ...         return [ord(letter) for letter in text]
    >>> encode_fn({"conversation": [{"input": "a", "output": "b"}]}, Letters(), max_length=9)
    {'input_ids': [1, 97, 98, 2], 'labels': [-100, -100, 98, 2]}
    """
    if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 0:
        raise _values.wrong_type("max_length", "an int from 0", max_length)
    pairs = _values.items("conversation", _values.mapping("example", example).get("conversation"))
    if len(pairs) > 1 and not input_ids_with_output:
        message = "only one pair can be encoded without its output"
        help = "pass input_ids_with_output=True, or one pair"
        raise RequestError(message, code="several_pairs", field="conversation", help=help)
    bos, eos = get_bos_eos_token_ids(tokenizer)
    input_ids: list[int] = []
    labels: list[int] = []

    def add(ids: list[int], learned: bool) -> None:
        input_ids.extend(ids)
        labels.extend(ids if learned else [IGNORE_INDEX] * len(ids))

    opens = True
    for index, pair in enumerate(pairs):
        pair = _values.mapping(f"conversation[{index}]", pair)
        if opens:
            add(bos, False)
        add(_encode_input(index, pair, tokenizer, with_image_token), False)
        if not input_ids_with_output:
            continue
        learned = _flag(pair, "output_with_loss")
        add(_values.token_ids(tokenizer, _values.text(f"conversation[{index}].output", pair.get("output"))), learned)
        # The opening tokens follow each closing token.
        opens = _flag(pair, "need_eos_token")
        if opens:
            add(eos, learned)
        sep = _values.text(f"conversation[{index}].sep", pair.get("sep") or "")
        if sep:
            add(_values.token_ids(tokenizer, sep), False)
    return {"input_ids": input_ids[:max_length], "labels": labels[:max_length]}


def _flag(pair: Mapping[str, Any], key: str) -> bool:
    """Return a flag that is True unless the pair says otherwise. None, as in a table's column, says nothing."""
    flag = pair.get(key)
    return flag is None or bool(flag)


def _encode_input(index: int, pair: Mapping[str, Any], tokenizer: Any, with_image_token: bool) -> list[int]:
    text = _values.text(f"conversation[{index}].input", pair.get("input"))
    if not with_image_token or DEFAULT_IMAGE_TOKEN not in text:
        return _values.token_ids(tokenizer, text)
    before, *behind = text.split(DEFAULT_IMAGE_TOKEN)
    if len(behind) > 1:
        message = f"an input may have one {DEFAULT_IMAGE_TOKEN}, found {len(behind)}"
        field = f"conversation[{index}].input"
        raise RequestError(message, code="several_images", field=field, help="use one image for each input")
    return [*_values.token_ids(tokenizer, before), IMAGE_TOKEN_INDEX, *_values.token_ids(tokenizer, behind[0])]


def stop_words(template: Any, tokenizer: Any = None, *, more: Sequence[str] = ()) -> list[str]:
    """Return the texts that stop the model in XTuner's chat: ``more``, those of the template, and the EOS
    token of the tokenizer.

    ``tokenizer`` has ``eos_token``. Without it, only the other texts are returned.

    >>> class Letters:
    ...     eos_token = "</s>"
    >>> stop_words(PROMPT_TEMPLATE.internlm_chat, Letters())
    ['<eoa>', '</s>']
    >>> stop_words(PROMPT_TEMPLATE.internlm_chat)
    ['<eoa>']
    """
    words = [_values.text("more", word) for word in more] + list(_compiled(template).stop)
    eos = None if tokenizer is None else getattr(tokenizer, "eos_token", None)
    # It is a str, or an object with its text.
    return [*words, str(eos)] if eos is not None and str(eos) not in words else words


def chat_inputs(
    messages: Sequence[Mapping[str, Any]],
    template: Any = None,
    *,
    bos_token: str | Sequence[str] = "<s>",
    eos_token: str = "</s>",
    bot_name: str = "BOT",
    system_template: str | None = None,
    max_new_tokens: int | None = None,
    length: Callable[[str], int] = len,
) -> list[dict[str, Any]]:
    """Return what XTuner's chat sends to the model for each user message.

    Each input is the whole text so far: ``text``, and ``add_special_tokens``, which says whether the
    tokenizer has to add the opening token. Later inputs contain it, since they are decoded from ids.
    Without a template, messages are sent as they are.

    ``system_template`` names a text of ``SYSTEM_TEMPLATE`` for a conversation without a system text. If
    ``max_new_tokens`` is given and the prompt with the last answer reaches this length, the history is
    dropped. ``length`` counts the tokens of a text; control tokens count as one each.

    >>> messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    >>> [turn["text"] for turn in chat_inputs(messages, dict(INSTRUCTION="{round}: {input}\\n", SUFFIX="<e>"))]
    ['1: a\\n', '<s>1: a\\nb<e>2: c\\n']
    """
    bos = [bos_token] if isinstance(bos_token, str) else _values.items("bos_token", bos_token)
    bos = [_values.word("bos_token", token) for token in bos if token != ""]
    options = [("bot_name", _values.word("bot_name", bot_name))]
    eos = _values.word("eos_token", eos_token)
    if template is None:
        compiled = _rolecall.FrameworkTemplate.named("xtuner:none", bos=bos, eos=eos)
    else:
        compiled = _compiled(template, bos, eos)
    if system_template is not None:
        messages = _with_system(messages, system_template, bot_name)

    def remembers(prompt: _rolecall.FrameworkPrompt) -> bool:
        pieces = [piece for _, _, pieces in prompt.turns() for piece in pieces]
        used = sum(length(text) if kind is None else 1 for kind, text, _, _ in pieces)
        return used < max_new_tokens

    asked = None if max_new_tokens is None else remembers
    inputs = compiled.chat_inputs(messages, options=options, remembers=asked)
    found: list[dict[str, Any]] = []
    opening = "".join(bos)
    for prompt in inputs:
        # An input that continues the one before has its user message too.
        is_fresh = sum(slot == "user" for slot, _, _ in prompt.turns()) == 1
        text = prompt.text.removeprefix(opening) if is_fresh else prompt.text
        found.append({"text": text, "add_special_tokens": is_fresh})
    return found


def _with_system(messages: Any, name: str, bot_name: str) -> list[Any]:
    """Return messages that open with a preset system text if they have no other."""
    if _values.text("system_template", name) not in SYSTEM_TEMPLATE:
        help = f"use one of {', '.join(SYSTEM_TEMPLATE)}"
        raise FormatError(f"there is no system template `{name}`", code="unknown_name", field="system_template", help=help)
    messages = _values.items("messages", messages)
    first = messages[0] if messages else None
    if isinstance(first, Mapping) and first.get("role") == "system":
        return messages
    text = SYSTEM_TEMPLATE[name].replace("{bot_name}", bot_name)
    return [{"role": "system", "content": text}, *messages]
