"""The exceptions. Each says what is wrong, where, and what to do."""


class RolecallError(ValueError):
    """The base of all errors.

    ``code`` is a stable name of the kind of error. ``message_index`` and ``field`` say where it is in
    the conversation, and ``help`` what to do; each is None if there is nothing to say.
    """

    def __init__(self, message, *, code=None, message_index=None, field=None, help=None):
        super().__init__(message)
        self.code = code
        self.message_index = message_index
        self.field = field
        self.help = help

    def __str__(self):
        text = super().__str__()
        where = [] if self.message_index is None else [f"message {self.message_index}"]
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
    """The messages, tools or switches cannot be read."""


class TemplateError(RolecallError):
    """A chat template has an error, or raises one for this conversation."""


class FormatError(RolecallError):
    """A format is unknown, or its file has errors."""


class RenderError(RolecallError):
    """The conversation cannot be rendered with the format."""


class TokenizerError(RolecallError):
    """There is no tokenizer, or it cannot be loaded."""


class EncodeError(RolecallError):
    """The prompt cannot be encoded."""


class ParseError(RolecallError):
    """A parser is used wrongly: text and ids are mixed, or the reply has already ended."""


class GrammarError(RolecallError):
    """No grammar can be made for the request."""


class SessionError(RolecallError):
    """A session cannot do this."""


class OpenError(RolecallError):
    """A model cannot be opened."""
