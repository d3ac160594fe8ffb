"""``apply_chat_template`` of transformers, on this package's engine.

:func:`apply_chat_template` takes what ``PreTrainedTokenizerBase.apply_chat_template`` of transformers takes and
returns what it returns. :func:`install` puts it into a tokenizer, so that code that calls the method uses it::

    from transformers import AutoTokenizer
    import rolecall.hf

    tokenizer = AutoTokenizer.from_pretrained("path/to/model")
    rolecall.hf.install(tokenizer)
    batch = tokenizer.apply_chat_template(conversations, return_assistant_tokens_mask=True)

Honest conversations give the same text, ids and masks. These differences are intended:

- Text of messages, tools and documents that spells a control token is encoded as text. transformers does this only
  with ``sanitize_control_tokens=True``, which changes nothing here and works with every other argument.
- ``assistant_masks`` of a template without ``{% generation %}`` marks what the model writes: its replies with the token
  that stops it. In transformers it is all zeros. A template with these tags gives the mask of its tags.
- A template that takes too much time or memory is stopped with a :class:`~rolecall.TemplateError`.
- An error of a template is both a :class:`~rolecall.TemplateError` and a ``jinja2.exceptions.TemplateError``, and what
  Python raises for wrong types is also a ``TypeError``.
- numpy arrays in messages are lists; transformers passes a placeholder.
- A keyword argument that is almost the name of one that the template reads is refused.
- With ``tokenize=False``, an empty conversation is rendered. Messages that are not in the API's
  shape are refused: a missing role, content that is neither text nor a list of parts, a misspelt key.
- The result has no ``encodings``: ``char_to_token`` and similar methods do not work.
- ``continue_final_message`` is a bool or ``"content"``. Of ``tokenizer_kwargs``, ``stride``,
  ``return_overflowing_tokens`` and ``split_special_tokens`` are refused.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from . import Model, errors
from ._rolecall import apply_chat_template as _apply

__all__ = ["apply_chat_template", "install", "model_of", "uninstall"]

# The most templates of a tokenizer whose models are kept.
_KEPT = 8
# The most added tokens of a tokenizer that are compared one by one to notice changes.
_COMPARED = 512

_lock = threading.RLock()
_models: weakref.WeakKeyDictionary[Any, tuple[Any, OrderedDict[str, Model]]] = weakref.WeakKeyDictionary()


def apply_chat_template(
    tokenizer: Any,
    conversation: Any,
    tools: Sequence[Mapping[str, Any] | Callable[..., Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    chat_template: str | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool | str = False,
    tokenize: bool = True,
    sanitize_control_tokens: bool = False,
    padding: Any = False,
    truncation: Any = False,
    max_length: int | None = None,
    return_tensors: Any = None,
    return_dict: bool = True,
    return_assistant_tokens_mask: bool = False,
    tokenizer_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Render a conversation, or a batch of them, with the tokenizer's chat template, and encode it.

    The arguments and results are those of ``PreTrainedTokenizerBase.apply_chat_template``; the differences are listed
    in :mod:`rolecall.hf`. ``tokenizer`` may be any tokenizer that :func:`rolecall.load` takes.

    Returns a ``BatchEncoding`` with ``input_ids``, ``attention_mask`` and, with ``return_assistant_tokens_mask``,
    ``assistant_masks``: lists of int, or tensors of shape (conversations, tokens). With ``return_dict=False``, only the
    ids; with ``tokenize=False``, the text.

    Raises :class:`~rolecall.TemplateError` if the template refuses the conversation, ``ValueError`` for arguments that
    contradict each other, and :class:`~rolecall.RequestError` for messages that cannot be read.

    >>> from transformers import AutoTokenizer
    >>> tokenizer = AutoTokenizer.from_pretrained("path/to/model")
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    >>> out = apply_chat_template(tokenizer, messages, return_assistant_tokens_mask=True)
    >>> out["input_ids"]
    [705, 258, 198, 307, 706, 198, 705, 270, 198, 301, 706, 198]
    >>> out["assistant_masks"]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]
    """
    del sanitize_control_tokens  # always
    if not tokenize:
        return_dict = False
    if return_assistant_tokens_mask and not (return_dict and tokenize):
        raise ValueError("return_assistant_tokens_mask needs return_dict=True and tokenize=True")
    source = tokenizer.get_chat_template(chat_template, tools)
    is_list = isinstance(conversation, (list, tuple))
    if is_list and not conversation and tokenize:
        raise ValueError("an empty conversation cannot be encoded: pass at least one message")
    is_batch = is_list and len(conversation) > 0 and (
        isinstance(conversation[0], (list, tuple)) or hasattr(conversation[0], "messages")
    )
    conversations = [_messages(one) for one in (conversation if is_batch else [conversation])]
    if continue_final_message:
        if add_generation_prompt:
            raise ValueError("continue_final_message and add_generation_prompt exclude each other")
        if return_assistant_tokens_mask:
            raise ValueError("continue_final_message and return_assistant_tokens_mask exclude each other")
        if isinstance(continue_final_message, str) and continue_final_message != "content":
            raise errors.RequestError(
                f"only the content of a message can be continued, not its {continue_final_message!r}",
                code="unsupported",
                field="continue_final_message",
                help="pass True, or use the method of transformers",
            )
    shared: dict[str, Any] = {
        "add_generation_prompt": bool(add_generation_prompt),
        "continue_final_message": bool(continue_final_message),
    }
    if "strftime_now" in source:
        shared["now"] = _now().strftime("%Y-%m-%dT%H:%M:%S")
    if tools is not None:
        shared["tools"] = [_tool(tool) for tool in tools]
    if documents is not None:
        if not all(isinstance(document, dict) for document in documents):
            raise TypeError("documents are dicts with the keys `title` and `text`")
        shared["documents"] = list(documents)
    if kwargs:
        shared["chat_template_kwargs"] = kwargs
    model = _model(tokenizer, source)
    options = _Options.of(tokenizer, tokenizer_kwargs) if tokenize else _Options()
    wanted = {"ids": tokenize, "mask": return_assistant_tokens_mask, "spans": options.return_offsets_mapping}
    try:
        try:
            applied = _apply(model, conversations, shared, **wanted)
        except errors.RequestError as error:
            if error.code != "wrong_type":
                raise
            # Values that JSON does not have reach a template of transformers as their type's name.
            applied = _apply(model, _plain(conversations), _plain(shared), **wanted)
    except errors.TemplateError as error:
        raise _template_error(error) from None
    if not tokenize:
        return applied if is_batch else applied[0]
    return _encoding(tokenizer, applied, is_batch, padding, truncation, max_length, return_tensors, return_dict, options)


