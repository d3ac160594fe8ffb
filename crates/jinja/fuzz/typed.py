"""Generates templates whose expressions have the expected types, so that most of them render.

Each name has a fixed type (`s0` is always a string), so scopes need not be tracked.
"""

NAMES = {
    "str": ["s0", "s1", "s2", "role"],
    "int": ["i0", "i1", "n0"],
    "num": ["f0", "f1"],
    "bool": ["b0", "b1"],
    "strs": ["ss", "tags"],
    "ints": ["ii", "jj"],
    "msg": ["m", "last"],
    "msgs": ["messages", "rest"],
    "dict": ["d0", "tool"],
    "tree": ["tree"],
}
ITEM = {"strs": "str", "ints": "int", "msgs": "msg"}
STRINGS = [
    "''", "'a'", "'user'", "'assistant'", "'b,c,a'", "' x '", "'é你\\n'", "'\\t'", "'<b>&\"q\"</b>'", "'Hello wOrld'", "'ß\\u01c5'",
    "'it\\'s'", "\"<think>\\nq</think>\"", "'\\U0001f600'", "'aa' 'b'", "'line\\nline  two\\r\\n\\nx'", "'x' * 3", "'1'", "'-2.5'", "'İı'", "'\\x1c a\\u2028b'",
]
SHORT = ["''", "' '", "','", "'a'", "'b'", "'\\n'", "'l'", "'é'", "'\\n\\n'", "'ab'", "'user'"]
TEXTS = ["", " ", "a", "b ", "\n", "\n\n", "  x\n", "text", "{", "}", "%", "<|im_start|>", "é你\U0001f600", "\t", " \n ", "#", "'q'", "\r\n", "}}", "%}"]
INDENTS = ["none", "0", "1", "2", "4"]


