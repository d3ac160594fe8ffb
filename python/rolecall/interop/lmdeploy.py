"""LMDeploy's chat templates: ``MODELS``, ``ChatTemplateConfig``, and the classes of its templates.

>>> from rolecall.interop.lmdeploy import MODELS
>>> template = MODELS.get("vicuna")(meta_instruction="Be brief.")
>>> template.messages2prompt([{"role": "user", "content": "Hello"}])
'Be brief. USER: Hello ASSISTANT: '
>>> template.get_prompt("And now?", sequence_start=False)
'USER: And now? ASSISTANT: '

A class of your own can set other texts, or have methods of its own:

>>> @MODELS.register_module(name="shout")
... class Shout(BaseModel):
...     def decorate_prompt(self, prompt, sequence_start=True):
...         return prompt.upper()
>>> MODELS.module_dict.pop("shout")().get_prompt("hello")
'HELLO'

Prompts do not contain the opening token (BOS): LMDeploy's engine adds it where a session starts.

:func:`rolecall.load` opens a class, an object of it, or its registered name as a model. If the class has methods of
its own, they write the model's prompts, and all else works as with any template:

>>> class Rounds(BaseModel):
...     def messages2prompt(self, messages, sequence_start=True, first=1):
...         rounds = (f"[{first + at // 2}] {one['content']}\\n" for at, one in enumerate(messages))
...         return "".join(rounds)
>>> model = rolecall.load(Rounds)
>>> prompt = model.prompt([{"role": "user", "content": "Hi"}], first=3)
>>> prompt.text
'[3] Hi\\n'
>>> [segment["text"] for segment in prompt.segments() if segment["origin"] == {"message": 0, "field": "content"}]
['Hi']

The code gets messages with ``role`` and ``content``, and keyword arguments as switches: numbers, booleans or None. Only
what it writes itself becomes control tokens. A conversation is refused if the code changes a text or decides by it,
since it is then not known which part of the prompt is the template's (:class:`rolecall.RenderError`,
``text_not_found``), if the code fails (:class:`rolecall.TemplateError`, ``code_failed``), and if it has more than the
code gets (:class:`rolecall.RequestError`, ``code_takes_less``). ``stop_words`` end replies. The object is copied: later
changes to it do not change the model. Several threads may use the model at once; each call has a shallow copy.

A class that has only a ``get_prompt`` or ``decorate_prompt`` of its own writes a conversation as LMDeploy's engine gets
it: each of the user's texts in a call of ``get_prompt``, the first with ``sequence_start``, and the answers between.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from .. import _rolecall
from ..errors import FormatError, RequestError
from . import _values
from ._code import CodeTemplate, open_code

__all__ = [
    "CHAT_TEMPLATES",
    "MODELS",
    "BaseChatTemplate",
    "BaseModel",
    "BaseTemplate",
    "ChatTemplateConfig",
    "Registry",
    "SamplingParam",
    "best_match_model",
]

_PARTS = ("system", "meta_instruction", "eosys", "user", "eoh", "assistant", "eoa", "separator")


@dataclasses.dataclass
class SamplingParam:
    """The sampling parameters of a template. None leaves the choice to the engine.

    >>> MODELS.get("vicuna")(top_k=40).sampling_param.top_k
    40
    """

    top_p: float | None = 0.8
    top_k: int | None = None
    temperature: float | None = 0.8
    repetition_penalty: float | None = 1.0


class Registry:
    """Templates by name.

    >>> registry = Registry("mine")
    >>> @registry.register_module(name=["a", "b"])
    ... class Template(BaseModel):
    ...     pass
    >>> registry.get("b") is Template, registry.get("c")
    (True, None)

    ``locations`` are the names of modules that register templates. They are imported at the first
    :meth:`get`.
    """

    def __init__(self, name: str, *, locations: Sequence[str] = ()) -> None:
        self.name = name
        self._modules: dict[str, type] = {}
        self._locations = list(_values.items("locations", locations))

    def _import_locations(self) -> None:
        """Import the modules that register templates, each once. As in LMDeploy, one that is not there is reported."""
        while self._locations:
            location = _values.text("locations", self._locations.pop(0))
            try:
                importlib.import_module(location)
            except (ImportError, AttributeError) as error:
                warnings.warn(f"the templates of `{location}` are missing from {self.name}: {error}", stacklevel=3)

    @property
    def module_dict(self) -> dict[str, type]:
        """The classes by name."""
        return self._modules

    def get(self, key: str) -> type | None:
        """Return the class with this name, or None."""
        self._import_locations()
        return self._modules.get(key) if isinstance(key, str) else None

    def register_module(
        self,
        name: str | Sequence[str] | None = None,
        force: bool = False,
        module: type | None = None,
    ) -> Any:
        """Register a class under one or more names. Without ``module``, return a decorator.

        A class that is used as a template has the methods ``get_prompt(prompt, sequence_start)`` and
        ``messages2prompt(messages, sequence_start)``; those of :class:`BaseModel` and
        :class:`BaseChatTemplate` render its texts. Raises ``KeyError`` if a name is taken, unless
        ``force``.
        """
        if not isinstance(force, bool):
            raise TypeError(f"expected a bool as `force`, found {type(force).__name__}")
        names = [name] if isinstance(name, str) else name
        if names is not None and not (isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names)):
            raise TypeError(f"expected a str or a list of str as `name`, found {type(name).__name__}")
        if module is not None:
            self._add(module, names, force)
            return module

        def register(module: type) -> type:
            self._add(module, names, force)
            return module

        return register

    def _add(self, module: type, names: Sequence[str] | None, force: bool) -> None:
        if not callable(module):
            raise TypeError(f"expected a class, found {type(module).__name__}")
        names = [module.__name__] if names is None else names
        for name in names:
            if not force and name in self._modules:
                taken = self._modules[name].__name__
                raise KeyError(f"`{name}` is already the name of {taken} in {self.name}; pass force=True to replace it")
        for name in names:
            self._modules[name] = module

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __repr__(self) -> str:
        return f"Registry({self.name!r}, {len(self)} templates)"


MODELS = Registry("model")
"""LMDeploy's templates by name, and those that you register."""

