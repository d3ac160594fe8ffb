"""The examples in the documentation run, and every public name has one.

They run in a folder that has a small model in ``path/to/model``, so that they can be read as a user would write them.
"""

import doctest
import functools
import importlib
import inspect
import pkgutil
import re
import sys

import pytest
import rolecall

#: Modules whose examples need a library that is not installed with the package.
NEEDS = {
    "rolecall.hf": "transformers",
    "rolecall.serving.vllm_plugin": "vllm",
}

#: Modules that an engine loads, and whose names no user calls: docstrings are enough.
LOADED_BY_ENGINES = {"rolecall.serving.vllm_plugin", "rolecall.serving.sglang_plugin"}

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    """A folder with the files that the examples name."""
    sys.path.insert(0, str(root / "examples"))
    try:
        import small_model
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("examples")
    small_model.write(folder / "path" / "to" / "model")
    return folder


def modules():
    found = pkgutil.walk_packages(rolecall.__path__, "rolecall.")
    public = [module.name for module in found if not module.name.rpartition(".")[2].startswith("_")]
    return ["rolecall", "rolecall._rolecall", *public]


def imported(name):
    for prefix, library in NEEDS.items():
        if name == prefix or name.startswith(prefix + "."):
            pytest.importorskip(library)
    return importlib.import_module(name)


def named(module):
    """Yields the public classes and functions of a module, with their names."""
    for key in getattr(module, "__all__", [key for key in vars(module) if not key.startswith("_")]):
        value = getattr(module, key)
        ours = (getattr(value, "__module__", None) or "rolecall").partition(".")[0] == "rolecall"
        if ours and (inspect.isclass(value) or inspect.isroutine(value)):
            yield f"{module.__name__}.{key}", value


def members(owner, name):
    """Yields what a class defines itself, with its names: methods, properties and fields with a docstring."""
    for key, value in vars(owner).items():
        if key.startswith("_"):
            continue
        value = getattr(value, "__func__", value)
        if callable(value) or isinstance(value, (property, functools.cached_property)) or inspect.isdatadescriptor(value):
            # A slot of a dataclass is described by the class.
            if not inspect.ismemberdescriptor(value):
                yield f"{name}.{key}", value


def docstrings(module):
    yield module.__name__, module.__doc__ or ""
    for name, value in named(module):
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            for inner, member in members(value, name):
                yield inner, inspect.getdoc(member) or ""


def examples(text):
    return [
        example for example in doctest.DocTestParser().get_examples(text) if not example.options.get(doctest.SKIP)
    ]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_run(name, folder, monkeypatch):
    module = imported(name)
    monkeypatch.chdir(folder)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for where, text in docstrings(module):
        test = doctest.DocTestParser().get_doctest(text, dict(vars(module), rolecall=rolecall), where, None, None)
        lines = []
        assert runner.run(test, out=lines.append).failed == 0, "".join(lines)


@pytest.mark.parametrize("page", ["python/README.md", "README.md"])
def test_the_examples_of_a_page_run(root, page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    failed, tried = doctest.testfile(str(root / page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert failed == 0
    assert tried > 0


def test_the_page_of_the_package_links_to_no_file(root):
    # The package index shows the page alone.
    links = re.findall(r"\]\(([^)]*)\)", (root / "python/README.md").read_text(encoding="utf-8"))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize("name", modules())
def test_classes_and_functions_have_an_example_and_methods_a_docstring(name):
    module = imported(name)
    assert (module.__doc__ or "").strip() or name == "rolecall._rolecall", "the module has no docstring"
    missing = [f"{where}: no docstring" for where, text in docstrings(module) if not text.strip() and where != name]
    if name not in LOADED_BY_ENGINES:
        for where, value in named(module):
            inside = members(value, where) if inspect.isclass(value) else []
            texts = [inspect.getdoc(value) or "", *(inspect.getdoc(member) or "" for _, member in inside)]
            if not any(map(examples, texts)):
                missing.append(f"{where}: no example that runs")
    assert missing == []


def test_a_name_without_an_example_is_noticed():
    import types

    def bare():
        """Does nothing."""

    def skipped():
        """>>> skipped()  # doctest: +SKIP"""

    class Shown:
        """>>> 1
        1
        """

        def method(self):
            pass

    module = types.ModuleType("rolecall.pretend", "A module.")
    for value in (bare, skipped, Shown):
        value.__module__ = module.__name__
        setattr(module, value.__name__, value)
    texts = dict(docstrings(module))
    assert texts["rolecall.pretend.Shown.method"] == ""
    assert [where for where, text in texts.items() if examples(text)] == ["rolecall.pretend.Shown"]
