"""Templates with code of their own, opened as models.

The code is a function from a conversation to a text. To find where each message's text is in it, the code runs twice:
with the conversation, and with a random mark in place of each text. What it writes around the marks is the template's
own text. With the texts in place of the marks, the result must be what the code wrote for the conversation; otherwise
the code changes a text, or decides by it, and the conversation is refused.
"""

from __future__ import annotations

import copy
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _rolecall
from ..errors import OpenError, RenderError, RequestError, RolecallError, TemplateError
from . import _values

#: The roles that code may write into a prompt as its own text. Another word could spell a control token.
_ROLES = ("system", "developer", "user", "assistant", "tool", "function", "environment")

#: What code gets of a message.
_KEYS = ("role", "content")

#: The parts of a model that a template with code of its own may be opened with.
_PARTS = ("tokenizer", "tokenizer_config", "bos_token", "eos_token", "bos", "protect", "plain_markers")

# What a request without the code's template would render.
_NO_TEMPLATE = "{{ raise_exception('the template has code of its own') }}"

# The code reads the roles, so the account of a prompt does not miss them.
_READS_ROLES = "{% for message in messages if message.role %}{% endfor %}"


class CodeModel:
    """A template with code of its own, as :func:`rolecall.load` opens it.

    It renders and encodes conversations: the object's ``messages2prompt`` writes the text, in which each message's
    text has its origin. Only what the template itself writes becomes control tokens. The code gets messages with
    ``role`` and ``content``, and keyword arguments as switches. The object is copied: later changes to it do not
    change the model.

    A conversation is refused if the code changes a text or decides by it, since it is then not known which part of the
    prompt is the template's (:class:`rolecall.RenderError`, ``text_not_found``), and if the code fails
    (:class:`rolecall.TemplateError`, ``code_failed``).

    A class that has only a ``get_prompt`` or ``decorate_prompt`` of its own writes a conversation as LMDeploy's engine
    gets it: each of the user's texts in a call of ``get_prompt``, the first with ``sequence_start``, and the answers
    between.

    >>> class Plain:
    ...     def messages2prompt(self, messages, sequence_start=True):
    ...         return "".join(f"<{one['role']}>{one['content']}\\n" for one in messages) + "<assistant>"
    >>> model = rolecall.load(Plain)
    >>> prompt = model.prompt([{"role": "user", "content": "Hi"}])
    >>> prompt.text
    '<user>Hi\\n<assistant>'
    >>> [segment["text"] for segment in prompt.segments() if segment["origin"] == {"message": 0, "field": "content"}]
    ['Hi']
    """

    def __init__(self, template: Any, *, name: str | None = None, by_turns: bool = False, **parts: Any) -> None:
        for part in parts:
            if part not in _PARTS:
                known = ", ".join(f"`{known}`" for known in _PARTS)
                message = "a template with code of its own is not opened with it"
                raise OpenError(message, code="wrong_type", field=part, help=f"use only {known}")
        own = type(template)
        if not any(callable(getattr(own, method, None)) for method in ("messages2prompt", "get_prompt")):
            message = f"expected an object with `messages2prompt`, found {own.__name__}"
            raise OpenError(message, code="wrong_type", field="template", help="pass an object of a template class")
        self.name = own.__name__ if name is None else _values.word("name", name)
        self._by_turns = by_turns or not callable(getattr(own, "messages2prompt", None))
        try:
            self._template = copy.deepcopy(template)
        except Exception as error:
            message = f"the template {self.name} cannot be copied: {error}"
            raise OpenError(message, code="wrong_type", field="model", help="pass its class") from error
        # LMDeploy: the engine adds the opening token where a session starts.
        parts = {"bos": "tokenizer", **{part: value for part, value in parts.items() if value is not None}}
        self._model = _rolecall.Model(None, chat_template=_NO_TEMPLATE, **parts)

    @property
    def tokenizer(self) -> _rolecall.Tokenizer | None:
        """The tokenizer, or None."""
        return self._model.tokenizer

    @property
    def stop_words(self) -> list[str] | None:
        """The texts that stop the model, if the template has any."""
        words = getattr(self._template, "stop_words", None)
        return None if words is None else [_values.text("stop_words", word) for word in words]

    def pieces(self, messages: Sequence[Mapping[str, Any]], switches: Mapping[str, Any]) -> list[str | int]:
        """Return what the code writes: texts, and for the text of a message its index."""
        return self._pieces(self._given(messages, switches), switches)

    def prompt(self, messages: Sequence[Mapping[str, Any]], **switches: Any) -> _rolecall.Prompt:
        """Render a conversation. The switches are passed to ``messages2prompt``: numbers, booleans or None."""
        given = self._given(messages, switches)
        pieces = self._pieces(given, switches)
        return _rolecall.prompt_by_template(self._model, given, _READS_ROLES + "".join(map(_written, pieces)))

    def _given(self, messages: Sequence[Mapping[str, Any]], switches: Mapping[str, Any]) -> list[dict[str, str]]:
        """The messages as the code gets them, once they and the switches are checked."""
        given = [_message(index, message) for index, message in enumerate(_values.items("messages", messages))]
        if not given:
            message, help = "the conversation has no messages", "give at least one message"
            raise RequestError(message, code="no_messages", field="messages", help=help)
        for name, value in switches.items():
            if name in ("add_generation_prompt", "continue_final_message") and value is not None:
                message, help = "the template's own code decides how a prompt ends", "leave it out"
                raise RequestError(message, code="wrong_type", field=name, help=help)
            if value is not None and not isinstance(value, (bool, int, float)):
                message = f"a template with code of its own does not take it, found {type(value).__name__}"
                raise RequestError(message, code="wrong_type", field=name, help="pass a number, a bool or None")
        return given

    def encode(self, messages: Sequence[Mapping[str, Any]], **switches: Any) -> _rolecall.Encoded:
        """Render a conversation and encode the prompt. A message's text never becomes a control token."""
        return self.prompt(messages, **switches).encode()

    def _pieces(self, given: list[dict[str, str]], switches: Mapping[str, Any]) -> list[str | int]:
        """The texts that the code writes, and the indexes of messages whose texts it writes."""
        # An empty text has no place.
        marks = {f"m{secrets.token_hex(16)}": at for at, message in enumerate(given) if message["content"]}
        text = self._call(given, switches)
        pieces = self._marked(given, switches, marks)
        if "".join(given[piece]["content"] if isinstance(piece, int) else piece for piece in pieces) == text:
            return pieces
        raise self._not_found(given, switches, marks, text)

    def _marked(
        self, given: list[dict[str, str]], switches: Mapping[str, Any], marks: Mapping[str, int]
    ) -> list[str | int]:
        mark_of = {at: mark for mark, at in marks.items()}
        marked = [{**message, "content": mark_of.get(at, message["content"])} for at, message in enumerate(given)]
        text = self._call(marked, switches)
        if not marks:
            return [text]
        found = re.split(f"({'|'.join(marks)})", text)
        return [marks.get(piece, piece) for piece in found if piece]

    def _not_found(
        self, given: list[dict[str, str]], switches: Mapping[str, Any], marks: Mapping[str, int], text: str
    ) -> RenderError:
        """The error about the first message whose text alone cannot be found."""
        help = "let the code write each content as it is, and decide by roles and positions only"
        for mark, at in marks.items():
            pieces = self._marked(given, switches, {mark: at})
            content = given[at]["content"]
            if "".join(content if piece == at else piece for piece in pieces) != text:
                message = f"{self.name} does not write the text as it is, or decides by it, so its place is not known"
                return RenderError(message, code="text_not_found", message_index=at, field="content", help=help)
        message = f"{self.name} writes different prompts for the same conversation, or decides by several texts"
        return RenderError(message, code="text_not_found", field="messages", help=help)

    def _call(self, messages: list[dict[str, str]], switches: Mapping[str, Any]) -> str:
        # What the code stores in the object or in the messages does not reach another call.
        template = copy.copy(self._template)
        if not self._by_turns:
            return self._ran(template.messages2prompt, [dict(message) for message in messages], **switches)
        if switches:
            message = "a template without `messages2prompt` of its own has no switches"
            raise RequestError(message, code="wrong_type", field=next(iter(switches)), help="remove it")
        text = ""
        for at, message in enumerate(messages):
            expected = ("user", "assistant")[at % 2]
            if message["role"] != expected:
                what = f"expected a message of the {expected}: {self.name} has no `messages2prompt` of its own"
                help = "let user and assistant alternate, the user first, or add the method to the class"
                raise RenderError(what, code="rule_broken", message_index=at, field="role", help=help)
            if expected == "assistant":
                text += message["content"]
            else:
                text += self._ran(template.get_prompt, message["content"], sequence_start=at == 0)
        return text

    def _ran(self, method: Any, *given: Any, **switches: Any) -> str:
        """What a method of the template returns."""
        try:
            text = method(*given, **switches)
        except RolecallError:
            raise
        except Exception as error:
            message = f"{self.name}.{method.__name__}: {type(error).__name__}: {error}"
            help = "correct the class, or the conversation that it refuses"
            raise TemplateError(message, code="code_failed", help=help) from error
        if not isinstance(text, str):
            message = f"{self.name}.{method.__name__}: expected a str, found {type(text).__name__}"
            raise TemplateError(message, code="code_failed", help="return the prompt's text")
        return _values.word(method.__name__, text)

    def __repr__(self) -> str:
        return f"CodeModel({self.name!r})"


def _message(index: int, message: Any) -> dict[str, str]:
    """The role and the content of a message, which are all that code gets."""

    def wrong(field: str, what: str, help: str) -> RequestError:
        return RequestError(what, code="wrong_type", message_index=index, field=field, help=help)

    if not isinstance(message, Mapping):
        raise wrong("", f"expected a dict, found {type(message).__name__}", "pass a dict with `role` and `content`")
    for key, value in message.items():
        if key not in _KEYS and value is not None:
            what = "a template with code of its own takes only the role and the content of a message"
            raise wrong(str(key), what, "remove it")
    role, content = (str.__str__(value) if isinstance(value, str) else value for value in map(message.get, _KEYS))
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join(f"`{known}`" for known in _ROLES)
        raise wrong("role", f"{role!r} is not a role that code may write", f"use one of {known}")
    if not isinstance(content, str):
        raise wrong("content", f"expected a str, found {type(content).__name__}", "pass the text")
    return {"role": role, "content": content}


def _written(piece: str | int) -> str:
    """A piece of a prompt in Jinja."""
    if isinstance(piece, int):
        return f"{{{{ messages[{piece}].content }}}}"
    return f"{{{{ {json.dumps(piece, ensure_ascii=False)} }}}}"
