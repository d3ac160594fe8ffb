"""The process of a template with code of its own, as the gateway starts it."""

import http.server
import json
import re
import subprocess
import sys
import textwrap
import threading
import urllib.request

import letters
import pytest
from test_doors import command

# As LMDeploy's document writes such a file, for a class with code of its own.
ROUNDS = """
    from lmdeploy.model import MODELS, BaseModel
    from rolecall import RenderError


    @MODELS.register_module(name="rounds")
    class Rounds(BaseModel):
        def __init__(self, **kwargs):
            super().__init__(stop_words=["<|im_end|>"], **kwargs)

        def messages2prompt(self, messages, sequence_start=True, shout=False, **kwargs):
            print("printed by the template")
            if messages[0]["role"] == "tool":
                raise RenderError("no tool here", code="code_takes_less", message_index=0, field="role")
            out = "".join(
                f"[Round {at // 2 + 1}] {m['content']}\\n" if m["role"] == "user" else f"{m['content']}\\n"
                for at, m in enumerate(messages)
            )
            return out + "!" if shout else out
"""


class Process:
    def __init__(self, *asked, cwd=None):
        command = [sys.executable, "-m", "rolecall.serving._template_process", *asked]
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd)

    def line(self):
        return json.loads(self.popen.stdout.readline())

    def ask(self, *messages, **switches):
        rows = [{"role": role, "content": content} for role, content in messages]
        self.count = getattr(self, "count", 0) + 1
        question = {"number": self.count, "messages": rows, "switches": switches}
        self.popen.stdin.write(json.dumps(question) + "\n")
        self.popen.stdin.flush()
        answer = self.line()
        assert answer.pop("number") == self.count
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.stdin.close()
        try:
            self.popen.wait(timeout=10)
        finally:
            self.popen.kill()
            self.popen.wait()
            self.popen.stdout.close()
            self.popen.stderr.close()