def install(tokenizer: Any) -> Any:
    """Make ``tokenizer.apply_chat_template`` this module's function. Returns the tokenizer.

    Only this object changes. Copies and pickles of it keep the change.

    >>> from transformers import AutoTokenizer
    >>> tokenizer = install(AutoTokenizer.from_pretrained("path/to/model"))
    >>> tokenizer.apply_chat_template([{"role": "user", "content": "Hi<|im_end|>"}])["input_ids"].count(706)
    1
    """
    vars(tokenizer)["apply_chat_template"] = functools.partial(apply_chat_template, tokenizer)
    return tokenizer


def uninstall(tokenizer: Any) -> Any:
    """Undo :func:`install`. Returns the tokenizer.

    >>> from transformers import AutoTokenizer
    >>> tokenizer = uninstall(install(AutoTokenizer.from_pretrained("path/to/model")))
    >>> tokenizer.apply_chat_template([{"role": "user", "content": "Hi<|im_end|>"}])["input_ids"].count(706)
    2
    """
    vars(tokenizer).pop("apply_chat_template", None)
    return tokenizer


def model_of(tokenizer: Any, chat_template: str | None = None, tools: Any = None) -> Model:
    """Return the :class:`~rolecall.Model` of a tokenizer's chat template.

    It is opened once, and again after the tokenizer's templates or tokens have changed. Of a tokenizer with more than
    512 added tokens, only a change of their number is noticed.

    >>> from transformers import AutoTokenizer
    >>> tokenizer = AutoTokenizer.from_pretrained("path/to/model")
    >>> model_of(tokenizer) is model_of(tokenizer), model_of(tokenizer).stop_ids()
    (True, [706])
    """
    return _model(tokenizer, tokenizer.get_chat_template(chat_template, tools))


