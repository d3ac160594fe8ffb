"""LMFlow's names: every row of the golden vectors, and what users may pass."""

import dataclasses
import json
import random
import subprocess
import threading
import types

import pytest
import rolecall
from interop_rows import Excused, Letters, all_ops, judge, rows, same
from rolecall.interop import lmflow
from rolecall.interop.lmflow import (
    JINJA_CONVERSATION_TEMPLATES,
    PRESET_TEMPLATES,
    ConversationTemplate,
    StringFormatter,
    TemplateComponent,
    conversation_tokenize_function,
    render_jinja,
)
from test_doors import command

OPS = {"encode_conversation", "conversation_tokenize_function", "jinja", "jinja preset", "document printed example"}

OPEN = "the reference reads messages in pairs by index and runs past the end"
TUPLES = "adding a starter or stopper cuts a turn with calls to its first two parts"
IGNORED = "a tool preset skips a role that it does not know"
NULLS = "the vectors were made by a transformers that passes nulls to templates; 5.24 drops them"
NO_MESSAGE = "a message without a role, or whose content is a number, is refused"
GENERATION = "the reference loses a generation block at the start of the text, so it carries no loss"


def test_every_operation_of_the_vectors_is_tested(shared):
    assert all_ops(shared, "lmflow") == OPS


def pieces(tokenizer, ids):
    """Ids in the vectors' notation."""
    names = {1: "bos_token", 2: "eos_token", **{id: text for text, id in tokenizer.tokens.items()}}
    return [{key: text} for key, text in tokenizer.pieces(ids, lambda id: ("token", names.get(id, f"#{id}")))]


def asked(row):
    """The messages without the system text, the system text, and the tools of a row."""
    messages, system = row["conversation"], row["options"]["system_passed"]
    if messages and messages[0]["role"] == "system":
        messages, system = messages[1:], messages[0]["content"]
    return messages, system, row.get("tools")


def encoded(template, messages, system, tools):
    tokenizer = Letters()
    turns = template.encode_conversation(tokenizer, messages, system, tools)
    return [[pieces(tokenizer, part) for part in turn] for turn in turns]


def is_accident(expected):
    """An index out of range or a tuple of the wrong length is an accident of the reference."""
    return expected.get("error") == "IndexError" or "to unpack" in expected.get("message", "")


def has_calls(template):
    return template.function_formatter is not None


def heard(template, messages, system, tools):
    """Encode as a tool preset of the reference does: without the roles that it skips, without a system text that
    no user message follows, and without the parts that are lost when a starter or stopper is added."""
    known = ("user", "assistant", "function", "observation")
    if not messages or messages[0]["role"] != "user":
        system, template = None, dataclasses.replace(template, force_system=False)
    turns = encoded(template, [message for message in messages if message["role"] in known], system, tools)
    if template.special_starter and turns:
        turns[0] = turns[0][:2]
    if template.special_stopper and turns:
        stopper = {"token": "eos_token"}
        turns[-1] = [[piece for piece in part if piece != stopper] for part in turns[-1]][:2]
        if len(turns[-1]) > 1:
            turns[-1][1].append(stopper)
    return turns


def excuse_an_accident(template, expected, messages, work):
    """Our own result must have every message's text, or refuse a role that a tool preset does not know."""
    try:
        text = work()
    except rolecall.RenderError as error:
        assert error.code == "unknown_role" and has_calls(template), error
        raise Excused(IGNORED) from None
    for message in messages:
        assert message["content"] in text, f"{message['content']!r} is missing"
    raise Excused(OPEN if "list index" in expected["message"] else TUPLES)


def all_text(turns):
    return "".join(piece.get("text", "") for turn in turns for part in turn for piece in part)


def test_encode_conversation_rows(shared, record_property):
    def check(row, expected):
        template = PRESET_TEMPLATES[row["template"]]
        messages, system, tools = asked(row)
        if is_accident(expected):
            excuse_an_accident(
                template, expected, messages, lambda: all_text(encoded(template, messages, system, tools))
            )
        try:
            turns = encoded(template, messages, system, tools)
        except rolecall.RenderError as error:
            if "error" in expected or error.code != "unknown_role" or not has_calls(template):
                raise
            same(heard(template, messages, system, tools), expected["turns"])
            raise Excused(IGNORED) from None
        if "turns" in expected and turns != expected["turns"] and has_calls(template):
            same(heard(template, messages, system, tools), expected["turns"])
            raise Excused(TUPLES)
        same(turns, expected.get("turns", "a refusal"))

    judge(rows(shared, "lmflow", "encode_conversation"), check, record_property)