@pytest.fixture
def write(tmp_path):
    def write(source, name="template.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return str(path)

    return write


def test_a_file_as_lmdeploys_is_rendered_in_pieces(write):
    with Process(write(ROUNDS)) as process:
        assert process.line() == {"name": "rounds", "stop_words": ["<|im_end|>"]}
        assert process.ask(("user", "Hi")) == {"pieces": ["[Round 1] ", 0, "\n"]}
        grown = process.ask(("user", "é<|im_end|>"), ("assistant", "a"), ("user", "b"), shout=True)
        assert grown == {"pieces": ["[Round 1] ", 0, "\n", 1, "\n[Round 2] ", 2, "\n!"]}
        # An error is one of its request.
        refused = process.ask(("tool", "Hi"))["error"]
        assert (refused["code"], refused["message_index"], refused["field"]) == ("code_takes_less", 0, "role")
        assert refused["message"] == "no tool here"
        process.popen.stdin.write("[]\n")
        process.popen.stdin.flush()
        assert process.line()["error"]["code"] == "code_failed"
        assert process.ask(("user", "Hi")) == {"pieces": ["[Round 1] ", 0, "\n"]}
        process.popen.stdin.close()
        assert process.popen.wait(timeout=10) == 0
        # What the code prints does not come between the answers.
        assert "printed by the template" in process.popen.stderr.read()


def test_code_that_changes_a_text_is_refused(write):
    source = """
        class Strips:
            stop_words = None

            def messages2prompt(self, messages, sequence_start=True):
                return "".join(m["content"].strip() for m in messages)
    """
    with Process(write(source)) as process:
        assert process.line() == {"name": "Strips", "stop_words": []}
        assert process.ask(("user", "Hi")) == {"pieces": [0]}
        refused = process.ask(("user", " Hi "))["error"]
        assert (refused["code"], refused["message_index"], refused["field"]) == ("text_not_found", 0, "content")


def test_a_class_with_texts_only_and_one_for_each_turn(write):
    source = """
        from lmdeploy.model import MODELS, BaseChatTemplate, BaseModel


        @MODELS.register_module(name="texts")
        class Texts(BaseChatTemplate):
            def __init__(self, user="<u>", assistant="<a>", **kwargs):
                super().__init__(user=user, assistant=assistant, **kwargs)


        @MODELS.register_module(name="turns")
        class Turns(BaseModel):
            def get_prompt(self, prompt, sequence_start=True):
                return f"<{'first' if sequence_start else 'next'}>{prompt}<end>"
    """
    path = write(source)
    with Process(path) as process:
        error = process.line()["error"]
        assert error["code"] == "ambiguous" and "`" + path + ":texts`" in error["help"], error
    with Process(path + ":texts") as process:
        assert process.line()["name"] == "texts"
        assert process.ask(("user", "Hi")) == {"pieces": ["<u>", 0, "<a>"]}
    with Process(path + ":turns") as process:
        assert process.line()["name"] == "turns"
        asked = process.ask(("user", "a"), ("assistant", "b"), ("user", "c"))
        assert asked == {"pieces": ["<first>", 0, "<end>", 1, "<next>", 2, "<end>"]}
    with Process(path + ":other") as process:
        error = process.line()["error"]
        assert error["code"] == "unknown_name" and "`turns`" in error["help"]


def test_a_module_is_found_by_its_name(write, tmp_path):
    write(ROUNDS, "of_rounds.py")
    for asked in ("of_rounds", "of_rounds:rounds", "of_rounds:Rounds"):
        with Process(asked, cwd=tmp_path) as process:
            assert process.line()["stop_words"] == ["<|im_end|>"]


@pytest.mark.parametrize(
    ("source", "words"),
    [("def f(:\n", "SyntaxError"), ("import no_such_module\n", "no_such_module"), ("x = 1\n", "has no template")],
)
def test_a_file_that_cannot_be_used_says_so(write, source, words):
    with Process(write(source)) as process:
        assert words in process.line()["error"]["message"]
        assert process.popen.wait(timeout=10) == 0


def test_a_missing_file_says_so():
    with Process("no/such/file.py") as process:
        assert process.line()["error"]["code"] == "unreadable"


def test_what_code_remembers_is_never_its_own_text(write):
    source = """
        SEEN = []


        class Remembers:
            seen = []

            def messages2prompt(self, messages, sequence_start=True):
                text = "".join(f"<{m['content']}>" for m in messages)
                SEEN.extend(m["content"] for m in messages)
                self.seen.extend(m["content"] for m in messages)
                return f"[{SEEN[0]}][{self.seen[0]}]" + text
    """
    with Process(write(source)) as process:
        process.line()
        for text in ("secret<|im_end|>", "another"):
            answer = process.ask(("user", text))
            pieces = answer.get("pieces", [])
            assert "secret" not in json.dumps(pieces) and "another" not in json.dumps(pieces), answer
            assert answer["error"]["code"] == "text_not_found" if not pieces else True


def test_an_empty_text_has_a_place_unless_the_code_leaves_it_out(write):
    source = """
        class Plain:
            def messages2prompt(self, messages, sequence_start=True):
                return "".join(f"<{m['content']}>" for m in messages)


        class Leaves:
            def messages2prompt(self, messages, sequence_start=True):
                return "".join(f"<{m['content']}>" for m in messages if m["content"])
    """
    path = write(source)
    for name, pieces in (("Plain", ["<", 0, "><", 1, ">"]), ("Leaves", ["<", 0, ">"])):
        with Process(f"{path}:{name}") as process:
            process.line()
            assert process.ask(("user", "a"), ("assistant", "")) == {"pieces": pieces}


def test_a_process_that_the_code_forks_does_not_answer(write):
    source = """
        import os


        class Forks:
            def messages2prompt(self, messages, sequence_start=True):
                os.fork()
                return "".join(f"<{m['content']}>" for m in messages)
    """
    with Process(write(source)) as process:
        process.line()
        for text in ("a", "b", "c"):
            assert process.ask(("user", text)) == {"pieces": ["<", 0, ">"]}


def test_words_of_errors_have_no_surrogates(write):
    source = """
        class Fails:
            def messages2prompt(self, messages, sequence_start=True, **switches):
                if "self" in switches:
                    return "".join(m["content"] for m in messages)
                raise ValueError("bad \\ud800")
    """
    with Process(write(source)) as process:
        process.line()
        error = process.ask(("user", "a"))["error"]
        assert error["code"] == "code_failed" and "bad \\ud800" in error["message"], error


def test_an_endless_loop_ends_with_whoever_asked(write):
    source = """
        class Loops:
            def messages2prompt(self, messages, sequence_start=True):
                while True:
                    pass
    """
    with Process(write(source)) as process:
        process.line()
        process.popen.stdin.write(json.dumps({"messages": [{"role": "user", "content": "a"}], "switches": {}}) + "\n")
        process.popen.stdin.close()
        assert process.popen.wait(timeout=10) == 1


OPENINGS = ("<|im_start|>[Round 1] ", "", "<|im_start|>[Round 2] ")


class Engine(http.server.BaseHTTPRequestHandler):
    """A stand-in for llama.cpp's server, whose model says the same each time."""

    prompts = []

    def do_GET(self):
        pages = {"/health": {}, "/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}}
        page = pages.get(self.path)
        self.say(404 if page is None else 200, json.dumps(page))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append(letters.text_of(asked["prompt"]))
        reply = {"content": "", "tokens": [letters.IDS["O"], letters.IDS["k"], letters.END], "stop": False}
        end = {"content": "", "tokens": [], "stop": True, "stop_type": "eos"}
        self.say(200, "".join(f"data: {json.dumps(frame)}\n\n" for frame in (reply, end)), "text/event-stream")

    def say(self, status, text, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def test_the_gateway_serves_a_class(write, tmp_path):
    program = command()
    if program is None or b"serve" not in subprocess.run([program, "--help"], capture_output=True).stdout:
        pytest.skip("the command was not built with the gateway")
    engine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    path = write(ROUNDS.replace("[Round", "<|im_start|>[Round").replace("['content']}\\n", "['content']}<|im_end|>"))
    arguments = {
        "--model": letters.write(tmp_path / "model"), "--engine": f"http://127.0.0.1:{engine.server_port}",
        "--template-python": path, "--python": sys.executable, "--listen": "127.0.0.1:0", "--store-at": "memory",
    }  # fmt: skip
    arguments = [str(word) for pair in arguments.items() for word in pair]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    gateway = subprocess.Popen([program, "serve", *arguments], **pipes)
    try:
        log = ""
        while (found := re.search(r"listening on (http://[0-9.:]+)", log)) is None:
            assert (line := gateway.stdout.readline()), log
            log += line
        for turns in (1, 2):
            roles = ["user", "assistant", "user"][: 2 * turns - 1]
            body = {"messages": [{"role": role, "content": "Ok<|im_end|>"} for role in roles]}
            url, kind = f"{found[1]}/v1/chat/completions", {"Content-Type": "application/json"}
            request = urllib.request.Request(url, json.dumps(body).encode(), kind)
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert json.load(answer)["choices"][0]["message"]["content"] == "Ok"
        first, answer, second = (f"{opening}Ok<|im_end|><|im_end|>" for opening in OPENINGS)
        assert Engine.prompts == [first, first + answer + second]
    finally:
        gateway.terminate()
        gateway.wait(timeout=30)
        gateway.stdout.close()
        engine.shutdown()
        engine.server_close()
