"""The examples in the documentation run, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
import rolecall

#: Modules whose examples need a library that is not installed with the package.
NEEDS = {
    "rolecall.hf": "transformers",
    "rolecall.serving.vllm_plugin": "vllm",
    "rolecall.data": "pyarrow",
    "rolecall.renderers": "renderers",
}


def modules():
    found = pkgutil.walk_packages(rolecall.__path__, "rolecall.")
    return ["rolecall", *(module.name for module in found if not module.name.rpartition(".")[2].startswith("_"))]


def documented(owner, name, depth=0):
    """Yields the names and docstrings of an object and of what it defines itself."""
    yield name, inspect.getdoc(owner) or ""
    if depth < 2 and inspect.isclass(owner):
        for key, value in vars(owner).items():
            if not key.startswith("_") and (callable(value) or hasattr(value, "__doc__")):
                yield f"{name}.{key}", getattr(value, "__doc__", None) or ""


def texts(module):
    yield module.__name__, module.__doc__ or ""
    for key in getattr(module, "__all__", [key for key in vars(module) if not key.startswith("_")]):
        value = getattr(module, key)
        if (inspect.isclass(value) or callable(value)) and (
            getattr(value, "__module__", "").partition(".")[0] == "rolecall"
        ):
            yield from documented(value, f"{module.__name__}.{key}")


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_run(name):
    for prefix, library in NEEDS.items():
        if name == prefix or name.startswith(prefix + "."):
            pytest.importorskip(library)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    parser = doctest.DocTestParser()
    for where, text in texts(module):
        test = parser.get_doctest(text, dict(vars(module), rolecall=rolecall), where, None, None)
        lines = []
        assert runner.run(test, out=lines.append).failed == 0, "".join(lines)


@pytest.mark.parametrize("page", ["python/README.md"])
def test_the_examples_of_a_page_run(root, page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(root / page), module_relative=False, optionflags=flags)
    assert failed == 0
    assert tried > 0


@pytest.mark.parametrize("name", rolecall.__all__)
def test_every_public_name_is_documented(name):
    value = getattr(rolecall, name)
    if not inspect.isclass(value) and not callable(value):
        return
    undocumented = [where for where, text in documented(value, name) if not text.strip()]
    assert undocumented == []