def labelled(pieces_of_ids):
    """Join neighbouring texts with the same loss."""
    found = []
    for piece, loss in pieces_of_ids:
        if found and "text" in piece and "text" in found[-1] and found[-1]["loss"] == loss:
            found[-1]["text"] += piece["text"]
        else:
            found.append({**piece, "loss": loss})
    return found


def segments(template, messages, system, tools, learns_all):
    tokenizer = Letters()
    batch = {"messages": [messages], "system": [system], "tools": [tools]}
    result = conversation_tokenize_function(
        batch, types.SimpleNamespace(train_on_prompt=learns_all), tokenizer, list(batch), template
    )
    (ids,), (labels,), (mask,) = result["input_ids"], result["labels"], result["attention_mask"]
    assert mask == [1] * len(ids) == [1] * len(labels)
    assert all(label in (id, -100) for id, label in zip(ids, labels))
    each = [(pieces(tokenizer, [id])[0], label != -100) for id, label in zip(ids, labels)]
    return labelled(each)


def test_label_rows(shared, record_property):
    def check(row, expected):
        template = PRESET_TEMPLATES[row["template"]]
        messages, system, tools = asked(row)
        learns_all = row["options"]["train_on_prompt"]
        even = messages[: len(messages) - len(messages) % 2]

        def own():
            found = segments(row["template"], messages, system, tools, learns_all)
            return "".join(segment.get("text", "") for segment in found)

        if is_accident(expected):
            answers = [at for at, message in enumerate(even) if message["role"] == "assistant"]
            # What no answer follows is left out of training.
            excuse_an_accident(template, expected, even[: answers[-1] + 1 if answers else 0], own)

        def lossy():
            turns = heard(template, even, system, tools)
            each = [(piece, learns_all or at > 0) for turn in turns for at, part in enumerate(turn) for piece in part]
            return labelled(each)

        try:
            found = segments(template, messages, system, tools, learns_all)
        except rolecall.RenderError as error:
            if "error" in expected or error.code != "unknown_role" or not has_calls(template):
                raise
            same(lossy(), expected["segments"])
            raise Excused(IGNORED) from None
        if "segments" in expected and found != expected["segments"] and has_calls(template):
            same(lossy(), expected["segments"])
            raise Excused(TUPLES)
        same(found, expected.get("segments", "a refusal"))

    judge(rows(shared, "lmflow", "conversation_tokenize_function"), check, record_property)


def test_printed_rows(shared, record_property):
    def check(row, expected):
        template = row["template"]
        of_document = PRESET_TEMPLATES.get(f"{template}_document")
        preset = of_document or PRESET_TEMPLATES[template]
        messages, options = row["conversation"], row["options"]
        # Where the released code differs from the print, the code wins, unless both exist as data.
        code = None if of_document else expected["agreement"].get("preset_text")
        found = preset.text(messages, bos_token=options["bos_token"], eos_token=options["eos_token"])
        same(found, expected["text"] if code is None else code)

    judge(rows(shared, "lmflow", "document printed example"), check, record_property)


@pytest.fixture
def jinja_templates(shared, monkeypatch):
    """The Jinja templates of LMFlow's document, registered by name as a user registers them. Those of its presets are
    in the package."""
    facts = json.loads((shared / "facts" / "lmflow_templates.json").read_text(encoding="utf-8"))
    assert JINJA_CONVERSATION_TEMPLATES.keys() == facts["jinja_presets"].keys()
    for name, entry in facts["seed_document_jinja"].items():
        name = name if ":" in name else f"jinja:{name}"
        monkeypatch.setitem(JINJA_CONVERSATION_TEMPLATES, name, entry["template"])


def is_no_message(row):
    return any(
        not isinstance(message.get("role"), str) or isinstance(message.get("content"), (int, float))
        for message in row["conversation"]
    )


