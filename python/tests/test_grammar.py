"""Grammars of what an engine may sample."""

import json
import pickle

import pytest
import rolecall

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}]
USER = [{"role": "user", "content": "Weather?"}]


@pytest.fixture(scope="session")
def model():
    return rolecall.load("qwen2.5")


def test_a_grammar_has_three_forms(model):
    grammar = model.grammar(USER, tools=TOOLS, tool_choice="required")
    assert json.loads(grammar.structural_tag())["type"] == "structural_tag"
    assert "get_weather" in grammar.gbnf() and grammar.gbnf().startswith("root ::=")
    assert "get_weather" in grammar.lark() and "start:" in grammar.lark()
    assert grammar.notes() == grammar.notes("gbnf") == grammar.notes("lark") == []


def test_a_prompts_grammar_is_the_models(model):
    options = {"tool_choice": "required", "parallel_tool_calls": False, "reasoning": "off"}
    from_prompt = model.prompt(USER, tools=TOOLS).grammar(**options)
    assert from_prompt.gbnf() == model.grammar(USER, tools=TOOLS, **options).gbnf()
    assert from_prompt.gbnf() == model.grammar(tools=TOOLS, **options).gbnf()


@pytest.mark.parametrize("choice", [
    "get_weather", {"type": "function", "function": {"name": "get_weather"}}, {"type": "function", "name": "get_weather"},
])
def test_a_named_tool_is_the_only_one(model, choice):
    gbnf = model.grammar(tools=TOOLS, tool_choice=choice).gbnf()
    assert "get_weather" in gbnf and "ping" not in gbnf


def test_the_choice_and_the_number_of_calls_matter(model):
    of = lambda **options: model.grammar(tools=TOOLS, **options).gbnf()  # noqa: E731
    assert of() == of(tool_choice="auto") == of(tool_choice=None)
    distinct = {of(), of(tool_choice="none"), of(tool_choice="required"),
                of(tool_choice="required", parallel_tool_calls=False)}
    assert len(distinct) == 4
    assert "get_weather" not in of(tool_choice="none")


def test_notes_say_what_is_not_enforced(model):
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}}, "not": {"type": "null"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    notes = model.grammar(tools=tools, tool_choice="required").notes("gbnf")
    assert notes and all("`f`" in note for note in notes)


@pytest.mark.parametrize("options", [
    {"tool_choice": 7}, {"tool_choice": {}}, {"tool_choice": {"function": 1}}, {"tool_choice": "unknown"},
    {"reasoning": "deep"}, {"tool_choice": "\ud800"}, {"tools": 7}, {"messages": 7},
])
def test_bad_options_are_refused(model, options):
    with pytest.raises(rolecall.RolecallError) as raised:
        model.grammar(**{"tools": TOOLS, **options})
    assert raised.value.code


def test_an_unknown_language_is_refused(model):
    with pytest.raises(rolecall.RequestError) as raised:
        model.grammar().notes("ebnf")
    assert raised.value.field == "language"


def test_a_grammar_survives_pickling(model):
    grammar = model.grammar(tools=TOOLS, tool_choice="required")
    again = pickle.loads(pickle.dumps(grammar))
    assert (again.gbnf(), again.lark(), again.structural_tag(), again.notes()) == (
        grammar.gbnf(), grammar.lark(), grammar.structural_tag(), grammar.notes())
    assert pickle.loads(pickle.dumps(again)).gbnf() == grammar.gbnf()


def test_a_format_without_calls_says_so():
    notes = rolecall.load("chatml").grammar(tools=TOOLS).notes("gbnf")
    assert any("no calls" in note for note in notes)


def test_a_call_that_cannot_be_made_is_an_error_of_its_own_class(model):
    with pytest.raises(rolecall.GrammarError):
        model.grammar(USER, tool_choice="required")
    with pytest.raises(rolecall.GrammarError):
        model.grammar(USER, tools=TOOLS, tool_choice="no_such_tool")
