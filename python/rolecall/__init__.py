"""Conversations to exactly the tokens that a chat model was trained on, and back.

>>> import rolecall
>>> model = rolecall.load("internlm2")
>>> model.prompt([{"role": "user", "content": "Hello<|im_end|>"}]).text
'<s><|im_start|>user\\nHello<|im_end|><|im_end|>\\n<|im_start|>assistant\\n'

The first ``<|im_end|>`` is the user's text, and it is never encoded as the control token:

>>> [segment["text"] for segment in model.prompt([{"role": "user", "content": "Hello<|im_end|>"}]).segments()
...  if segment["origin"] == {"message": 0, "field": "content"}]
['Hello<|im_end|>']
"""

import sys

from ._rolecall import (
    Attributed,
    ChatTemplate,
    Cut,
    Delta,
    Difference,
    Encoded,
    Explanation,
    Format,
    Grammar,
    Interpreter,
    Model,
    OutputParser,
    Plan,
    Prompt,
    Registry,
    Reply,
    Rollout,
    RunResult,
    Session,
    Tokenizer,
    __version__,
)
from .errors import (
    EncodeError,
    FormatError,
    GrammarError,
    InternalError,
    InterpreterError,
    OpenError,
    ParseError,
    RenderError,
    RequestError,
    RolecallError,
    SessionError,
    TemplateError,
    TokenizerError,
)
from .streams import EventStream

__all__ = [
    "Attributed",
    "ChatTemplate",
    "Cut",
    "Delta",
    "Difference",
    "EncodeError",
    "Encoded",
    "EventStream",
    "Explanation",
    "Format",
    "FormatError",
    "Grammar",
    "GrammarError",
    "InternalError",
    "Interpreter",
    "InterpreterError",
    "Model",
    "OpenError",
    "OutputParser",
    "ParseError",
    "Plan",
    "Prompt",
    "Registry",
    "RenderError",
    "Reply",
    "RequestError",
    "RolecallError",
    "Rollout",
    "RunResult",
    "Session",
    "SessionError",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "__version__",
    "load",
]


def load(model=None, **parts):
    """Open a model.

    ``model`` is its folder, a GGUF file, a chat template (``.jinja``, ``tokenizer_config.json``), a format file, the
    name of a format or model, the template of XTuner, LMDeploy or LMFlow as a dict, a tokenizer of transformers (or a
    processor that has one), or a ``tokenizers.Tokenizer``. An object is copied: later changes to it do not change the
    model.

    A template class of LMDeploy, an object of it, or the name that it was registered with in
    :mod:`rolecall.interop.lmdeploy` works, too. If the class has methods of its own, the model calls them to render:
    :mod:`rolecall.interop.lmdeploy` says what they get.

    Keyword arguments replace parts of the model:

    - ``format``: the name of a format, a format file (``FILE.py:NAME`` is one of several templates of a Python file),
      or the template of a framework as a dict.
    - ``template``: the *path* of a chat template. ``chat_template`` is its *source*: a str, a dict of templates by
      name, or a list of dicts with ``name`` and ``template``. The model's special tokens stay.
    - ``tokenizer``: a path, the bytes of a tokenizer's file of any kind, a ``tokenizers.Tokenizer``, or a tokenizer of
      transformers, whose chat template is then not used.
    - ``tokenizer_config``: for a model in memory, a dict as in ``tokenizer_config.json``.
    - ``bos_token`` (a str or a list of str) and ``eos_token``, for templates and for formats that use the tokenizer's
      own. An empty str means none.

    They also set how requests are rendered, with the names and values of the command: ``template_name``; ``options``,
    a dict; ``bos``: ``"template"``, ``"auto"``, ``"tokenizer"`` or ``"none"``; ``rules``: ``"enforce"`` or
    ``"reference"``; ``forms``: ``"as-wanted"`` or ``"as-given"``; ``protect``: ``"control"`` or ``"all-added"``;
    ``plain_markers``: whether markers that a template writes around turns may be text instead of tokens;
    ``now``, the time that templates see: a datetime or a str; ``limits``, a dict of a template's limits by name.

    Raises :class:`OpenError`.

    >>> load("chatml").name
    'chatml'
    >>> load(dict(INSTRUCTION="Q: {input} A:")).prompt([{"role": "user", "content": "Hi"}]).text
    '<s>Q: Hi A:'
    >>> model = load(chat_template="{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}",
    ...              eos_token="</s>")
    >>> model.prompt([{"role": "user", "content": "Hi"}]).text
    '[user] Hi</s>'
    """
    if model is not None and (opened := _opened_template(model, parts)) is not None:
        return opened
    return Model(model, **parts)


def _opened_template(model, parts):
    """Open LMDeploy's template. A name can only be registered if the module was imported."""
    if isinstance(model, str):
        lmdeploy = sys.modules.get("rolecall.interop.lmdeploy")
        return None if lmdeploy is None else lmdeploy.open_template(model, parts)
    own = model if isinstance(model, type) else type(model)
    if not any(callable(getattr(own, method, None)) for method in ("messages2prompt", "get_prompt")):
        return None
    from .interop import lmdeploy

    return lmdeploy.open_template(model, parts)