def test_jinja_rows(shared, jinja_templates, record_property):
    def check(row, expected):
        options = row["options"]
        try:
            text, spans = render_jinja(
                row["template"], row["conversation"], tools=row.get("tools"),
                add_generation_prompt=options.get("add_generation_prompt") is True,
                bos_token=options["bos_token"], eos_token=options["eos_token"],
            )
        except rolecall.RequestError:
            if "error" in expected or not is_no_message(row):
                raise
            raise Excused(NO_MESSAGE) from None
        if text != expected.get("text") and any(message.get("content", "") is None for message in row["conversation"]):
            raise Excused(NULLS)
        same(text, expected.get("text", "a refusal"))
        wanted = [tuple(span) for span in expected.get("generation_spans_chars", [])]
        if "generation_spans_chars" in expected and spans != wanted and spans[:1] and spans[0][0] == 0:
            same(spans[1:], wanted)
            raise Excused(GENERATION)
        if "generation_spans_chars" in expected:
            same(spans, wanted)

    judge(rows(shared, "lmflow", "jinja", "jinja preset"), check, record_property)


TEXTS = ["", "a", " b \n", "<think>\nx\n</think>\n\ny", "</think>", "<tool_response>z</tool_response>", "<|im_end|>", "\n"]


def conversations(count):
    """Conversations with calls and results, and some without any order."""
    random_ = random.Random(20)

    def text():
        return random_.choice(TEXTS)

    def call():
        function = {"name": "f", "arguments": random_.choice(['{"x": 1}', {"x": ["\u00e9", None]}])}
        return random_.choice([{"type": "function", "function": function}] * 5 + [function])

    def message():
        made = {"role": random_.choice(["user", "assistant", "system", "tool", "other"]), "content": text()}
        if random_.random() < 0.2:
            made["content"] = random_.choice([None, [{"type": "text", "text": text()}, {"type": "image"}]])
        if made["role"] == "assistant" and random_.random() < 0.5:
            made["tool_calls"] = [call() for _ in range(random_.randint(0, 3))]
            made["reasoning_content"] = random_.choice([text(), None])
        return made

    for number in range(count):
        if number % 3 == 0:
            yield [message() for _ in range(random_.randint(1, 7))]
            continue
        made = [{"role": "system", "content": text()}] * random_.randint(0, 1)
        for _ in range(random_.randint(1, 3)):
            made += [{"role": "user", "content": text()}]
            if random_.random() < 0.5:
                calls = [call() for _ in range(random_.randint(1, 3))]
                made += [{"role": "assistant", "content": random_.choice([None, "a"]), "tool_calls": calls}]
                made += [{"role": "tool", "content": text()} for _ in calls]
            made += [{"role": "assistant", "content": text()}]
        yield made + [{"role": "user", "content": text()}] * random_.randint(0, 1)


def test_jinja_templates_write_what_lmflows_write(shared):
    theirs = json.loads((shared / "facts" / "lmflow_templates.json").read_text(encoding="utf-8"))["jinja_presets"]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    written = dict.fromkeys(theirs, 0)
    for number, messages in enumerate(conversations(400)):
        options = {"tools": tools if number % 4 == 0 else None, "add_generation_prompt": number % 2 == 0}
        for name, source in theirs.items():
            found = []
            for template in (source, name):
                try:
                    found.append(render_jinja(template, messages, bos_token="<s>", **options))
                except rolecall.RolecallError as error:
                    found.append(type(error))
            assert found[0] == found[1], (name, messages, options)
            written[name] += isinstance(found[0], tuple)
    assert min(written.values()) > 50, written


def string(content):
    return StringFormatter(template=[TemplateComponent(type="string", content=content)])


ANSWERED = [{"role": "user", "content": "{{content}} {0}"}, {"role": "assistant", "content": "yes"}]


def own(**more):
    return ConversationTemplate(
        user_formatter=string("U:{{content}}\n"), assistant_formatter=string("A:{{content}}\n"),
        system_formatter=string("S:{{content}}\n"), **more,
    )


