"""Generates templates without regard for types. Most of them fail in Python, and must fail here in the same way."""
import re

NAMES = ["a", "b", "s", "l", "d", "m", "n", "i", "fl", "missing", "ns", "x", "y", "msgs", "t"]
FILTERS = (
    "upper lower title capitalize trim length string list first last join reverse sort unique tojson default d int float "
    "abs round min max sum items dictsort e escape safe replace('a','b') replace(' ','') join(',') join('-') indent "
    "indent(2,true) default('z') default('z',true) tojson(indent=2) tojson(sort_keys=true) tojson(separators=(',',':')) "
    "tojson(ensure_ascii=true) map('upper') map('string') map(attribute='role') map(attribute='content',default='q') "
    "select select('string') reject('none') selectattr('role') selectattr('role','equalto','user') rejectattr('x','defined') "
    "sort(reverse=true) sort(attribute='role') batch(2) slice(2) batch(3,'f') groupby('role') wordcount truncate(5) "
    "truncate(8,true,'') center(9) striptags urlencode forceescape round(1) round(1,'floor') int(3) float(1.5) attr('role') "
    "count xmlattr trim('a') unique(attribute='role') format(1) format('z') wordwrap(7) filesizeformat sum(start=1) "
    "min(attribute='role') list|first tojson|length pprint map('trim') map('length') map('default','k') select('odd') "
    "map(attribute=0) map('first') dictsort(by='value') dictsort(true) sort(case_sensitive=true) replace('l','L',1)"
).split(" ")
FILTERS = [f for f in re.findall(r"[a-z_]+(?:\([^)]*\)+)?(?:\|[a-z]+)?", " ".join(FILTERS)) if f]
TESTS = (
    "defined|undefined|none|string|mapping|iterable|sequence|number|integer|float|boolean|true|false|odd|even|callable|"
    "in ['a', 1]|eq 1|equalto 'user'|ne 2|gt 1|lt 'b'|ge 0|sameas none|divisibleby 2|divisibleby(3)|lower|upper|filter|test|"
    "in 'abc'|== 1|not none|not defined|not string"
).split("|")
METHODS = (
    "strip()|lstrip()|rstrip('a')|split()|split(' ')|split('a')[-1]|split('a')[0]|rsplit(' ', 1)|split(',',1)|upper()|lower()|"
    "title()|capitalize()|startswith('a')|endswith('b')|replace('a','zz')|find('a')|count('a')|items()|keys()|values()|"
    "get('role')|get('x','def')|format(1)|format(a=2)|join(['x','y'])|join(l)|splitlines()|partition('a')|index('a')|"
    "append(1)|pop()|isdigit()|isalpha()|zfill(5)|center(7)|swapcase()|removeprefix('a')|casefold()|isupper()|copy()|"
    "strip('ab ')|expandtabs(3)|rpartition(' ')|ljust(4,'.')|rfind('b')|isspace()|istitle()|encode|x|role|content|items|"
    "__class__|_y|0|-1|format|real"
).split("|")
TEXTS = ["", " ", "a", "b ", "\n", "\n\n", "  x\n", "text", "{", "}", "%", "<|im_start|>", "é你\U0001f600", "\t", " \n ", "#", "'q'"]
STRINGS = [
    "''", "'a'", "'user'", "\"b'c\"", "' x '", "'%s'", "'%d|%5s' ", "'{}'", "'{0} {a}'", "'a,b,c'", "'é\\n'", "'<b>&'", "'1'",
    "'2.5'", "'ab ab'", "'\\t'", "'role'", "'Hello World'", "'%(a)s'", "'{a.b[0]!r:>5}'",
]


