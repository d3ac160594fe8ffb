"""Python's jinja2 with transformers' settings, for the differential fuzzer. Requires jinja2 3.1.6."""
import json
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2026, 11, 21, 12, 34, 56, 789)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


def environment():
    class TemplateDict:
        def __call__(self, *args, **kwargs):
            return dict(*args, **kwargs)

        def fromkeys(self, *args, **kwargs):
            return dict.fromkeys(*args, **kwargs)

    class Namespace(jinja2.utils.Namespace):
        def __init__(*args, **kwargs):
            self, args = args[0], args[1:]
            attrs = dict(*args, **kwargs)
            for name in attrs:
                Namespace._check(name)
            jinja2.utils.Namespace.__init__(self, attrs)

        def __setitem__(self, name, value):
            Namespace._check(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

        @staticmethod
        def _check(name):
            if isinstance(name, str) and name.startswith("_"):
                raise jinja2.exceptions.SecurityError("underscore")

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols, jinja2.ext.do]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = Namespace
    return env


ENV = environment()


def kind(error):
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return "syntax"
    if isinstance(error, jinja2.exceptions.SecurityError):
        return "security"
    if isinstance(error, jinja2.exceptions.UndefinedError):
        return "undefined"
    if isinstance(error, jinja2.exceptions.FilterArgumentError):
        return "type"
    if isinstance(error, jinja2.exceptions.TemplateRuntimeError):
        return "unsupported" if str(error).startswith("No ") else "type"
    if type(error) is jinja2.exceptions.TemplateError:
        return "rejected"
    if isinstance(error, (TypeError, AttributeError)):
        return "type"
    if isinstance(error, SyntaxError):
        return "syntax"
    return "value"


def failed(error):
    return {"error": kind(error), "message": f"{type(error).__name__}: {error}"}


def compiled(source):
    """Returns the compiled template, or the error of its compilation."""
    try:
        return ENV.from_string(source)
    except Exception as error:  # noqa: BLE001
        return failed(error)


def rendered(template, context):
    if isinstance(template, dict):
        return template
    try:
        return {"text": template.render(**context)}
    except Exception as error:  # noqa: BLE001
        return failed(error)