def test_own_templates_have_starters_stoppers_separators_and_defaults():
    assert own().text(ANSWERED) == "U:{{content}} {0}\nA:yes\n"
    assert own().text(ANSWERED, "sys") == "S:sys\nU:{{content}} {0}\nA:yes\n"
    template = own(
        special_starter=TemplateComponent("token", "bos_token"), special_stopper=TemplateComponent("token", "eos_token"),
        separator=TemplateComponent("string", "\n"), remove_last_sep=True, system_default="D",
    )
    assert template.text(ANSWERED + ANSWERED, bos_token="<", eos_token=">") == (
        "<S:D\nU:{{content}} {0}\nA:yes\nU:{{content}} {0}\nA:yes>"
    )


def test_tokens_by_text_and_by_id():
    parts = [TemplateComponent("token", "<|u|>"), TemplateComponent("string", "{{content}}"), TemplateComponent("token_id", 13)]
    template = ConversationTemplate(user_formatter=StringFormatter(parts), assistant_formatter=string("{{content}}"))
    tokenizer = Letters()
    [(question, _)] = template.encode_conversation(tokenizer, [{"role": "user", "content": "<|u|>"}, ANSWERED[1]])
    # The user's text is letters, and never the token that it spells.
    assert [id for id in question if id < Letters.first] == [tokenizer.tokens["<|u|>"], 13]
    assert len(question) == 2 + len("<|u|>")
    tokenizer.convert_tokens_to_ids = lambda token: None
    with pytest.raises(rolecall.TokenizerError, match="<|u|>"):
        template.encode_conversation(tokenizer, ANSWERED)


def test_an_open_question_has_an_empty_answer():
    ((question, answer),) = own().encode_conversation(Letters(), ANSWERED[:1])
    assert question and answer == []
    assert own().encode_conversation(Letters(), []) == []


def test_tools_are_texts_of_any_form():
    template = PRESET_TEMPLATES["llama3_for_tool"]
    tools = ["not JSON {", '{"name":"f","x":1.50}', ""]
    assert "sys" + ",".join(tools) + "<" in template.text(ANSWERED, "sys", tools)


def test_the_library_and_the_command_read_the_rows_that_python_reads():
    tools = ["get_weather(city): the weather", '{"name":"f","x":1.50}', "now() <|im_end|>"]
    row = {"conversation_id": 1, "system": "Be brief.", "tools": tools, "messages": ANSWERED}
    for name in ("qwen2_for_tool", "llama3_for_tool", "hymba"):
        template = PRESET_TEMPLATES[name]
        model = rolecall.load(f"lmflow:{name}")
        messages = [{"role": "system", "content": "Be brief."}, *ANSWERED]
        prompt = model.prompt(messages, tools=tools, add_generation_prompt=False)
        names = {"bos_token": model.bos_token or "<s>", "eos_token": model.eos_token or "</s>"}
        assert prompt.text == template.text(ANSWERED, "Be brief.", tools, **names)
        origins = [segment["origin"] for segment in prompt.segments() if segment["text"] in tools]
        assert origins == [{"tool": 0}, {"tool": 1}, {"tool": 2}]
        if command() is not None:
            line = json.dumps({"type": "conversation", "instances": [row]})
            arguments = [command(), "render", "--format", f"lmflow:{name}", "--no-generation-prompt"]
            ran = subprocess.run(arguments, input=line, capture_output=True, check=True, encoding="utf-8")
            assert ran.stdout.removesuffix("\n") == prompt.text.removesuffix("\n")
    with pytest.raises(rolecall.RenderError) as raised:
        rolecall.load("lmflow:llama3").prompt(ANSWERED, tools=tools)
    assert (raised.value.code, raised.value.field) == ("no_place", "tools")


