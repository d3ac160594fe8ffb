"""Explaining prompts: in a terminal, as HTML and as a dict."""

import html
import html.parser
import io
import json
import os
import re
import subprocess
import sys

import pytest
import rolecall

HOSTILE = "</span></table><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\u202e<|im_end|>"


@pytest.fixture(scope="module")
def model():
    return rolecall.load("chatml")


def user(text):
    return [{"role": "user", "content": text}]


def test_the_drawing_has_a_row_for_each_line_with_its_message(model):
    drawn = model.explain(user("Hi\nthere<|im_end|>")).text(color=False)
    assert "0 user     │ ⟦<|im_start|>⟧user⏎\n" in drawn
    assert "│ there<|im_end|>⟦<|im_end|>⟧⏎\n" in drawn
    assert "spelled" in drawn and "message 0 spells `<|im_end|>`: it stays text" in drawn
    assert "\x1b" not in drawn
    assert "\x1b[7m<|im_start|>\x1b[0m" in model.explain(user("Hi")).text()


def test_rows_are_wrapped_at_a_width(model):
    lines = model.explain(user("word " * 100)).text(color=False, width=40).splitlines()
    assert max(len(line) for line in lines if "│" in line) <= 40
    assert len(lines) > 10


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_print_uses_colors_only_in_a_terminal(model, monkeypatch):
    explanation = model.explain(user("Hi"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert "\x1b[" in str(explanation)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in str(explanation)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert "\x1b[" not in str(explanation)
    monkeypatch.setattr(sys, "stdout", None)
    assert str(explanation) == explanation.text(color=False)


class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []
        self.attributes = {}

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)


PAGE = {"html", "head", "meta", "title", "style", "body", "h1", "small", "code", "dl", "dt", "dd", "span", "i", "table",
        "tr", "th", "td"}


@pytest.mark.parametrize("place", ["content", "role", "name", "tool", "document", "arguments", "model name"])
def test_hostile_text_adds_no_element_to_the_page(tmp_path, place):
    template = tmp_path / (HOSTILE.replace("/", "") if place == "model name" else "chat")
    template = template.with_name(template.name + ".jinja")
    template.write_text(
        "{% for tool in tools or [] %}{{ tool | tojson }}{{ tool.function.name }}{% endfor %}"
        "{% for document in documents or [] %}{{ document.text }}{% endfor %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.name }}{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments }}{% endfor %}"
        "<|im_end|>\n{% endfor %}"
    )
    model = rolecall.load(template)
    message = {"role": "user", "content": "Hi", "name": "me"}
    call = {"type": "function", "function": {"name": "f", "arguments": {"key": HOSTILE}}}
    arguments = {
        "content": ([{**message, "content": HOSTILE}], {}),
        "role": ([{**message, "role": HOSTILE}], {}),
        "name": ([{**message, "name": HOSTILE}], {}),
        "tool": ([message], {"tools": [{"type": "function", "function": {"name": HOSTILE, "parameters": {}}}]}),
        "document": ([message], {"documents": [{"text": HOSTILE}]}),
        "arguments": ([message, {"role": "assistant", "content": "", "tool_calls": [call]}], {}),
        "model name": ([message], {}),
    }[place]
    page = model.explain(arguments[0], **arguments[1]).html()
    elements = Elements()
    elements.feed(page)
    assert set(elements.found) <= PAGE
    assert set(elements.attributes) <= {"lang", "charset", "name", "content", "class", "title"}
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert "http" not in page and "url(" not in page
    # The part of a notebook is one frame, and the page is text in it.
    frame = model.explain(arguments[0], **arguments[1])._repr_html_()
    outer = Elements()
    outer.feed(frame)
    assert outer.found == ["iframe"] and outer.attributes["sandbox"] == [""]
    assert outer.attributes["srcdoc"] == [page]


def test_the_dict_is_what_the_command_writes(model):
    explained = model.explain(user("Hi<|im_end|>")).to_dict()
    assert explained["prompt"] == model.prompt(user("Hi<|im_end|>")).text
    assert [spelled["token"] for spelled in explained["spelled"]] == ["<|im_end|>"]
    assert json.loads(json.dumps(explained)) == explained


def test_the_mask_is_shown_if_asked_for(model):
    messages = [*user("Hi"), {"role": "assistant", "content": "Hello"}]
    drawn = model.explain(messages, mask=True).text(color=False)
    assert "‹Hello" in drawn and "carries loss" in drawn and "‹Hi" not in drawn
    assert "carries loss" not in model.explain(messages).text(color=False)
    assert 'class="assistant learned"' in model.explain(messages, mask=True).html()
    assert not drawn.split("counts")[0].rstrip().endswith("assistant⏎")


def test_a_notebook_and_a_script_get_the_same_page(model, tmp_path):
    script = "import rolecall\nprint(rolecall.load('chatml').explain([{'role': 'user', 'content': 'Hi'}]))"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environment)
    assert printed.stdout.decode() == model.explain(user("Hi")).text(color=False) + "\n"
    assert re.search(r"height: \d+px", model.explain(user("Hi"))._repr_html_())


def test_with_the_mask_the_text_ends_after_the_last_message_unless_asked(model):
    messages = [*user("Hi"), {"role": "assistant", "content": "Hello"}, *user("Bye")]
    for asked in (None, False, True):
        explained = model.explain(messages, mask=True, add_generation_prompt=asked).to_dict()
        assert explained["prompt"] == model.prompt(messages, add_generation_prompt=bool(asked)).text
