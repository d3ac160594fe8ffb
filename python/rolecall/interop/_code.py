"""Templates with code of their own.

The code is a function from a conversation to a text. To find where each message's text is in it, the code runs twice:
with a random mark in place of each text, and with the conversation. What it writes around the marks is the template's
own text. With the texts in place of the marks, the result must be what the code writes for the conversation; otherwise
the code changes a text, or decides by it, and the conversation is refused.

Code that remembers texts could write them as its own later. A server runs it with texts in another process, so what
runs with marks has never seen any.

The library checks the messages and the switches before they come here.
"""

from __future__ import annotations

import copy
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _rolecall
from ..errors import OpenError, RenderError, RequestError, RolecallError, TemplateError
from . import _values

#: The parts of a model that a template with code of its own may be opened with.
_PARTS = ("tokenizer", "tokenizer_config", "bos_token", "eos_token", "bos", "protect", "plain_markers")


class CodeTemplate:
    """The code of a template: an object whose ``messages2prompt`` writes the text of a conversation.

    With ``by_turns``, or without the method, the object's ``get_prompt`` writes each of the user's texts as LMDeploy's
    engine gets it, the first with ``sequence_start``, and the answers stand between. The object is copied: later
    changes to it do not change the template.

    >>> class Plain:
    ...     def messages2prompt(self, messages, sequence_start=True):
    ...         return "".join(f"<{one['role']}>{one['content']}\\n" for one in messages) + "<assistant>"
    >>> CodeTemplate(Plain()).pieces([{"role": "user", "content": "Hi"}], {})
    ['<user>', 0, '\\n<assistant>']
    """

    def __init__(self, template: Any, *, name: str | None = None, by_turns: bool = False) -> None:
        own = type(template)
        self.name = own.__name__ if name is None else _values.word("name", name)
        self._by_turns = by_turns or not callable(getattr(own, "messages2prompt", None))
        try:
            self._template = copy.deepcopy(template)
        except Exception as error:
            message = f"the template {self.name} cannot be copied: {error}"
            raise OpenError(message, code="wrong_type", field="model", help="pass its class") from error
        words = getattr(self._template, "stop_words", None)
        #: The texts that stop the model.
        self.stop_words = [_values.word("stop_words", word) for word in _values.items("stop_words", words or [])]
        #: What pickled copies of this object have in common.
        self.identity = secrets.token_hex(16)

    def pieces(
        self,
        messages: Sequence[Mapping[str, str]],
        switches: Mapping[str, Any],
        write: Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str] | None = None,
    ) -> list[str | int]:
        """Return what the code writes: texts, and for the text of a message its index.

        ``write`` runs the code with the texts, by default here.
        """
        write = write or self.text
        # Code may leave out what stands around an empty text.
        everywhere = _marks(messages)
        tried = [everywhere]
        if not all(message["content"] for message in messages):
            tried.append({mark: at for mark, at in everywhere.items() if messages[at]["content"]})
        found = [self._marked(messages, switches, marks, self.text) for marks in tried]
        text = write(messages, switches)
        for pieces in found:
            if "".join(messages[piece]["content"] if isinstance(piece, int) else piece for piece in pieces) == text:
                return pieces
        raise self._not_found(messages, switches, tried[-1], text, write)

    def _marked(
        self,
        messages: Sequence[Mapping[str, str]],
        switches: Mapping[str, Any],
        marks: Mapping[str, int],
        write: Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str],
    ) -> list[str | int]:
        mark_of = {at: mark for mark, at in marks.items()}
        marked = [{**message, "content": mark_of.get(at, message["content"])} for at, message in enumerate(messages)]
        text = write(marked, switches)
        if not marks:
            return [text]
        found = re.split(f"({'|'.join(marks)})", text)
        return [marks.get(piece, piece) for piece in found if piece]

    def _not_found(
        self,
        messages: Sequence[Mapping[str, str]],
        switches: Mapping[str, Any],
        marks: Mapping[str, int],
        text: str,
        write: Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str],
    ) -> RenderError:
        """The error about the first message whose text alone cannot be found."""
        help = "let the code write each content as it is, and decide by roles and positions only"
        for mark, at in marks.items():
            pieces = self._marked(messages, switches, {mark: at}, write)
            content = messages[at]["content"]
            if "".join(content if piece == at else piece for piece in pieces) != text:
                message = f"{self.name} does not write the text as it is, or decides by it, so its place is not known"
                return RenderError(message, code="text_not_found", message_index=at, field="content", help=help)
        message = f"{self.name} writes different prompts for the same conversation, or decides by several texts"
        return RenderError(message, code="text_not_found", field="messages", help=help)

    def text(self, messages: Sequence[Mapping[str, str]], switches: Mapping[str, Any]) -> str:
        """Return what the code writes for a conversation."""
        # What the code stores in the object or in the messages does not reach another call.
        template = copy.copy(self._template)
        for name, value in vars(template).items() if hasattr(template, "__dict__") else ():
            if isinstance(value, (list, dict, set, bytearray)):
                vars(template)[name] = copy.copy(value)
        if not self._by_turns:
            return self._ran(template.messages2prompt, [dict(message) for message in messages], **switches)
        if switches:
            message = "a template without `messages2prompt` of its own has no switches"
            field = f"chat_template_kwargs.{next(iter(switches))}"
            raise RequestError(message, code="code_takes_less", field=field, help="remove it")
        text = ""
        for at, message in enumerate(messages):
            expected = ("user", "assistant")[at % 2]
            if message["role"] != expected:
                what = f"expected a message of the {expected}: {self.name} has no `messages2prompt` of its own"
                help = "let user and assistant alternate, the user first, or add the method to the class"
                raise RequestError(what, code="code_takes_less", message_index=at, field="role", help=help)
            if expected == "assistant":
                text += message["content"]
            else:
                text += self._ran(template.get_prompt, message["content"], sequence_start=at == 0)
        return text

    def _ran(self, method: Any, /, *given: Any, **switches: Any) -> str:
        """What a method of the template returns."""
        place = f"{self.name}.{method.__name__}"
        try:
            text = method(*given, **switches)
        except RolecallError:
            raise
        except Exception as error:
            message = f"{place}: {type(error).__name__}: {error}"
            help = "correct the class, or the conversation that it refuses"
            raise TemplateError(message, code="code_failed", help=help) from error
        try:
            return _values.word(method.__name__, text)
        except RequestError as error:
            message = f"{place}: {error.args[0]}"
            raise TemplateError(message, code="code_failed", help="return the prompt's text") from None


def _marks(messages: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """A random mark for each message."""
    return {f"m{secrets.token_hex(16)}": at for at in range(len(messages))}


def open_code(code: CodeTemplate, parts: Mapping[str, Any]) -> _rolecall.Model:
    """Open a model whose template is code."""
    for part in parts:
        if part not in _PARTS:
            known = ", ".join(f"`{known}`" for known in _PARTS)
            message = "a template with code of its own is not opened with it"
            raise OpenError(message, code="wrong_type", field=part, help=f"use only {known}")
    # LMDeploy: the engine adds the opening token where a session starts.
    given = {"bos": "tokenizer", **{part: value for part, value in parts.items() if value is not None}}
    return _rolecall.Model._of_code(code, **given)