CHAT_TEMPLATES = MODELS
"""The name of the same registry in LMDeploy's documentation."""


class BaseModel:
    """A template that writes texts as they are.

    ``capability`` is the task: "chat", "completion", "infilling" or "python". ``session_len`` and the
    sampling parameters are attributes; they do not change prompts. Other keyword arguments are ignored,
    as in LMDeploy.

    A class that LMDeploy's documentation prints with tasks of its own, such as ``InternLMChat7B``, refuses
    others. With ``rules="reference"`` it writes them as a chat, as the released code does.

    >>> BaseModel(session_len=4096).session_len
    4096
    >>> BaseModel().get_prompt("Once upon")
    'Once upon'
    """

    _like: ClassVar[str | None] = "base"
    _defaults: ClassVar[Mapping[str, Any]] = {}
    _infill_stop: ClassVar[list[str] | None] = None
    _counts_rounds: ClassVar[bool] = False
    _chat_only: ClassVar[bool] = False

    session_len: int
    top_p: float | None
    top_k: int | None
    temperature: float | None
    repetition_penalty: float | None
    capability: str
    stop_words: list[str] | None

    def __init__(
        self,
        session_len: int = 2048,
        top_p: float | None = 0.8,
        top_k: int | None = None,
        temperature: float | None = 0.8,
        repetition_penalty: float | None = 1.0,
        capability: str = "chat",
        stop_words: list[str] | None = None,
        *,
        rules: str = "enforce",
        **kwargs: Any,
    ) -> None:
        if rules not in ("enforce", "reference"):
            raise _values.wrong_type("rules", "`enforce` or `reference`", rules)
        self._rules = rules
        self.session_len = session_len
        self.top_p = top_p
        self.top_k = top_k
        self.temperature = temperature
        self.repetition_penalty = repetition_penalty
        self.capability = capability
        self.stop_words = stop_words

    @property
    def sampling_param(self) -> SamplingParam:
        """The sampling parameters."""
        return SamplingParam(self.top_p, self.top_k, self.temperature, self.repetition_penalty)

    def get_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """Return what the engine gets for a user's text.

        ``sequence_start`` says whether the text opens a session. If not, the engine has cached the
        earlier turns, and only the new one is written. With the capability "completion" the text is
        returned unchanged.
        """
        if self.capability == "completion":
            return self._render(_values.text("prompt", prompt), True)
        return self.decorate_prompt(prompt, sequence_start)

    def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """Return a user's text in the template. :meth:`get_prompt` calls this."""
        if self._chat_only and self._rules == "enforce" and self.capability != "chat":
            help = "use the capability `chat` or `completion`, or pass rules='reference'"
            message = f"{type(self).__name__} has no capability of {self.capability}"
            raise RequestError(message, code="unknown_name", field="capability", help=help)
        return self._render(_values.text("prompt", prompt), sequence_start)

    def messages2prompt(
        self, messages: str | Sequence[Any], sequence_start: bool = True, *, system_when: str = "not-first", **kwargs: Any
    ) -> str:
        """Return the prompt of a conversation: a list of messages with ``role`` and ``content``.

        A system message replaces the ``meta_instruction``, as in the released code. With
        ``system_when="always"``, both are written, as LMDeploy's documentation prints it.

        A str is passed to :meth:`get_prompt`. Raises :class:`rolecall.RenderError` for a role that the
        template does not have.
        """
        if isinstance(messages, str):
            return self.get_prompt(messages, sequence_start)
        options = [("capability", "chat")]
        if system_when != "not-first":
            options.append(("system-when", _values.text("system_when", system_when)))
        return self._template().render(messages, bos=False, options=options, tools=kwargs.get("tools")).text

    def _render(self, prompt: str, sequence_start: bool) -> str:
        capability = _values.word("capability", self.capability)
        alone = capability == "completion" or (capability != "chat" and self._infill_stop is not None)
        messages = [{"role": "user", "content": prompt}]
        earlier = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
        if self._counts_rounds:
            # The reference counts the calls of the object; a new session starts again at 1.
            self._rounds = 1 if sequence_start else getattr(self, "_rounds", 0) + 1
            messages = earlier * (self._rounds - 1) + messages
        elif not (sequence_start or alone):
            messages = earlier + messages
        options = [("capability", capability)]
        if self._infill_stop is not None:
            options.append(("suffix_first", str(bool(getattr(self, "suffix_first", False))).lower()))
        return self._template().render(messages, purpose="new-turn", bos=False, options=options).text

    def _template(self) -> _rolecall.FrameworkTemplate:
        """The template with the present values of the attributes."""
        parts = tuple(getattr(self, part, None) for part in _PARTS)
        stop = self.stop_words
        stop = None if stop is None else tuple(_values.items("stop_words", stop))
        try:
            return _compiled(self._like, parts, stop)
        except TypeError:
            # An unhashable part is of the wrong type, which the engine reports.
            return _compile(self._like, parts, stop)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(session_len={self.session_len!r}, capability={self.capability!r})"