def test_own_classes_encode_through_their_own_methods():
    class Shouting(ConversationTemplate):
        def _encode(self, tokenizer, messages, system, tools):
            parts = self.user_formatter.format(content=messages[0]["content"].upper())
            return [(self._encode_template(parts, tokenizer), [7])]

    class Fixed(ConversationTemplate):
        def encode_conversation(self, tokenizer, messages, system=None, tools=None, **kwargs):
            return [([1, 2], [3])]

    formatters = dict(user_formatter=string("<{{content}}>"), assistant_formatter=string("{{content}}"))
    arguments = types.SimpleNamespace(train_on_prompt=False)
    batch = {"messages": [[{"role": "user", "content": "a"}, ANSWERED[1]]]}
    shouted = conversation_tokenize_function(batch, arguments, Letters(), ["messages"], Shouting(**formatters))
    letters = [Letters.first + ord(letter) for letter in "<A>"]
    assert shouted["input_ids"] == [[*letters, 7]] and shouted["labels"] == [[-100, -100, -100, 7]]
    fixed = conversation_tokenize_function(batch, arguments, Letters(), ["messages"], Fixed(**formatters))
    assert fixed == {"input_ids": [[1, 2, 3]], "attention_mask": [[1, 1, 1]], "labels": [[-100, -100, 3]]}
    # The last of an odd number of messages is dropped, and so is a conversation that the assistant opens.
    seen = []

    class Seeing(Fixed):
        def encode_conversation(self, tokenizer, messages, system=None, tools=None, **kwargs):
            seen.append((len(messages), system, tools))
            return []

    others = [ANSWERED + ANSWERED[:1], ANSWERED[1:] * 2, [{"role": "system", "content": "S"}, *ANSWERED]]
    batch = {"messages": others, "tools": [None, None, ["t"]]}
    conversation_tokenize_function(batch, arguments, Letters(), ["messages"], Seeing(**formatters))
    assert seen == [(2, None, None), (2, "S", ["t"])]


def test_an_empty_text_is_one_space():
    assert [part.content for part in string("{{content}}").format(content="")] == [" "]
    assert own().user_formatter.format(content="")[0].content == "U:\n"


def test_jinja_templates_label_their_generation_blocks(monkeypatch):
    source = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ bos_token }}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )

    class Offsets(Letters):
        def __call__(self, text, add_special_tokens, return_offsets_mapping):
            assert (add_special_tokens, return_offsets_mapping) == (False, True)
            return {"input_ids": self.encode(text, False), "offset_mapping": [(at, at + 1) for at in range(len(text))]}

    monkeypatch.setitem(JINJA_CONVERSATION_TEMPLATES, "mine", source)
    batch = {"messages": [[{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}]]}
    for template in (source, "mine"):
        result = conversation_tokenize_function(batch, types.SimpleNamespace(), Offsets(), ["messages"], template)
        letters = [chr(label - Letters.first) for label in result["labels"][0] if label != -100]
        assert letters == ["c", "d"] and len(result["input_ids"][0]) == 7


def test_what_cannot_be_learned_has_empty_lists():
    batch = {"messages": [[], ANSWERED[:1], ANSWERED[1:] * 2, ANSWERED + ANSWERED[:1]]}
    result = conversation_tokenize_function(batch, types.SimpleNamespace(), Letters(), ["messages"], own())
    lengths = [len(ids) for ids in result["input_ids"]]
    assert lengths[:3] == [0, 0, 0] and lengths[3] == len(own().text(ANSWERED))


BAD_TEMPLATES = [
    dict(user_formatter=None), dict(user_formatter=5), dict(system_formatter="{{content}}"), dict(user_formatter=string("no place")), dict(user_formatter=string(5)),
    dict(user_formatter=StringFormatter([TemplateComponent("strng", "{{content}}")])),
    dict(user_formatter=StringFormatter(["{{content}}"])), dict(user_formatter=StringFormatter(None)),
    dict(user_formatter=string("{{contnt}} {{content}}")), dict(special_starter="x"), dict(separator=5),
    dict(user_formatter=string("\ud800{{content}}")), dict(system_default=5),
    dict(special_starter=TemplateComponent("token_id", -1)), dict(special_starter=TemplateComponent("token", object())),
]


@pytest.mark.parametrize("values", BAD_TEMPLATES, ids=range(len(BAD_TEMPLATES)))
def test_bad_templates_are_refused_with_a_typed_error(values):
    template = own()
    for name, value in values.items():
        setattr(template, name, value)
    with pytest.raises(rolecall.RolecallError) as raised:
        template.encode_conversation(Letters(), ANSWERED)
    assert raised.value.code and str(raised.value)


