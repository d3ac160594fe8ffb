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

from ._rolecall import Encoded, Explanation, Model, Prompt, __version__
from .errors import (
    EncodeError,
    FormatError,
    GrammarError,
    OpenError,
    RenderError,
    RequestError,
    RolecallError,
    SessionError,
    TemplateError,
    TokenizerError,
)

__all__ = [
    "EncodeError",
    "Encoded",
    "Explanation",
    "FormatError",
    "GrammarError",
    "Model",
    "OpenError",
    "Prompt",
    "RenderError",
    "RequestError",
    "RolecallError",
    "SessionError",
    "TemplateError",
    "TokenizerError",
    "__version__",
    "load",
]


def load(path_or_name, *, format=None, template=None, tokenizer=None):
    """Open a model: its folder, a GGUF file, a chat template, a format file, or a known name.

    ``format``, ``template`` and ``tokenizer`` replace the parts of it. Raises :class:`OpenError`.

    >>> load("chatml").name
    'chatml'
    """
    return Model(path_or_name, format=format, template=template, tokenizer=tokenizer)