class Wild:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, p):
        return self.rng.random() < p

    def literal(self):
        r = self.rng.random()
        if r < 0.35:
            return self.pick(STRINGS)
        if r < 0.6:
            return self.pick(["0", "1", "2", "3", "-1", "7", "10", "1.5", "0.0", "2.0", "1e3", "1e16", "100000000000000000000", "1_0"])
        return self.pick(["true", "false", "none", "True", "None", "[]", "{}", "()", "[1, 2, 3]", "['b', 'a']", "{'a': 1, 'role': 'x'}", "(1, 'a')", "[1, 'a', none]", "[[1, 2], [3]]", "range(4)", "{'a': {'b': [1]}}"])

    def expr(self, depth=0):
        r = self.rng.random()
        if depth > 4 or r < 0.12:
            return self.pick(NAMES) if self.chance(0.65) else self.literal()
        d = depth + 1
        if r < 0.2:
            return f"{self.expr(d)}.{self.pick(['role', 'content', 'a', 'items', 'x', 'b', 'keys', '0', 'tool_calls'])}"
        if r < 0.27:
            return f"{self.expr(d)}[{self.pick([chr(39) + 'role' + chr(39), chr(39) + 'a' + chr(39), '0', '-1', '1', 'i', self.expr(d)])}]"
        if r < 0.32:
            bound = lambda: self.pick(["", "0", "1", "-1", "2", "-2", "none", "i", "10"])
            step = self.pick(["", ":", ":-1", ":2", ":1", ":-2"])
            return f"{self.expr(d)}[{bound()}:{bound()}{step}]"
        if r < 0.46:
            return f"{self.expr(d)}|{self.pick(FILTERS)}"
        if r < 0.52:
            return f"{self.expr(d)} is {self.pick(TESTS)}"
        if r < 0.62:
            return f"{self.postfixable(d)}.{self.pick(METHODS)}"
        if r < 0.74:
            op = self.pick(["+", "+", "+", "-", "*", "/", "//", "%", "**", "~", "~", "+"])
            if op == "**":
                return f"{self.expr(d)} ** {self.pick(['2', '0', '3', '-1', 'i'])}"
            if op == "*":
                return f"{self.expr(d)} * {self.pick(['2', '0', '3', '-1', 'i', '1.5'])}"
            return f"{self.expr(d)} {op} {self.expr(d)}"
        if r < 0.82:
            op = self.pick(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "== 1 ==", "< 2 <"])
            return f"{self.expr(d)} {op} {self.expr(d)}"
        if r < 0.87:
            return f"{self.expr(d)} {self.pick(['and', 'or'])} {self.expr(d)}"
        if r < 0.9:
            return self.pick(["not ", "-", "+"]) + self.expr(d)
        if r < 0.94:
            tail = f" else {self.expr(d)}" if self.chance(0.75) else ""
            return f"({self.expr(d)} if {self.expr(d)}{tail})"
        if r < 0.97:
            return "[" + ", ".join(self.expr(d) for _ in range(self.rng.randint(0, 3))) + "]"
        if r < 0.985:
            return "{" + ", ".join(f"{self.literal()}: {self.expr(d)}" for _ in range(self.rng.randint(0, 3))) + "}"
        return f"({self.expr(d)})"

    def postfixable(self, depth):
        e = self.expr(depth)
        return e if re.fullmatch(r"[\w.\[\]'()]+", e) else f"({e})"

    def sign(self):
        return self.pick(["", "", "", "-", "-", "+"])

    def tag(self, body):
        return f"{{%{self.pick(['', '', '', '-', '-', '+'])} {body} {self.pick(['', '', '', '-', '+'])}%}}"

    def text(self):
        return "".join(self.pick(TEXTS) for _ in range(self.rng.randint(0, 3)))

    def body(self, depth, in_loop=False):
        return "".join(self.part(depth, in_loop) for _ in range(self.rng.randint(1, 4)))

    def part(self, depth, in_loop):
        r = self.rng.random()
        if depth > 3 or r < 0.42:
            if self.chance(0.4):
                return self.text()
            return f"{{{{{self.pick(['', '', '-'])} {self.expr(1)} {self.pick(['', '', '-'])}}}}}"
        d = depth + 1
        if r < 0.53:
            out = self.tag(f"if {self.expr(1)}") + self.body(d, in_loop)
            if self.chance(0.25):
                out += self.tag(f"elif {self.expr(2)}") + self.body(d, in_loop)
            if self.chance(0.4):
                out += self.tag("else") + self.body(d, in_loop)
            return out + self.tag("endif")
        if r < 0.68:
            target = self.pick(["x", "y", "x", "a, b", "x, y"])
            test = f" if {self.expr(2)}" if self.chance(0.2) else ""
            recursive = " recursive" if self.chance(0.04) else ""
            source = self.pick(["l", "msgs", "range(3)", "d", "d.items()", "s", "d|dictsort", "[[1, 2], ['a', 'b']]", "msgs[::-1]", self.expr(2)])
            out = self.tag(f"for {target} in {source}{test}{recursive}") + self.body(d, True)
            if self.chance(0.3):
                attribute = self.pick(["index", "index0", "first", "last", "length", "revindex", "previtem", "nextitem", "depth", "cycle('p', 'q')", "changed(x)"])
                out += f"{{{{ loop.{attribute} }}}}"
            if self.chance(0.15):
                out += self.tag("else") + self.body(d)
            return out + self.tag("endfor")
        if r < 0.8:
            target = self.pick(["a", "b", "x", "y", "i", "ns.v", "ns.w", "a, b", "s"])
            if self.chance(0.2):
                filters = self.pick(["", "", " | upper", " | trim", " | replace('a', 'e') | title"])
                return self.tag(f"set {target.split(',')[0]}{filters}") + self.body(d) + self.tag("endset")
            return self.tag(f"set {target} = {self.expr(1)}")
        if r < 0.86:
            name = self.pick(["mac", "mic"])
            args = self.pick(["", "p", "p, q=1", "p, q=p", "q=2"])
            body = self.body(d) + self.pick(["", "{{ p }}", "{{ q }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}"])
            call = self.pick(["", f"{{{{ {name}(1) }}}}", f"{{{{ {name}(a, q=l) }}}}", f"{{{{ {name}() }}}}", f"{{{{ {name}(1, 2, 3) }}}}", f"{{{{ {name}(z=1) }}}}", f"{{% call {name}(1) %}}c{{{{ i }}}}{{% endcall %}}"])
            return self.tag(f"macro {name}({args})") + body + self.tag("endmacro") + call
        if r < 0.89:
            return self.tag(f"filter {self.pick(['upper', 'trim', 'title', 'replace(' + chr(39) + 'a' + chr(39) + ', ' + chr(39) + 'o' + chr(39) + ')', 'length', 'indent(2)'])}") + self.body(d, in_loop) + self.tag("endfilter")
        if r < 0.92:
            return self.tag(f"with {self.pick(['a', 'x'])} = {self.expr(2)}") + self.body(d, in_loop) + self.tag("endwith")
        if r < 0.94:
            return self.tag("generation") + self.body(d) + self.tag("endgeneration")
        if r < 0.96 and in_loop:
            return self.tag(self.pick(["break", "continue"]))
        if r < 0.98:
            return self.pick(["{# c #}", "{#- c -#}", "{#+ c +#}", "{# {{ x #}\n", "{% raw %} {{ a }}\n{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}\n"])
        return self.tag(self.pick(["do l", "set ns = namespace(v=1)", "set q"])) if self.chance(0.5) else self.text()

    def template(self):
        if self.chance(0.5):
            return f"{{{{ {self.expr()} }}}}"
        return "{% set ns = namespace(v='', w=0) %}" + self.body(0)

    def value(self, depth=0):
        r = self.rng.random()
        if depth > 2 or r < 0.5:
            return self.pick(["", "a", "Hello wOrld", " pad\n", "é\u3000x", "user", "<|im_end|>", "1", "it's \"q\"", "a,b", None, True, False, 0, 1, -2, 3.5, 1e16, 2.0, 10**20])
        if r < 0.75:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.pick(["role", "content", "a", "b", "x", "items", "K"]): self.value(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def context(self):
        context = {
            "s": self.pick(["abc", "", " Ab a ", "a\nb", "é<x>"]),
            "l": [self.value(2) for _ in range(self.rng.randint(0, 4))],
            "d": {"role": self.value(2), "a": self.value(1), "items": 3},
            "m": {"role": "user", "content": self.value(1)},
            "n": None,
            "i": self.pick([0, 1, 2, -1]),
            "fl": self.pick([0.5, 2.0, -1.25, 1e-7]),
            "t": True,
            "msgs": [{"role": self.pick(["user", "assistant", "system"]), "content": self.value(1)} for _ in range(self.rng.randint(0, 3))],
        }
        if self.chance(0.5):
            context["a"] = self.value()
        if self.chance(0.3):
            context["x"] = self.value()
        return context