BAD_MESSAGES = [
    None, 5, "text", [None], [{}], [{"content": "a"}], [{"role": 5, "content": "a"}], [{"role": "user", "content": object()}],
    [{"role": "user", "content": "\ud800"}, ANSWERED[1]],
]


@pytest.mark.parametrize("messages", BAD_MESSAGES, ids=range(len(BAD_MESSAGES)))
def test_bad_messages_are_refused_with_a_typed_error(messages):
    with pytest.raises(rolecall.RolecallError) as raised:
        own().encode_conversation(Letters(), messages)
    assert raised.value.code


def test_other_bad_arguments_are_refused_with_a_typed_error():
    arguments = types.SimpleNamespace()
    for template in (None, 5, "absent", object()):
        with pytest.raises(rolecall.RolecallError) as raised:
            conversation_tokenize_function({"messages": [ANSWERED]}, arguments, Letters(), [], template)
        assert raised.value.code and raised.value.help
    for examples in (None, 5, {}, {"messages": None}, {"messages": [None]}, {"messages": [[None, None]]}):
        with pytest.raises(rolecall.RolecallError):
            conversation_tokenize_function(examples, arguments, Letters(), [], own())
    for system, tools in ((5, None), (None, [5]), (None, "text"), (None, {"a": 1})):
        with pytest.raises(rolecall.RolecallError):
            own().encode_conversation(Letters(), ANSWERED, system, tools)
    with pytest.raises(rolecall.RenderError):
        PRESET_TEMPLATES["empty"].encode_conversation(Letters(), ANSWERED, "sys")
    for source in ("{% if %}", "{{ raise_exception('no') }}", "{{ 1 // 0 }}"):
        with pytest.raises(rolecall.RolecallError):
            render_jinja(source, ANSWERED)
    with pytest.raises(rolecall.RolecallError):
        render_jinja(5, ANSWERED)


def test_threads_get_the_same_ids():
    def encode(name):
        return PRESET_TEMPLATES[name].encode_conversation(Letters(), ANSWERED * 3)

    expected = {name: encode(name) for name in PRESET_TEMPLATES}
    wrong = []

    def work():
        for name in list(expected) * 3:
            if encode(name) != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_texts_and_many_messages_are_encoded():
    text = "{{content}}" * 100_000
    [(question, _)] = own().encode_conversation(Letters(), [{"role": "user", "content": text}, ANSWERED[1]])
    assert len(question) == len(text) + 3
    assert len(own().encode_conversation(Letters(), ANSWERED * 5_000)) == 5_000


@dataclasses.dataclass
class Said:
    role: str
    content: str


def test_messages_may_be_objects():
    said = [Said("system", "S"), *(Said(**message) for message in ANSWERED)]
    for name in ("llama3", "llama3_for_tool"):
        template = PRESET_TEMPLATES[name]
        assert template.text(said) == template.text(ANSWERED, "S")
        batches = [{"messages": [said]}, {"messages": [ANSWERED], "system": ["S"]}]
        arguments = types.SimpleNamespace(train_on_prompt=False)
        found, wanted = (conversation_tokenize_function(batch, arguments, Letters(), [], name) for batch in batches)
        assert found == wanted


def test_a_tokenizer_without_an_opening_token_writes_none():
    tokenizer = Letters()
    tokenizer.bos_token_id = None
    ((question, answer),) = PRESET_TEMPLATES["empty"].encode_conversation(tokenizer, ANSWERED)
    assert len(question) == len(ANSWERED[0]["content"]) and answer[-1] == 2


def test_the_stopper_ends_questions_where_the_document_prints_it():
    class Tokens:
        bos_token, eos_token, bos_token_id, eos_token_id = "<s>", "</s>", 1, 2

        def encode(self, text, add_special_tokens=True):
            return [ord(letter) for letter in text]

    asked, said = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    of_code, of_document = (PRESET_TEMPLATES[name] for name in ("phi3", "phi3_document"))
    both = [asked, said, asked, said]
    assert of_document.encode_conversation(Tokens(), both) == of_code.encode_conversation(Tokens(), both)
    ((question, answer),) = of_document.encode_conversation(Tokens(), [asked])
    assert question[-1] == 2 and question[:-1] == of_code.encode_conversation(Tokens(), [asked])[0][0] and answer == []
