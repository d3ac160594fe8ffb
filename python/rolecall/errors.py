"""The exceptions. Each says what is wrong, where, and what to do.

>>> try:
...     rolecall.load("chatml").prompt([{"role": "user", "content": 7}])
... except RolecallError as error:
...     print(type(error).__name__, error.code, error.message_index, error.field)
RequestError wrong_type 0 content
"""


class RolecallError(ValueError):
    """The base of all errors.

    ``code`` is a stable name of the kind of error. ``message_index`` and ``field`` say where it is in
    the conversation, and ``help`` what to do; each is None if there is nothing to say. Errors can be
    pickled, so they pass from workers to the caller.

    >>> try:
    ...     rolecall.load("chatml").prompt([])
    ... except RolecallError as error:
    ...     print(error)
    `messages`: the conversation has no messages
    help: give at least one message: {"role": "user", "content": ".."}
    """

    # Without it, the class of panics could not become a subclass (see ``InternalError``).
    __slots__ = ()

    def __init__(self, message, *, code=None, message_index=None, field=None, help=None):
        super().__init__(message)
        self.code = code
        self.message_index = message_index
        self.field = field
        self.help = help

    def __str__(self):
        text = super().__str__()
        where = [] if self.message_index is None else [f"message {self.message_index}"]
        # Some messages of the library begin with the place themselves.
        text = text.removeprefix(f"message {self.message_index}: ")
        if self.field is not None:
            where.append(f"`{self.field}`")
        text = f"{', '.join(where)}: {text}" if where else text
        return text if self.help is None else f"{text}\nhelp: {self.help}"

    def __reduce__(self):
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(kind, args, details):
    error = kind(*args)
    error.__dict__.update(details)
    return error


class RequestError(RolecallError):
    """The messages, tools, switches or arguments cannot be read.

    >>> rolecall.load("chatml").prompt([{"role": "user", "contents": "Hi"}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    rolecall.errors.RequestError: ...contents...
    """


class TemplateError(RolecallError):
    """A chat template has an error, or rejects the conversation with ``raise_exception``.

    >>> rolecall.load(chat_template="{{ raise_exception('a user must speak first') }}").prompt(
    ...     [{"role": "assistant", "content": "Hi"}])
    Traceback (most recent call last):
        ...
    rolecall.errors.TemplateError: a user must speak first
    ...
    """


class FormatError(RolecallError):
    """A format file, or another framework's template, has errors.

    >>> from rolecall.interop.xtuner import stop_words
    >>> stop_words({"INSTRUCTION": "{input}", "SUFIX": "</s>"})
    Traceback (most recent call last):
        ...
    rolecall.errors.FormatError: ...SUFIX...
    """


class RenderError(RolecallError):
    """The format refuses the conversation, for example its roles or their order.

    >>> rolecall.load("llama2").prompt([{"role": "assistant", "content": "Hi"}])
    Traceback (most recent call last):
        ...
    rolecall.errors.RenderError: message 0: ...
    help: put a user message before it, or merge it into the previous message
    """


class TokenizerError(RolecallError):
    """The model has no tokenizer, or it cannot be loaded.

    >>> rolecall.load("chatml").encode([{"role": "user", "content": "Hi"}])
    Traceback (most recent call last):
        ...
    rolecall.errors.TokenizerError: the model has no tokenizer
    help: open the model with a tokenizer
    """


class EncodeError(RolecallError):
    """The prompt cannot be encoded, or an id is not in the tokenizer.

    >>> rolecall.load("path/to/model").parse([1_000_000])
    Traceback (most recent call last):
        ...
    rolecall.errors.EncodeError: id 1000000 is not in the tokenizer, which has 712 tokens
    help: use the tokenizer that produced the ids, and name the format if the maker's code appends tokens
    """


class ParseError(RolecallError):
    """A parser is used wrongly: text and ids are mixed, or the reply has already ended.

    Model output is never an error.

    >>> parser = rolecall.load("path/to/model").parser()
    >>> events = parser.push("Hello")
    >>> parser.push([706])
    Traceback (most recent call last):
        ...
    rolecall.errors.ParseError: the reply began as text, found token ids
    help: pass one reply either as text or as token ids
    """


class GrammarError(RolecallError):
    """No grammar can be made for the request.

    >>> rolecall.load("path/to/model").grammar(tool_choice="required")
    Traceback (most recent call last):
        ...
    rolecall.errors.GrammarError: a call is required, but no tools are offered
    help: offer a tool, or use the tool choice `none`
    """


class SessionError(RolecallError):
    """A session cannot do this in its present state. The session stays as it was.

    >>> rolecall.load("path/to/model").session().accept([706])
    Traceback (most recent call last):
        ...
    rolecall.errors.SessionError: the session awaits no reply
    help: call `open` and pass its ids to the engine first
    """


class InterpreterError(RolecallError):
    """Code cannot be run, or its kernel ended.

    Errors of the code itself are output. ``help`` says how to install what is missing.

    >>> rolecall.Interpreter(python="no/such/python")
    Traceback (most recent call last):
        ...
    rolecall.errors.InterpreterError: ...
    """


class OpenError(RolecallError):
    """A model cannot be opened: no format has the name, or a file is missing or damaged.

    >>> rolecall.load("no/such-model")
    Traceback (most recent call last):
        ...
    rolecall.errors.OpenError: no format matches the model `no/such-model`
    help: choose a format by its name
    """


class InternalError(RolecallError):
    """A bug in rolecall: please report it. Other calls are not affected.

    A panic of the native part is raised as a subclass.

    >>> raise InternalError("index out of bounds")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    rolecall.errors.InternalError: this is a bug in rolecall: index out of bounds
    help: please report this message, with the call that leads to it
    """

    __slots__ = ()

    def __init__(self, message, *, code="internal", help=None, **place):
        text = str(message)
        text = text if text.startswith("this is a bug in rolecall") else f"this is a bug in rolecall: {text}"
        super().__init__(text, code=code, help=help or "please report this message, with the call that leads to it", **place)

    def __reduce__(self):
        # The class of panics has no place in a module.
        return _restore, (InternalError, self.args, self.__dict__.copy())
