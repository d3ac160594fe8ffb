"""The reference engine, timed in its own process.

Reads a template and its variables, then lines with an action and a count, and answers each line
with a line. The environment is set up as in transformers.
"""

import json
import platform
import sys
import time

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda form: "21 Nov 2026"

job = json.loads(sys.stdin.readline())
source, variables = job["template"], job["variables"]
template = environment.from_string(source)
work = {"render": lambda: template.render(**variables), "compile": lambda: environment.from_string(source)}
versions = f"jinja2 {jinja2.__version__}, Python {platform.python_version()}"
print(json.dumps({"text": work["render"](), "versions": versions}), flush=True)
for line in sys.stdin:
    what, times = line.split()
    run = work[what]
    start = time.perf_counter_ns()
    for _ in range(int(times)):
        run()
    print(time.perf_counter_ns() - start, flush=True)