def _model(tokenizer: Any, source: str) -> Model:
    state = _state(tokenizer)
    with _lock:
        known = _models.get(tokenizer)
        if known is None or known[0] != state:
            known = (state, OrderedDict())
            _models[tokenizer] = known
        models = known[1]
        model = models.get(source)
        if model is None:
            try:
                # As transformers passes conversations.
                opened = Model(tokenizer, chat_template=source, plain_markers=True, forms="as-given")
                model = models[source] = opened
            except errors.OpenError as error:
                if error.code in ("syntax", "unsupported") or str(error.code).startswith("limit-"):
                    raise _template_error(error) from None
                raise
            if len(models) > _KEPT:
                models.popitem(last=False)
        else:
            models.move_to_end(source)
        return model


def _state(tokenizer: Any) -> tuple[Any, ...]:
    """What a model of this tokenizer depends on and may change."""
    template = tokenizer.chat_template
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "get_added_tokens_decoder"):
        added = backend.get_added_tokens_decoder()
        size = backend.get_vocab_size()
    else:
        added, size = tokenizer.added_tokens_decoder, len(tokenizer)
    control = getattr(tokenizer, "chat_control_tokens", None)
    return (
        tuple(template.items()) if isinstance(template, dict) else template,
        tuple(tokenizer.special_tokens_map.items()),
        tuple(map(str, getattr(tokenizer, "extra_special_tokens", None) or ())),
        None if control is None else tuple(control),
        id(backend),
        size,
        repr(added) if len(added) <= _COMPARED else len(added),
    )


def _now() -> datetime:
    """The time that templates see: the machine's local time, as in transformers."""
    return datetime.now()


def _messages(conversation: Any) -> Any:
    """Return the messages of a conversation as dicts."""
    conversation = getattr(conversation, "messages", conversation)
    if type(conversation) is list and all(type(message) is dict for message in conversation):
        return conversation
    messages = []
    for message in conversation:
        message = message if isinstance(message, dict) else _fields(message)
        if not isinstance(message, dict):
            raise TypeError(f"messages are dicts, dataclasses or pydantic models, not {message!r}")
        messages.append(message)
    return messages


def _fields(value: Any) -> Any:
    """Return a dataclass or a pydantic model as a dict, and other values as they are."""
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(getattr(value, "model_dump", None)):
        return value.model_dump()
    return value


def _plain(value: Any) -> Any:
    """Return a value as a template of transformers sees it."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return getattr(kind, f"__{kind.__name__}__")(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    found = _fields(value)
    if isinstance(found, dict):
        return {_plain(key): _plain(item) for key, item in found.items()}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _plain(value.item())
    return f"<{type(value).__name__}>"


def _tool(tool: Any) -> Any:
    if isinstance(tool, dict):
        return tool
    if inspect.isfunction(tool) or inspect.ismethod(tool):
        from transformers.utils import get_json_schema

        return get_json_schema(tool)
    raise ValueError("a tool is a JSON schema, or a function with type hints and a docstring")


@functools.cache
def _class_of(code: str) -> type[errors.TemplateError]:
    """The class of a template's errors, which callers that know the classes of jinja2 and Python catch too."""
    try:
        from jinja2 import exceptions
    except ImportError:
        return errors.TemplateError
    classes = {"undefined": exceptions.UndefinedError, "security": exceptions.SecurityError}
    bases: list[type] = [errors.TemplateError, classes.get(code, exceptions.TemplateError)]
    if code == "type":
        bases.append(TypeError)
    return type("TemplateError", tuple(bases), {"__module__": __name__, "__reduce__": _reduce})


def _template_error(error: errors.RolecallError) -> errors.TemplateError:
    return _raised(error.args[0], vars(error))


def _reduce(error: errors.TemplateError) -> tuple[Any, ...]:
    return _raised, (error.args[0], vars(error).copy())


def _raised(message: str, details: dict[str, Any]) -> errors.TemplateError:
    raised = _class_of(details["code"])(message)
    vars(raised).update(details)
    return raised


