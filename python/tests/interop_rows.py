"""Rows of the golden vectors, and how a row is judged."""

import collections
import json

import rolecall


def rows(shared, system, *ops):
    """Return the rows of a system with one of these operations, or all."""
    with (shared / "golden" / f"{system}.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    known = {row["options"]["op"] for row in read}
    assert set(ops) <= known, f"no rows of {set(ops) - known}"
    return [row for row in read if not ops or row["options"]["op"] in ops]


def all_ops(shared, system):
    """Return the operations of a system."""
    return {row["options"]["op"] for row in rows(shared, system)}


class Excused(Exception):
    """The row is judged by a rule of COMPATIBILITY.md."""


def judge(rows, check, record):
    """Check each row, and fail with the first failures. Return the number of rows by verdict.

    ``check(row, expected)`` raises AssertionError for a wrong result, :class:`Excused` with the rule
    that the row falls under, and a rolecall error for a refusal. If the reference refuses, so must it.
    """
    verdicts, failures = collections.Counter(), []
    for row in rows:
        expected = row["expected"]
        try:
            check(row, expected)
        except Excused as excused:
            verdicts[str(excused)] += 1
            continue
        except rolecall.RolecallError as error:
            assert error.code and str(error)
            if "error" not in expected:
                failures.append(f"{row['id']}: refused: {error}")
                continue
        except AssertionError as error:
            failures.append(f"{row['id']}: {str(error)[:600]}")
            continue
        else:
            if "error" in expected:
                failures.append(f"{row['id']}: expected a refusal ({expected['message']})")
                continue
        verdicts["passed"] += 1
    record("rows", f"{sum(verdicts.values())} of {len(rows)}: {dict(verdicts)}")
    assert not failures, f"{len(failures)} of {len(rows)} rows failed:\n" + "\n".join(failures[:5])
    assert verdicts["passed"] > 0
    return verdicts


def same(found, wanted):
    """Compare, and show both if they differ."""
    assert found == wanted, f"expected {wanted!r}\nfound {found!r}"


class Letters:
    """A tokenizer with an id for each code point, and the ids 1 and 2 for BOS and EOS."""

    bos_token_id, eos_token_id = 1, 2
    bos_token, eos_token = "<s>", "</s>"
    first = 1 << 21

    def __init__(self):
        self.texts = []
        self.tokens = {}

    def encode(self, text, add_special_tokens=True):
        assert add_special_tokens is False
        self.texts.append(text)
        return [self.first + ord(letter) for letter in text]

    def convert_tokens_to_ids(self, token):
        return self.tokens.setdefault(token, 100 + len(self.tokens))

    def pieces(self, ids, names):
        """Return texts and names of tokens, each with whether its ids are in ``names``."""
        found = []
        for id in ids:
            if id >= self.first:
                letter = chr(id - self.first)
                if found and found[-1][0] == "text":
                    found[-1] = ("text", found[-1][1] + letter)
                else:
                    found.append(("text", letter))
            else:
                found.append(names(id))
        return found
