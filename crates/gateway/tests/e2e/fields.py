"""Reads the fields of a request, and refuses what an engine would refuse, misread or ignore."""


class Refused(Exception):
    """A request that the server does not take."""

    def __init__(self, message: str, field: str | None = None):
        super().__init__(message)
        self.field = field


class Fields:
    """An object of a request. Every field must be read before `end`."""

    def __init__(self, body, prefix: str = ""):
        if not isinstance(body, dict):
            raise Refused(f"{prefix or 'the request'}: expected an object")
        self.body, self.prefix, self.left = body, prefix, set(body)

    def take(self, name: str, check, default=None):
        """Returns a field. Null is the default, as in both engines."""
        self.left.discard(name)
        value = self.body.get(name)
        if value is None:
            return default
        if not check(value):
            raise Refused(f"{self.prefix}{name}: {value!r} is not allowed", self.prefix + name)
        return value

    def need(self, name: str, check):
        value = self.take(name, check)
        if value is None:
            raise Refused(f"{self.prefix}{name} is missing", self.prefix + name)
        return value

    def end(self) -> None:
        """The engines ignore fields that they do not know, so the client would not get what it asked for."""
        if self.left:
            name = self.prefix + min(self.left)
            raise Refused(f"{name}: there is no such field, or this server cannot do it", name)


def is_number(low: float, high: float, is_open: bool = False):
    """Accepts numbers between two bounds, of which the lower may be left out."""
    def check(value):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and low <= value <= high and not (is_open and value == low)
    return check


def is_whole(low: int, high: int = 2**63 - 1):
    return lambda value: type(value) is int and low <= value <= high


def is_ids(size: int):
    return lambda value: isinstance(value, list) and all(type(item) is int and 0 <= item < size for item in value)


def is_biases(size: int):
    def check(value):
        is_bias = is_number(-100, 100)
        return isinstance(value, dict) and all(
            token.isdecimal() and int(token) < size and is_bias(bias) for token, bias in value.items())
    return check


def is_text(value) -> bool:
    return isinstance(value, str)


def is_switch(value) -> bool:
    return isinstance(value, bool)


def is_one(wanted):
    return lambda value: value is wanted


def is_object(value) -> bool:
    return isinstance(value, dict)