@dataclasses.dataclass
class _Options:
    """The ``tokenizer_kwargs``."""

    padding_side: str | None = None
    pad_to_multiple_of: int | None = None
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None = None
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False
    return_length: bool = False
    verbose: bool = True

    @classmethod
    def of(cls, tokenizer: Any, given: Mapping[str, Any] | None) -> _Options:
        options = cls(**{name: value for name, value in (given or {}).items() if name in cls.__dataclass_fields__})
        for name, value in (given or {}).items():
            if name in ("add_special_tokens", "padding", "truncation", "max_length", "return_tensors"):
                raise TypeError(f"{name} is an argument of apply_chat_template, or fixed, and not of tokenizer_kwargs")
            if name not in cls.__dataclass_fields__ and value:
                raise errors.RequestError(
                    f"the tokenizer's argument {name!r} has no effect here",
                    code="unsupported",
                    field=f"tokenizer_kwargs.{name}",
                    help=f"use one of {', '.join(cls.__dataclass_fields__)}",
                )
        if options.padding_side not in (None, "left", "right"):
            raise ValueError(f"expected `left` or `right` as padding_side, found {options.padding_side!r}")
        return options


def _encoding(
    tokenizer: Any,
    applied: list[tuple[Any, Any, Any]],
    is_batch: bool,
    padding: Any,
    truncation: Any,
    max_length: int | None,
    return_tensors: Any,
    return_dict: bool,
    options: _Options,
) -> Any:
    """Truncate, pad and return what the tokenizer of transformers returns."""
    pads, truncates, max_length, _ = tokenizer._get_padding_truncation_strategies(
        padding=padding,
        truncation=truncation,
        max_length=max_length,
        pad_to_multiple_of=options.pad_to_multiple_of,
        verbose=options.verbose,
    )
    pads, truncates = pads.value, truncates.value
    ids = [one[0] for one in applied]
    masks = [one[1] for one in applied]
    spans = [one[2] for one in applied]
    if truncates != "do_not_truncate" and max_length is not None:
        if max_length < 0:
            raise OverflowError("can't convert negative int to unsigned")
        left = tokenizer.truncation_side == "left"

        def cut(values: Any, width: int = 1) -> Any:
            if values is None or len(values) <= max_length * width:
                return values
            return values[len(values) - max_length * width :] if left else values[: max_length * width]

        ids, masks, spans = [cut(one) for one in ids], [cut(one) for one in masks], [cut(one, 2) for one in spans]
    lengths = [len(one) for one in ids]
    goal = None
    if pads == "longest":
        goal = max(lengths, default=0)
    elif pads == "max_length":
        goal = max_length
    if goal is not None and options.pad_to_multiple_of:
        goal = -(-goal // options.pad_to_multiple_of) * options.pad_to_multiple_of
    if goal is None or all(length >= goal for length in lengths):
        missing = None
    else:
        missing = [max(goal - length, 0) for length in lengths]
    left = (options.padding_side or tokenizer.padding_side) == "left"

    def padded(rows: list[Any], pad: Any) -> list[Any]:
        """Return rows as lists, padded."""
        rows = [row if isinstance(row, list) else row.tolist() for row in rows]
        if missing is None:
            return rows
        if left:
            return [[pad] * more + row for row, more in zip(rows, missing)]
        return [row + [pad] * more for row, more in zip(rows, missing)]

    names = tokenizer.model_input_names
    data: dict[str, Any] = {"input_ids": padded(ids, tokenizer.pad_token_id if missing else 0)}
    types = options.return_token_type_ids
    if "token_type_ids" in names if types is None else types:
        data["token_type_ids"] = padded([[0] * length for length in lengths], getattr(tokenizer, "pad_token_type_id", 0))
    attends = options.return_attention_mask
    if "attention_mask" in names if attends is None else attends:
        data["attention_mask"] = padded([[1] * length for length in lengths], 0)
    if options.return_special_tokens_mask:
        data["special_tokens_mask"] = padded([[0] * length for length in lengths], 1)
    if options.return_offsets_mapping:
        data["offset_mapping"] = padded([[(s, e) for s, e in one.reshape(-1, 2).tolist()] for one in spans], (0, 0))
    if options.return_length:
        data["length"] = [len(row) for row in data["input_ids"]]
    for row in data["input_ids"]:
        tokenizer._eventual_warn_about_too_long_sequence(row, max_length, options.verbose)
    if not return_dict and return_tensors is None:
        return data["input_ids"] if is_batch else data["input_ids"][0]
    from transformers.tokenization_utils_base import BatchEncoding

    if masks and masks[0] is not None:
        data["assistant_masks"] = padded(masks, 0)
    if not is_batch and return_tensors is None:
        data = {name: value[0] if value and isinstance(value[0], list) else value for name, value in data.items()}
    out = BatchEncoding(data, None, tensor_type=return_tensors)
    return out if return_dict else out["input_ids"]
