"""Grammars, by the library that vLLM and SGLang use."""

import functools
import sys
import types

import numpy


class Absent(types.ModuleType):
    """A stub for a library that xgrammar imports but does not need for masks in numpy's arrays."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **named: None})


def import_xgrammar():
    import tvm_ffi  # noqa: F401  looks for torch itself, and works without it

    for name in ("torch", "transformers"):
        sys.modules.setdefault(name, Absent(name))
    import xgrammar

    return xgrammar


xgrammar = import_xgrammar()


class Grammars:
    """Compiles grammars for the tokens of a model."""

    def __init__(self, vocabulary):
        self.size = len(vocabulary.tokens)
        # Both engines pass the whole vocabulary, with the tokenizer's own end token.
        # Sources: vllm/v1/structured_output/backend_xgrammar.py, sglang/srt/constrained/xgrammar_backend.py.
        info = xgrammar.TokenizerInfo(vocabulary.tokens, xgrammar.VocabType.RAW, stop_token_ids=[vocabulary.end])
        self.compiler = xgrammar.GrammarCompiler(info)
        self.compiled = functools.lru_cache(64)(self.compiler.compile_structural_tag)

    def matcher(self, structural_tag: str) -> "Matcher":
        """Returns a matcher at the start of a grammar, or raises a ValueError."""
        try:
            return Matcher(self.compiled(structural_tag), self.size)
        except RuntimeError as error:
            raise ValueError(str(error)) from error


class Matcher:
    """Says which tokens may come next."""

    def __init__(self, compiled, size: int):
        self.matcher = xgrammar.GrammarMatcher(compiled)
        self.size = size
        self.mask = numpy.zeros((1, (size + 31) // 32), dtype=numpy.int32)

    def allowed(self) -> numpy.ndarray:
        """Returns for each token whether it may come next."""
        self.matcher.fill_next_token_bitmask(self.mask)
        return numpy.unpackbits(self.mask.view(numpy.uint8), bitorder="little")[: self.size].astype(bool)

    def forced(self) -> str:
        """Returns the text that must come next, if there is no other way."""
        return self.matcher.find_jump_forward_string()

    def accept(self, token: int) -> None:
        assert self.matcher.accept_token(token), f"the token {token} was not allowed"