def _compile(like: str | None, parts: tuple[Any, ...], stop: tuple[Any, ...] | None) -> _rolecall.FrameworkTemplate:
    fields = dict(zip(_PARTS, parts), model_name=like or "template", stop_words=stop)
    return _rolecall.FrameworkTemplate.lmdeploy(fields, like=like)


_compiled = lru_cache(maxsize=128)(_compile)


class BaseChatTemplate(BaseModel):
    """A template of texts around each message. The attributes have the names of LMDeploy's JSON fields.

    ``meta_instruction`` is the system text of a conversation without one; None writes no system turn,
    and "" an empty one.

    >>> template = BaseChatTemplate(user="U:", eoh="\\n", assistant="A:", eoa="\\n", meta_instruction=None)
    >>> template.messages2prompt([{"role": "user", "content": "{hi}"}])
    'U:{hi}\\nA:'
    """

    _like = None

    def __init__(
        self,
        system: str = "",
        meta_instruction: str | None = "",
        eosys: str = "",
        user: str = "",
        eoh: str = "",
        assistant: str = "",
        eoa: str = "",
        separator: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.system = system
        self.meta_instruction = meta_instruction
        self.eosys = eosys
        self.user = user
        self.eoh = eoh
        self.assistant = assistant
        self.eoa = eoa
        self.separator = separator


BaseTemplate = BaseModel
"""The name of the same class in LMDeploy's documentation."""


@dataclasses.dataclass
class ChatTemplateConfig:
    """A template's JSON file. A field that is None keeps the value of the registered template.

    >>> config = ChatTemplateConfig("vicuna", meta_instruction="Be brief.")
    >>> config.chat_template.get_prompt("Hello")
    'Be brief. USER: Hello ASSISTANT: '
    >>> ChatTemplateConfig.from_json(config.to_json()) == config
    True
    """

    model_name: str
    system: str | None = None
    meta_instruction: str | None = None
    eosys: str | None = None
    user: str | None = None
    eoh: str | None = None
    assistant: str | None = None
    eoa: str | None = None
    separator: str | None = None
    capability: str | None = None
    stop_words: list[str] | None = None
    session_len: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    suffix_first: bool | None = None

    @property
    def chat_template(self) -> Any:
        """The template: an object of the registered class, or of :class:`BaseChatTemplate`.

        Raises :class:`rolecall.FormatError` for a value of the wrong type.
        """
        self._checked()
        given = {key: value for key, value in self._fields().items() if value is not None and key != "model_name"}
        made = MODELS.get(self.model_name) or BaseChatTemplate
        if self.suffix_first is not None and getattr(made, "_infill_stop", ()) is None:
            message = f"`{self.model_name}` does not support infilling, so it has no `suffix_first`"
            help = "remove it, or name a registered template that supports infilling"
            raise FormatError(message, code="unknown_key", field="suffix_first", help=help)
        return made(**given, model_name=self.model_name)

    def to_json(self, file_path: str | os.PathLike[str] | None = None) -> str:
        """Return the JSON text, and write it to a file if a path is given.

        The fields that only LMDeploy's documentation has are left out unless they are set.
        """
        fields = self._fields()
        of_release = list(fields)[: list(fields).index("session_len")]
        fields = {key: value for key, value in fields.items() if key in of_release or value is not None}
        text = json.dumps(fields, ensure_ascii=False, indent=4)
        if file_path is not None:
            with open(file_path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    @classmethod
    def from_json(cls, file_or_string: str | os.PathLike[str]) -> ChatTemplateConfig:
        """Read a file, or JSON text.

        Raises :class:`rolecall.FormatError` for text that is not JSON, an unknown field, a missing
        ``model_name``, or a value of the wrong type.

        >>> ChatTemplateConfig.from_json('{"model_name": "mine", "user": "U:"}').user
        'U:'
        """
        return cls(**_rolecall.lmdeploy_config(_read(file_or_string)))

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _checked(self) -> None:
        _values.text("model_name", self.model_name)
        fields = {key: value for key, value in self._fields().items() if value is not None}
        try:
            text = json.dumps(fields)
        except (TypeError, ValueError, RecursionError) as error:
            help = "pass values that JSON can hold"
            raise RequestError(str(error), code="wrong_type", field="ChatTemplateConfig", help=help) from None
        _rolecall.lmdeploy_config(text)


def _read(file_or_string: str | os.PathLike[str]) -> str:
    is_path = isinstance(file_or_string, os.PathLike)
    if not is_path and not isinstance(file_or_string, str):
        raise _values.wrong_type("file_or_string", "a path or JSON text", file_or_string)
    try:
        # A text that is too long for a file name, or has a NUL, is not a path.
        is_path = is_path or os.path.isfile(file_or_string)
    except (OSError, ValueError):
        pass
    if not is_path:
        return str(file_or_string)
    try:
        with open(file_or_string, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        help = "pass the path of a JSON file in UTF-8, or its text"
        raise FormatError(f"cannot read {os.fspath(file_or_string)!r}: {error}", code="unreadable", help=help) from error


def best_match_model(query: str | os.PathLike[str]) -> str | None:
    """Return the name of the template that LMDeploy selects for a model's path, or None.

    LMDeploy tries its rules in order and takes the first that fits.

    >>> best_match_model("/models/vicuna-7b-v1.5"), best_match_model("/models/unknown")
    ('vicuna', None)
    """
    if isinstance(query, os.PathLike):
        query = os.fspath(query)
    return _rolecall.lmdeploy_match(_values.word("query", query))


def _register_builtin() -> None:
    """Make a class for each template of the data files, and register it."""
    files = dict(_rolecall.framework_data("lmdeploy"))
    for entry in json.loads(files["registry.json"])["templates"]:
        template = json.loads(files[f"{entry['file']}.json"])
        name = template.pop("model_name")
        defaults = {key: value for key, value in template.items() if value is not None}
        defaults["session_len"] = entry["session_len"]
        defaults.update(entry.get("sampling", {}))
        defaults.setdefault("meta_instruction", None)
        if entry["class"] == BaseModel.__name__:
            made = BaseModel
        else:
            made = _class_of(entry, name, defaults)
            for known in (entry["class"], entry.get("printed", entry["class"])):
                globals()[known] = made
            __all__.extend(sorted({entry["class"], entry.get("printed", entry["class"])}))
        MODELS.register_module(name=[name, *entry.get("aliases", [])], module=made)


def _class_of(entry: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> type:
    infill = entry.get("infill")
    base: type = BaseModel if entry.get("kind") == "text" else BaseChatTemplate
    # Another built-in template has the same constructor, which reads the defaults of the object's own class.
    parent: type = globals()[entry["base"]] if "base" in entry else base

    def __init__(self: Any, **kwargs: Any) -> None:
        given = {**copy.deepcopy(type(self)._defaults), **kwargs}
        if infill is not None:
            self.suffix_first = given.pop("suffix_first", False)
            if given.get("capability") == "infilling" and given.get("stop_words") is None:
                given["stop_words"] = list(infill["stop_words"])
            if given.get("capability") not in _CAPABILITIES:
                raise _unknown_capability(type(self).__name__, given.get("capability"))
        base.__init__(self, **given)

    body = {
        "__init__": __init__,
        "__doc__": (
            f"LMDeploy's template `{name}`. Keyword arguments replace its texts and parameters.\n\n"
            f">>> MODELS.get({name!r})(session_len=100).session_len\n100\n"
        ),
        "__module__": __name__,
        "_like": name,
        "_defaults": dict(defaults),
        "_infill_stop": None if infill is None else list(infill["stop_words"]),
        "_counts_rounds": entry.get("kind") == "rounds",
        "_chat_only": entry.get("chat_only", False),
    }
    return type(entry["class"], (parent,), body)


_CAPABILITIES = ("completion", "infilling", "chat", "python")


def _unknown_capability(name: str, found: object) -> RequestError:
    help = f"use one of {', '.join(_CAPABILITIES)}"
    message = f"{name} does not support the capability {found!r}"
    return RequestError(message, code="unknown_name", field="capability", help=help)


_OF_CONVERSATIONS = ("messages2prompt", "_template")
_OF_TEXTS = ("get_prompt", "decorate_prompt")


def _has_own(own: type, *methods: str) -> bool:
    """Whether a class has one of these methods from elsewhere than :class:`BaseModel`."""
    return any(getattr(own, method, None) is not getattr(BaseModel, method) for method in methods)


def code_template(template: Any, name: str | None) -> CodeTemplate:
    """Return the code of a template.

    >>> code_template(BaseChatTemplate(user="U:", assistant="A:"), None).pieces([{"role": "user", "content": "Hi"}], {})
    ['U:', 0, 'A:']
    """
    own = type(template)
    by_turns = isinstance(template, BaseModel) and not _has_own(own, *_OF_CONVERSATIONS) and _has_own(own, *_OF_TEXTS)
    return CodeTemplate(template, name=name, by_turns=by_turns)


def open_template(model: Any, parts: Mapping[str, Any]) -> Any:
    """Open a registered class by its name, a class, or an object as a model. Return None for anything else.

    >>> open_template(BaseChatTemplate(user="U:", assistant="A:"), {}).prompt([{"role": "user", "content": "Hi"}]).text
    'U:HiA:'
    """
    name = None
    if isinstance(model, str):
        name, made = model, MODELS.get(model.removeprefix("lmdeploy:"))
        if made is None or made in _BUILTIN:
            return None
        model = made
    own = model if isinstance(model, type) else type(model)
    if not any(callable(getattr(own, method, None)) for method in ("messages2prompt", "get_prompt")):
        return None
    template = model() if isinstance(model, type) else model
    if not isinstance(template, BaseModel) or _has_own(own, *_OF_CONVERSATIONS, *_OF_TEXTS):
        return open_code(code_template(template, name), parts)
    fields = {part: getattr(template, part, None) for part in _PARTS}
    given = {key: value for key, value in fields.items() if value is not None}
    return _rolecall.Model({"model_name": own._like or "template", "stop_words": template.stop_words, **given}, **parts)


_register_builtin()

_BUILTIN = frozenset(MODELS.module_dict.values())