class Typed:
    def __init__(self, rng):
        self.rng = rng
        self.loops = 0
        self.macros = []
        self.serial = 0
        self.in_macro = False

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, p):
        return self.rng.random() < p

    def name(self, kind):
        return self.pick(NAMES[kind])

    # Expressions: the generators for each type.

    def of(self, kind, depth=0):
        if depth > 3 or self.chance(0.16 + 0.08 * depth):
            return self.leaf(kind)
        if self.chance(0.05):
            return f"({self.of(kind, depth + 1)} if {self.of('bool', depth + 1)} else {self.of(kind, depth + 1)})"
        if self.chance(0.02):
            return f"({self.of(kind, depth + 1)} or {self.of(kind, depth + 1)})"
        if self.chance(0.02):
            return f"({self.pick(['missing', 'none', 'm.nothing', self.of(kind, depth + 1)])}|{self.pick(['default', 'd'])}({self.of(kind, depth + 1)}, true))"
        return getattr(self, kind)(depth + 1)

    def leaf(self, kind):
        if self.chance(0.55):
            if self.chance(0.12) and kind in ("str", "int", "bool", "strs"):
                return {"str": "ns.text", "int": "ns.count", "bool": "ns.done", "strs": "ns.list"}[kind]
            return self.name(kind)
        if kind == "str":
            return self.pick(STRINGS) if self.chance(0.7) else f"{self.name('msg')}{self.pick(['.role', '.content', '[' + chr(39) + 'role' + chr(39) + ']'])}"
        if kind == "int":
            if self.loops and self.chance(0.25):
                return "loop." + self.pick(["index", "index0", "length", "revindex", "revindex0", "depth", "depth0"])
            return self.pick(["0", "1", "2", "3", "(-1)", "7", "10", "1_000", "(-7)", "9007199254740993", "10**20", "255"])
        if kind == "num":
            return self.pick(["1.5", "0.0", "2.0", "(-0.5)", "1e3", "1e16", "0.1", "3", "2.675", "1e-7", "100000.0", "(-1)"])
        if kind == "bool":
            if self.loops and self.chance(0.25):
                return self.pick(["loop.first", "loop.last", "loop.nextitem is defined", "loop.previtem is defined", "(not loop.last)"])
            return self.pick(["true", "false", "True", "False", "missing", "none"])
        return {
            "strs": lambda: "[" + ", ".join(self.pick(STRINGS) for _ in range(self.rng.randint(0, 3))) + "]",
            "ints": lambda: self.pick(["[1, 2, 3]", "[3, 1, 2, 1]", "[]", "(4, 5)", "range(4)|list", "range(3, -1, -1)", "range(1, 8, 3)", "[true, 2]"]),
            "msg": lambda: "{'role': 'user', 'content': 'hi'}",
            "msgs": lambda: "[{'role': 'user', 'content': 'q'}, {'role': 'tool', 'content': 'r', 'x': 1}]",
            "dict": lambda: self.pick(["{}", "{'a': 1, 'b': [1, 'x', none]}", "{'k': {'z': 1.0, 'a': true}}", "dict(a=1, b='c')", "dict([('x', 1)], y=2)", "{'B': 1, 'a': 2, 'c': 0}"]),
            "tree": lambda: "[{'v': 1, 'kids': [{'v': 2, 'kids': []}]}]",
        }[kind]()

    def post(self, kind, depth):
        """Returns an expression that a dot, a bracket or a filter may follow."""
        e = self.of(kind, depth)
        return e if e.isidentifier() or (e[0] in "('[" and self.chance(0.0)) else f"({e})"

    def any(self, depth=0):
        if depth > 4 or self.chance(0.1):
            return self.pick(["none", "missing", "m.nothing", "[]", "{}", "()", "1", "'a'", "[1, 'a', none, true, 1.0]", "{'a': {'b': [1]}}", "[[1, 2], [3]]", "(1,)", "[missing]"])
        return self.of(self.pick(["str", "str", "int", "num", "bool", "strs", "ints", "msg", "msgs", "dict"]), depth)

    def json(self, depth):
        options = []
        if self.chance(0.3):
            options.append(f"indent={self.pick(INDENTS)}")
        if self.chance(0.2):
            options.append("sort_keys=" + self.pick(["true", "false"]))
        if self.chance(0.2):
            options.append("ensure_ascii=" + self.pick(["true", "false"]))
        if self.chance(0.15):
            options.append("separators=" + self.pick(["(',', ':')", "(', ', ': ')", "['; ', ' = ']"]))
        what = self.post(self.pick(["str", "num", "bool", "strs", "ints", "msg", "msgs", "dict", "tree"]), depth)
        return f"{what}|tojson" + (f"({', '.join(options)})" if options or self.chance(0.1) else "")

    def range_of(self):
        bound = lambda: self.pick(["", "", "0", "1", "-1", "2", "-2", "none", "i0", "10", "-10"])
        return f"[{bound()}:{bound()}{self.pick(['', '', '', ':', ':1', ':-1', ':2', ':-2', ':none'])}]"

    def str(self, d):
        q = lambda: self.pick(SHORT)
        s = lambda: self.post("str", d)
        r = self.rng.randint(0, 43)
        if r <= 2:
            return f"{self.of('str', d)} + {self.of('str', d)}"
        if r <= 4:
            return f"{self.of('str', d)} ~ {self.post('str', d)} ~ {self.any(d) if self.chance(0.5) else self.leaf('int')}".replace(" ~ missing", " ~ ''")
        if r <= 9:
            return f"{s()}|" + self.pick([
                "upper", "lower", "title", "capitalize", "trim", f"trim({q()})", f"replace({q()}, {self.of('str', d)})", f"replace({q()}, {q()}, {self.pick(['0', '1', '2'])})",
                "indent", f"indent({self.pick(['2', '0', q()])}, {self.pick(['true', 'false'])})", "indent(width=3, first=true, blank=true)", f"truncate({self.pick(['4', '8', '3'])}, {self.pick(['true', 'false'])}, {q()}, {self.pick(['0', '2'])})",
                "truncate(6)", "center(9)", "center(width=12)", "wordwrap(5)", f"wordwrap({self.pick(['4', '9'])}, {self.pick(['true', 'false'])}, {q()}, {self.pick(['true', 'false'])})", "striptags", "urlencode", "e", "escape",
                "forceescape", "safe", "string", f"default({q()})", "list|join", f"list|join({q()})", "reverse", "first", "last", "safe|e", "safe|upper", "e|trim", "pprint", "random|default('') if false else ''",
            ])
        if r <= 13:
            return f"{s()}." + self.pick([
                "strip()", "lstrip()", "rstrip()", f"strip({q()})", f"lstrip({q()})", f"rstrip({q()})", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()",
                f"replace({q()}, {self.of('str', d)})", f"replace({q()}, {q()}, {self.pick(['0', '1', '-1'])})", f"removeprefix({q()})", f"removesuffix({q()})", "zfill(5)", f"center(7, {self.pick(['*', 'é', '.'])!r})",
                "ljust(6)", "rjust(6, '-')", "expandtabs()", "expandtabs(3)", f"join({self.of('strs', d)})", f"split({self.pick(STRINGS[1:3])})[0]", f"split({self.pick(SHORT[1:])})[-1]", "partition('a')[2]",
                "rpartition(' ')[0]", f"split({self.pick(SHORT[1:])})|first", "splitlines()|join('|')", "__str__()" if self.chance(0.02) else "strip()",
                f"translate({{97: 'A', 98: none}})" if self.chance(0.05) else "strip()",
            ])
        if r <= 15:
            return f"{s()}{self.range_of()}"
        if r == 16:
            return f"{s()}[{self.pick(['0', '-1', '1', 'i0'])}]|default('')"
        if r <= 18:
            return self.pick([
                f"'%s and %r' % ({self.any(d)}, {self.any(d)})".replace("missing", "'m'"), f"'%05d|%-6d|%+d' % ({self.of('int', d)}, {self.of('int', d)}, {self.of('int', d)})", f"'%.2f %e %g' % ({self.of('num', d)}, {self.of('num', d)}, {self.of('num', d)})",
                f"'%(a)s-%(b)s' % {{'a': {self.any(d)}, 'b': {self.of('str', d)}}}", f"'%x %o %X %#x' % ({self.leaf('int')}, {self.leaf('int')}, {self.leaf('int')}, {self.leaf('int')})", f"'%10.3s|%-5s|%%' % ({self.of('str', d)}, {self.of('str', d)})",
                f"'%s'|format({self.any(d)})", f"'%s-%d'|format({self.of('str', d)}, {self.of('int', d)})", f"'%(x)s'|format(x={self.any(d)})", "'%c%c' % (97, 'z')", "'%5s%%' % (i0,)", "'%*d' % (4, i0)", "'%s' % s0", "'%s %s' % (ss, d0)", "'%i' % 3.9",
            ])
        if r <= 21:
            spec = self.pick(["", ":>8", ":<8", ":^9", ":*^9", ":.2", ":8.3", "!r", "!s", "!r:>12", "!a"])
            ispec = self.pick(["", ":d", ":05d", ":x", ":#b", ":,", ":+", ":>6", ":_", ":.1f", ":e", ":n", ":c" if self.chance(0.05) else ":o"])
            fspec = self.pick(["", ":.2f", ":8.3f", ":e", ":g", ":.0f", ":+.1f", ":%", ":.3", ":,.2f", ":010.2f", ":G", ":#.3g"])
            return self.pick([
                f"'{{{spec}}}|{{}}'.format({self.of('str', d)}, {self.any(d)})", f"'{{0{ispec}}} {{0}}'.format({self.of('int', d)})", f"'{{0{fspec}}}'.format({self.of('num', d)})",
                f"'{{a{spec}}}{{b}}'.format(a={self.of('str', d)}, b={self.of('int', d)})", "'{0[role]} {0[content]!r}'.format(m)", "'{{}}{}'.format(1)", f"'{{:{{}}}}'.format({self.of('str', d)}, {self.pick(['3', '9', chr(39) + '^7' + chr(39)])})", f"'{{0[0]}}'.format({self.leaf('strs')} + ['z'])",
            ])
        if r <= 24:
            return f"{self.post(self.pick(['strs', 'strs', 'ints']), d)}|join" + self.pick(["", f"({q()})", f"(d={q()})", f"({q()}, attribute='x')" if self.chance(0.05) else f"({q()})"])
        if r == 25:
            return f"{self.post('msgs', d)}|join({q()}, attribute='{self.pick(['role', 'content'])}')"
        if r <= 29:
            return self.json(d)
        if r == 30:
            return f"{self.any(d)}|string" if self.chance(0.1) else f"({self.any(d)})|string"
        if r == 31:
            return f"{self.post('strs', d)}|{self.pick(['first', 'last', 'min', 'max', 'sort|first', 'random|string if false else ' + q()])}|default('e')"
        if r == 32:
            return f"{self.pick(['', '-'])}{self.leaf('int')}|abs|filesizeformat" + self.pick(["", "(true)", "(binary=true)"])
        if r == 33:
            return f"({self.any(d)})|pprint"
        if r == 34:
            return f"{{'a': {self.leaf('int')}, 'b': none, 'c-d': {self.leaf('str')}}}|xmlattr" + self.pick(["", "(false)", "(autospace=true)"])
        if r == 35 and self.loops:
            return f"loop.cycle({self.of('str', d)}, {self.leaf('str')}" + self.pick([")", ", 'c')"])
        if r == 36 and self.macros:
            return self.macro_call(d)
        if r == 37 and self.in_macro:
            return self.pick(["varargs|join('/')", "kwargs|dictsort|string", "(caller() if caller is defined and caller else 'none')", "kwargs|tojson", "(caller('x') if caller else '')"])
        if r == 38:
            return f"{self.post('dict', d)}.{self.pick(['get', 'get'])}({self.pick(['a', 'b', 'k', 'zz'])!r}, {self.any(d)})|string"
        if r == 39:
            return f"{s()} * {self.pick(['2', '0', '3', '-1'])}"
        if r == 40:
            return self.pick(["strftime_now('%d %b %Y')", "strftime_now('%Y-%m-%dT%H:%M:%S')", "strftime_now('%A %B %j %p %I %y')", "(j() if j is defined else '')", "(c.next() if c else '')"])
        if r == 41:
            return f"{self.post('dict', d)}|items|map('first')|join(',')"
        if r == 42:
            return f"({self.any(d)} is {self.test()})|string|lower"
        return f"({self.of('str', d)})"

    def int(self, d):
        i = lambda: self.of("int", d)
        return self.pick([
            lambda: f"{i()} {self.pick(['+', '-', '*'])} {i()}",
            lambda: f"{i()} {self.pick(['//', '%'])} {self.pick(['2', '3', '(-3)', '7', '10'])}",
            lambda: f"{self.post(self.pick(['str', 'strs', 'ints', 'msgs', 'dict']), d)}|{self.pick(['length', 'count'])}",
            lambda: f"{self.post('str', d)}.{self.pick(['find', 'count', 'rfind'])}({self.pick(SHORT)}{self.pick(['', '', ', 1', ', 0, -1'])})",
            lambda: f"{self.post('str', d)}|int" + self.pick(["", "(5)", "(default=-1)", "(0, 16)", "(base=2)"]),
            lambda: f"{self.post('num', d)}|int",
            lambda: f"{self.post('int', d)}|abs",
            lambda: f"{self.post('ints', d)}|sum" + self.pick(["", "(start=2)"]),
            lambda: f"{self.post('strs', d)}|map('length')|sum",
            lambda: f"{self.post('str', d)}|wordcount",
            lambda: f"{self.leaf('int') if self.chance(.5) else '2'} ** {self.pick(['2', '0', '3'])}",
            lambda: f"({i()})",
            lambda: f"-{self.post('int', d)}",
            lambda: f"{self.post('ints', d)}|{self.pick(['min', 'max', 'first', 'last'])}|default(0)",
            lambda: f"{self.post('msgs', d)}|selectattr('role', '{self.pick(['equalto', 'eq', '==', 'ne', 'in'])}', {self.leaf('str')})|list|length",
            lambda: f"{self.post('ints', d)}.{self.pick(['count'])}({self.leaf('int')})",
            lambda: f"{self.post('int', d)}|round|int",
        ])()

    def num(self, d):
        n = lambda: self.of("num", d)
        return self.pick([
            lambda: f"{n()} {self.pick(['+', '-', '*'])} {n()}",
            lambda: f"{n()} {self.pick(['/', '//', '%'])} {self.pick(['2', '3', '(-3)', '0.5', '(-1.5)'])}",
            lambda: f"{self.of('int', d)} / {self.pick(['2', '3', '7'])}",
            lambda: f"{self.post('num', d)}|round" + self.pick(["", "(1)", "(2, 'floor')", "(1, 'ceil')", "(method='ceil')", "(-1)", "(precision=3)"]),
            lambda: f"{self.post('str', d)}|float" + self.pick(["", "(1.5)"]),
            lambda: f"{self.post('int', d)}|float",
            lambda: f"{self.post('num', d)}|abs",
            lambda: f"-{self.post('num', d)}",
            lambda: f"2 ** {self.pick(['0.5', '-1', '3', '1.0'])}",
            lambda: f"[{n()}, {n()}]|{self.pick(['sum', 'max', 'min'])}",
            lambda: self.of("int", d),
        ])()

    def test(self):
        return self.pick([
            "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable", "not none", "not defined", "not string",
            "sameas none", "sameas(true)", "eq 1", "ne 'a'", "equalto 'user'", "== 2", "!= 1", "in [1, 'a', none]", "in ()", "not mapping", "filter" if self.chance(0.02) else "string", "escaped",
        ])

    def bool(self, d):
        op = lambda: self.pick(["==", "!=", "<", "<=", ">", ">="])
        same = lambda kind: f"{self.of(kind, d)} {op()} {self.of(kind, d)}"
        return self.pick([
            lambda: same("str"),
            lambda: same("int"),
            lambda: same("num"),
            lambda: f"{self.any(d)} {self.pick(['==', '!='])} {self.any(d)}",
            lambda: f"{self.of('int', d)} {op()} {self.of('num', d)} {op()} {self.of('int', d)}",
            lambda: f"{self.of('str', d)} {self.pick(['==', '<'])} {self.of('str', d)} {self.pick(['in', 'not in', '!='])} {self.of('str', d)}",
            lambda: f"{self.of('str', d)} {self.pick(['in', 'not in'])} {self.of(self.pick(['str', 'strs', 'dict', 'msg']), d)}",
            lambda: f"{self.of('int', d)} {self.pick(['in', 'not in'])} {self.of('ints', d)}",
            lambda: f"{self.of('bool', d)} {self.pick(['and', 'or'])} {self.of('bool', d)}",
            lambda: f"not {self.of('bool', d)}",
            lambda: f"({self.of('bool', d)})",
            lambda: f"({self.any(d)}) is {self.test()}",
            lambda: f"{self.pick(['missing', 'm.x', 'm.tool_calls', 'messages[0].role', 'd0.k', 'ns.zz'])} is {self.pick(['defined', 'undefined', 'not defined', 'none', 'string', 'iterable', 'mapping', 'false'])}",
            lambda: f"{self.post('int', d)} is {self.pick(['odd', 'even', 'divisibleby 2', 'divisibleby(3)', 'gt 1', 'lt(3)', 'ge 0', 'le 5', 'not odd', 'greaterthan 2', 'lessthan 4'])}",
            lambda: f"{self.post('str', d)} is {self.pick(['lower', 'upper', 'not lower', 'in ' + chr(39) + 'abc user' + chr(39)])}",
            lambda: f"{self.post('str', d)}.{self.pick(['startswith', 'endswith'])}({self.pick(SHORT + ['(' + chr(39) + 'a' + chr(39) + ', ' + chr(39) + 'u' + chr(39) + ')'])})",
            lambda: f"{self.post('str', d)}.{self.pick(['isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'istitle', 'isalnum', 'isdecimal', 'isnumeric', 'isascii', 'isidentifier', 'isprintable'])}()",
            lambda: f"{self.name('msg')}.get({self.pick(['role', 'x', 'content'])!r}) {self.pick(['==', '!='])} {self.of('str', d)}",
            lambda: f"ns.done",
            lambda: f"{self.of('strs', d)} {self.pick(['==', '<', '>=', '!='])} {self.of('strs', d)}",
            lambda: "loop.changed(" + self.any(d) + ")" if self.loops else "true",
            lambda: f"{self.post('strs', d)}|select('equalto', {self.leaf('str')})|list",
        ])()

    def strs(self, d):
        xs = lambda: self.post("strs", d)
        return self.pick([
            lambda: "[" + ", ".join(self.of("str", d) for _ in range(self.rng.randint(0, 3))) + "]",
            lambda: f"{self.post('str', d)}.{self.pick(['split()', 'splitlines()', 'splitlines(true)', 'rsplit(none, 1)', 'split(none, 1)', 'split(maxsplit=1)'])}",
            lambda: f"{self.post('str', d)}.{self.pick(['split', 'rsplit'])}({self.pick(SHORT[1:])}{self.pick(['', '', ', 1', ', maxsplit=2'])})",
            lambda: f"{xs()} + {self.of('strs', d)}",
            lambda: f"{xs()}{self.range_of()}",
            lambda: f"{xs()}|" + self.pick(["sort", "sort(reverse=true)", "sort(true)", "sort(case_sensitive=true)", "unique|list", "unique(true)|list", "reverse|list", "list", "map('upper')|list", "map('trim')|list", "map('replace', 'a', 'b')|list", "map('default', 'x')|list", "select|list", "reject('in', 'abc')|list", "select('string')|list", "reject('eq', 'user')|list", "select('lower')|list", "map('string')|map('title')|list", "sort|unique|list", "batch(2)|map('join')|list", "slice(2)|map('join', '-')|list", "batch(2, 'f')|map('join')|list", "slice(3, 'z')|map('join')|list", "groupby('0')|map('first')|map('string')|list" if self.chance(.1) else "list", "map('indent', width=2, first=true)|list", "map('truncate', 5)|list"]),
            lambda: f"{self.post('msgs', d)}|map(attribute='{self.pick(['role', 'content'])}')|list",
            lambda: f"{self.post('msgs', d)}|map(attribute='x', default='{self.pick(['', 'q'])}')|map('string')|list",
            lambda: f"{self.post('msgs', d)}|groupby('role')|map(attribute='{self.pick(['grouper', '0'])}')|list",
            lambda: f"{self.post('dict', d)}{self.pick(['|list', '.keys()|list', '|dictsort|map(' + chr(39) + 'first' + chr(39) + ')|list', '|items|map(attribute=0)|list', '|sort'])}",
            lambda: f"{self.post('ints', d)}|map('string')|list",
            lambda: f"{self.post('str', d)}|list",
            lambda: f"{xs()} * {self.pick(['2', '0'])}",
            lambda: f"{self.post('str', d)}.{self.pick(['partition', 'rpartition'])}({self.pick(SHORT[1:])})|list",
        ])()

    def ints(self, d):
        return self.pick([
            lambda: "[" + ", ".join(self.of("int", d) for _ in range(self.rng.randint(0, 3))) + "]",
            lambda: f"range({self.pick(['3', '0', 'i0', '5'])})|list",
            lambda: f"range({self.pick(['1', '-2', '6'])}, {self.pick(['4', '0', '-3'])}{self.pick(['', ', 2', ', -1', ', -2'])})|list",
            lambda: f"{self.post('ints', d)}|" + self.pick(["sort", "sort(reverse=true)", "unique|list", "reverse|list", "map('abs')|list", "select('odd')|list", "reject('even')|list", "select('gt', 1)|list", "map('int')|list", "select('divisibleby', 2)|list", "list", "batch(2)|map('sum')|list", "slice(2)|map('length')|list", "batch(2, 0)|map('last')|list"]),
            lambda: f"({self.post('ints', d)}|list){self.range_of()}",
            lambda: f"{self.post('strs', d)}|map('length')|list",
            lambda: f"({self.post('ints', d)}|list) + ({self.post('ints', d)}|list)",
        ])()

    def msg(self, d):
        return self.pick([
            lambda: f"{{'role': {self.of('str', d)}, 'content': {self.of('str', d)}}}",
            lambda: f"dict(role={self.of('str', d)}, content={self.of('str', d)})",
            lambda: f"dict({self.name('msg')}, content={self.of('str', d)})",
            lambda: f"({self.post('msgs', d)}|{self.pick(['first', 'last'])}|default(m))",
            lambda: f"(messages[{self.pick(['0', '-1', 'i0'])}] or m)",
        ])()

    def msgs(self, d):
        return self.pick([
            lambda: f"{self.post('msgs', d)}{self.range_of()}",
            lambda: f"{self.post('msgs', d)} + [{self.of('msg', d)}]",
            lambda: f"{self.post('msgs', d)}|" + self.pick([
                "list", "reverse|list", "selectattr('role')|list", "selectattr('role', 'equalto', 'user')|list", "rejectattr('role', 'eq', 'tool')|list", "rejectattr('x', 'defined')|list", "selectattr('content', 'string')|list", "selectattr('x', 'undefined')|list",
                "sort(attribute='role')", "sort(attribute='content,role')", "sort(attribute='role', reverse=true)", "unique(attribute='role')|list", "groupby('role')|map('last')|map('first')|list", "rejectattr('content', 'in', ['', none])|list", "selectattr('role', 'in', ['user', 'tool'])|list",
                "groupby('role')|map(attribute='list')|map('first')|list", "groupby('content', default='z')|map(attribute=1)|map('last')|list",
            ]),
        ])()

    def dict(self, d):
        return self.pick([
            lambda: "{" + ", ".join(f"{self.pick(SHORT + ['1', 'true', 'none', '1.5'])}: {self.any(d)}" for _ in range(self.rng.randint(0, 3))).replace("missing", "0") + "}",
            lambda: f"dict({self.post('dict', d)}, z={self.any(d)})" if self.chance(0.3) else f"dict(d0, z={self.any(d)})",
            lambda: f"dict({self.post('dict', d)}|items)" if self.chance(0.5) else f"dict(ss|map('upper')|list|batch(2, 'f')|list)",
            lambda: f"{self.post('dict', d)}.copy()",
            lambda: self.of("msg", d),
        ])()

    def tree(self, d):
        return self.name("tree")

    # Statements.

    def sign(self, p=0.35):
        return self.pick(["-", "-", "+"]) if self.chance(p) else ""

    def tag(self, body):
        return f"{{%{self.sign()} {body} {self.sign()}%}}"

    def text(self):
        return "".join(self.pick(TEXTS) for _ in range(self.rng.randint(0, 3))).replace("{{", "{ ").replace("{%", "{ ").replace("{#", "{ ")

    def print(self):
        minus = lambda: "-" if self.chance(0.15) else ""
        what = self.of("str", 0) if self.chance(0.7) else self.any(0)
        if what.startswith("{"):
            what = f"({what})"
        return f"{{{{{minus()} {what} {minus()}}}}}"

    def body(self, depth):
        out = "".join(self.part(depth) for _ in range(self.rng.randint(1, 4)))
        return out.replace("{{{", "{ {{").replace("{{%", "{ {%").replace("{{#", "{ {#")

    def set(self):
        kind = self.pick(["str", "str", "int", "num", "bool", "strs", "ints", "msg", "msgs", "dict"])
        r = self.rng.random()
        if r < 0.3:
            name, kind = self.pick([("ns.text", "str"), ("ns.count", "int"), ("ns.done", "bool"), ("ns.list", "strs")])
            return self.tag(f"set {name} = {self.of(kind, 1)}")
        if r < 0.37:
            return self.tag(f"set {self.pick(['s0, i0', '(s1, i1)', 's2, ns.count'])} = {self.of('str', 1)}, {self.of('int', 1)}")
        if r < 0.41:
            return self.tag(self.pick(["set j = joiner(', ')", "set c = cycler('p', 'q')", "set ns = namespace(text='', count=0, done=false, list=[])", "set ns = namespace({'text': 'x', 'count': 2}, done=true, list=['l'])"]))
        return self.tag(f"set {self.name(kind)} = {self.of(kind, 1)}")

    def loop(self, depth):
        kind = self.pick(["strs", "strs", "ints", "msgs", "msgs", "str", "dict", "pairs", "tree"])
        if kind == "tree":
            deeper = "{{ loop(n.kids) }}" if self.chance(0.7) else "{% if n.kids %}{{- loop(n['kids'])|upper -}}{% endif %}"
            test = " if n.v" if self.chance(0.3) else ""
            self.loops += 1
            inner = self.body(depth + 1)
            self.loops -= 1
            return self.tag(f"for n in {self.name('tree')}{test} recursive") + "{{ n.v }}{{ loop.depth }}" + inner + deeper + self.tag("endfor")
        if kind == "dict":
            target, source = self.pick([("s0", self.post("dict", 2) + "|list|map('string')"), ("k, v", f"{self.post('dict', 2)}.items()"), ("k, v", f"{self.post('dict', 2)}|items"), ("k, v", f"d0|dictsort({self.pick(['', 'true', 'reverse=true'])})"), ("k, v", "m.items()")])
        elif kind == "pairs":
            target, source = self.pick([("s0, i0", "[('a', 1), ['b', 2]]"), ("s0, (i0, s1)", "[('a', (1, 'x'))]"), ("k, v", "msgs_by" if self.chance(0.02) else "messages|groupby('role')"), ("s1, rest", "messages|groupby('role')")])
        elif kind == "str":
            target, source = self.name("str"), self.of("str", 2)
        else:
            target, source = self.name(ITEM[kind]), self.of(kind, 2)
            if self.chance(0.15):
                source = {"strs": "ss|map('upper')", "ints": self.pick(["range(3)", "ii|select('odd')", "range(5)|reject('odd')"]), "msgs": self.pick(["messages|selectattr('role', 'eq', 'user')", "messages|reverse", "messages[::-1]", "messages[1:]"])}[kind]
        test = ""
        if self.chance(0.35):
            test = " if " + self.pick([self.of("bool", 2), "not ns.done", f"ns.count < {self.pick(['2', '3', '1'])}", "loop is defined" if self.chance(0.1) else "not ns.done", "ns.text|length < 4"])
        self.loops += 1
        inner = self.body(depth + 1)
        if self.chance(0.3):
            inner += self.tag(self.pick(["set ns.done = true", "set ns.count = ns.count + 1", "set ns.text = ns.text ~ 'a'", "set ns.list = ns.list + ['q']", "set ns.done = not ns.done"]))
        if self.chance(0.3):
            inner += f"{{{{ loop.{self.pick(['index', 'index0', 'first', 'last', 'length', 'revindex', 'revindex0', 'previtem', 'nextitem', 'depth', 'cycle(1, 2)'])} }}}}"
        if self.chance(0.12):
            inner += self.tag("if " + self.of("bool", 2)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + self.text()
        self.loops -= 1
        if self.chance(0.15):
            inner += self.tag("else") + self.body(depth + 1)
        recursive = " recursive" if self.chance(0.04) else ""
        return self.tag(f"for {target} in {source}{test}{recursive}") + inner + self.tag("endfor")

    def macro_call(self, d):
        name = self.pick(self.macros)
        return self.pick([
            lambda: f"{name}({self.of('str', d)})",
            lambda: f"{name}({self.of('str', d)}, q={self.of('int', d)})",
            lambda: f"{name}(p={self.of('str', d)})",
            lambda: f"{name}({self.of('str', d)}, 2, *{self.leaf('strs')})" if self.chance(0.3) else f"{name}({self.of('str', d)}, 2)",
            lambda: f"{name}({self.of('str', d)}, **{{'q': 4}})",
            lambda: f"{name}({self.of('str', d)}, 1, 'v1', 'v2', z=1)" if self.chance(0.3) else f"{name}({self.leaf('str')})",
        ])()

    def macro(self, depth):
        self.serial += 1
        name = f"mac{self.serial}"
        signature = self.pick(["p, q=1", "p='dd', q=2", "p, q=p", "p='', q=i0", "p, q=none"])
        outer_loops, self.loops, outer_in, self.in_macro = self.loops, 0, self.in_macro, True
        inner = self.body(depth + 1) + self.pick(["{{ p }}", "{{ p ~ q }}", "{{ p|upper }}{{ varargs }}{{ kwargs }}", "{{ caller() if caller else '' }}", "{{ caller is defined }}", "{{ mac%d.name }}" % self.serial, "{{ varargs|length }}", ""])
        self.loops, self.in_macro = outer_loops, outer_in
        out = self.tag(f"macro {name}({signature})") + inner + self.tag("endmacro")
        self.macros.append(name)
        return out

    def part(self, depth):
        r = self.rng.random()
        if depth > 3 or r < 0.45:
            return self.text() if self.chance(0.3) else self.print()
        d = depth + 1
        if r < 0.55:
            out = self.tag(f"if {self.of('bool', 1)}") + self.body(d)
            while self.chance(0.25):
                out += self.tag(f"elif {self.of('bool', 2)}") + self.body(d)
            if self.chance(0.4):
                out += self.tag("else") + self.body(d)
            return out + self.tag("endif")
        if r < 0.69:
            return self.loop(depth)
        if r < 0.79:
            return self.set()
        if r < 0.82:
            filters = self.pick(["", "", " | upper", " | trim", " | replace('a', 'e') | title", " | indent(2)", "|length|string"])
            return self.tag(f"set {self.pick(['s0', 's1', 'role', 'ns.text'])}{filters}") + self.body(d) + self.tag("endset")
        if r < 0.85:
            here = len(self.macros)
            out = self.macro(depth) + (f"{{{{ {self.macro_call(2)} }}}}" if self.chance(0.7) else "")
            if depth > 0:
                del self.macros[here:]
            return out
        if r < 0.88 and self.macros:
            args = self.pick(["", "", "(x)", "(x='d', y=1)"])
            shown = "{{ x }}" if args else ""
            return self.tag(f"call{args} {self.macro_call(2)}") + shown + self.body(d) + self.tag("endcall")
        if r < 0.91:
            return self.tag(f"filter {self.pick(['upper', 'trim', 'title', 'replace(' + chr(39) + 'a' + chr(39) + ', ' + chr(39) + 'o' + chr(39) + ')', 'indent(2)', 'trim|upper', 'indent(first=true, width=1)', 'wordwrap(10)', 'e'])}") + self.body(d) + self.tag("endfilter")
        if r < 0.93:
            return self.tag(f"with {self.pick(['s0 = ' + self.of('str', 2), 'i0 = ' + self.of('int', 2) + ', s1 = ' + self.of('str', 2), ''])}") + self.body(d) + self.tag("endwith")
        if r < 0.945:
            return self.tag("generation") + self.body(d) + self.tag("endgeneration")
        if r < 0.95:
            self.serial += 1
            loops, self.loops = self.loops, 0
            macros, self.macros = self.macros, []
            out = self.tag(f"block b{self.serial}{self.pick(['', ' scoped'])}") + self.body(d) + self.tag("endblock")
            self.loops, self.macros = loops, macros
            return out
        if r < 0.965:
            return self.tag("do " + self.any(1))
        if r < 0.985:
            return self.pick(["{# c #}", "{#- c -#}", "{#+ c +#}", "{# {{ x #}\n", "  {# c #}\n", "{% raw %} {{ a }}\n{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}\n", "\n  {% raw %}\n{# x #}{%+ endraw +%}\n"])
        if self.loops and self.chance(0.3):
            return self.tag(self.pick(["break", "continue"]))
        return self.text()

    def template(self):
        prelude = "{% set ns = namespace(text='', count=0, done=false, list=['z']) %}"
        if self.chance(0.25):
            return prelude + self.print()
        return prelude + self.body(0)

    # Contexts.

    def string(self):
        return self.pick(["", "a", "Hello wOrld", " pad\n", "é\u3000x", "user", "<|im_end|>", "1", "it's \"q\"", "a,b", "one two  three\nfour", "ǆ ß\u0130", "tab\there", "<think>\nx</think>\n\ny", "👍🏽", "a\u00a0\u001cb", "x" * 30])

    def value(self, depth=0):
        r = self.rng.random()
        if depth > 2 or r < 0.6:
            return self.pick([None, True, False, 0, 1, -2, 3.5, 1e16, 2.0, 10**20, 1e-5, self.string(), self.string()])
        if r < 0.8:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.pick(["a", "b", "items", "K", "é", "x y"]): self.value(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def message(self):
        message = {"role": self.pick(["user", "assistant", "system", "tool"]), "content": self.string()}
        if self.chance(0.2):
            message["x"] = self.value(1)
        if self.chance(0.15):
            message["tool_calls"] = [{"type": "function", "function": {"name": "f", "arguments": {"a": self.value(1)}}}]
        return message

    def grown(self, depth=0):
        return [{"v": self.rng.randint(0, 3), "kids": self.grown(depth + 1) if depth < 2 else []} for _ in range(self.rng.randint(0, 2))]

    def context(self):
        some = lambda make, most=4: [make() for _ in range(self.rng.randint(0, most))]
        context = {}
        for name in NAMES["str"]:
            context[name] = self.string()
        for name in NAMES["int"]:
            context[name] = self.pick([0, 1, 2, -1, 5, 12345678901234567890])
        for name in NAMES["num"]:
            context[name] = self.pick([0.5, 2.0, -1.25, 1e-7, 3, 1e22, 0.1])
        for name in NAMES["bool"]:
            context[name] = self.pick([True, False])
        for name in NAMES["strs"]:
            context[name] = some(self.string)
        for name in NAMES["ints"]:
            context[name] = some(lambda: self.rng.randint(-3, 9))
        for name in NAMES["msg"]:
            context[name] = self.message()
        for name in NAMES["msgs"]:
            context[name] = some(self.message)
        for name in NAMES["dict"]:
            context[name] = {key: self.value(1) for key in self.rng.sample(["a", "b", "k", "items", "Z", "role", "é"], self.rng.randint(0, 4))}
        context["tree"] = self.grown()
        return context
