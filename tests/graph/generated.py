"""Small random pipelines as Python source, for tests that compare a graph with the function it was recorded from."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

HEADER = """
import collections
import base64
import contextlib
import csv
import dataclasses
import datetime
import decimal
import difflib
import fnmatch
import functools
import hashlib
import heapq
import io
import json
import math
import pickle
import random
import re
import string
import textwrap
import threading
import uuid
import xml.etree.ElementTree as ET
import numpy as np
import clew

WORDS = {"a": 1, "b": 2}
GROUPS = {"a": [1], "b": [2, 3]}

@clew.op
def double(x):
    return x + x

@clew.op
def same(x):
    return x

@clew.op
def push(xs, x):
    xs.append(x)
    return len(xs)

@clew.op
def drop_negative(xs):
    if xs and xs[0] < 0:
        del xs[0]
    return len(xs)

@clew.op
def pair(x):
    return x, [x]

@clew.op
def squares(n):
    for i in range(abs(n) % 4):
        yield i * i

def helper(v, k=3):
    if v is None:
        return k
    return v if v > k else k - v

NUMBER = re.compile(r"\\d+")

@clew.op
class Keeper:
    def __init__(self):
        self.kept = 0
    def put(self, x):
        self.kept = x
    def last(self):
        return self.kept

keeper = Keeper()

class Box:
    def __init__(self, v):
        self.v = v
    def more(self, by):
        self.v = self.v + by
        return self.v

@clew.op
def positive(x):
    return x if x > 0 else None

@clew.op
class Bag:
    def __init__(self, start=0):
        self.items = [start]
    def add(self, x):
        self.items.append(x)
        return len(self.items)
    def reset(self):
        self.items = []

bag = Bag()

class Cell:
    def __init__(self, v=None):
        self.v = v
        self.log = []
    @property
    def safe(self):
        return 0 if self.v is None else self.v
    def put(self, v):
        self.v = v
        self.log.append(v)
        return self
    def __add__(self, other):
        return Cell(self.safe + (other.safe if isinstance(other, Cell) else other))
    def __lt__(self, other):
        return self.safe < other.safe
    def __bool__(self):
        return self.v is not None and self.v > 0
    def __len__(self):
        return len(self.log)
    def __iter__(self):
        return iter(self.log)
    def __contains__(self, item):
        return item in self.log
    def __str__(self):
        return "-" if self.v is None else f"<{self.v}>"

class Odd(Exception):
    def __init__(self, at, why):
        super().__init__(f"{at}: {why}")
        self.at = at

class Tool:
    def trim(self, xs):
        if len(xs) > 2:
            del xs[0]
        return len(xs)
    def total(self, xs):
        return sum(xs)

tool = Tool()

@clew.op
def trimmed(xs):
    return tool.trim(xs) + tool.total(xs)

@clew.op
def highest(xs):
    return heapq.heappushpop(xs, 1) if xs else 0

tags = dataclasses.field(default_factory=list)
Point = dataclasses.make_dataclass("Point", [("x", int), ("y", int, 2), ("tags", list, tags)])
Point.__module__ = __name__
"""

#: What a program changes in its modules after it has imported them, and operators that go by it.
STATE_HEADER = """
LIMIT = 2
SETTINGS = {"k": 1, "deep": {"v": [1, 2]}}
LOG = []
SEEN = []
TABLE = {}
ROWS = [[1], [2]]

class Config:
    mode = 0
    names = ["a"]

class Model:
    def __init__(self):
        self.weight = 1
        self.log = []

model = Model()

def _closed():
    held = {"v": 1}
    def bump(v):
        held["v"] = v
    def scaled(x):
        return x * held["v"]
    return bump, scaled

bump, scaled = _closed()

@clew.op
def limited(x, least=LIMIT):
    return max(least, x * SETTINGS["k"] + LIMIT + Config.mode)

@clew.op
def logged(x):
    LOG.append(x)
    return len(SEEN) + len(LOG)

@clew.op
def looked(x):
    return SETTINGS["deep"]["v"][-1] + len(TABLE) + len(Config.names) + len(model.log) + x

@clew.op
def weighted(x):
    model.log.append(x)
    return scaled(x) * model.weight + sum(map(len, ROWS))

@clew.op
def put(x):
    ROWS[0].append(x)
    return len(ROWS[-1])
"""
#: Statements about `app`, the module, that are done after its import.
SETUPS = [
    "app.LIMIT = 5", "app.SETTINGS['k'] = 3", "app.SETTINGS['deep']['v'].append(7)",
    "app.SETTINGS = {'k': 2, 'deep': {'v': [4]}}",
    "app.SEEN = app.LOG", "app.LOG.append(1)", "app.TABLE['log'] = app.LOG", "app.TABLE.update(app.SETTINGS)",
    "app.Config.mode = 2", "app.Config.names = app.LOG", "app.Config.names.append('b')", "app.model.weight = 4",
    "app.model.log = app.LOG", "app.model.log = app.SEEN", "app.bump(3)",
    "app.ROWS.append(app.ROWS[0])", "app.ROWS[0] = app.LOG",
    "app.limited.target.__defaults__ = (6,)", "app.model = app.Model()", "app.SEEN = app.ROWS[0]",
    "app.keeper.kept = 5",
]  # fmt: skip
STATE_EXPRESSIONS = [
    "limited($I)",
    "logged($I)",
    "looked($I)",
    "weighted($I)",
    "put($I)",
    "limited($I, $I)",
    "keeper.last()",
]
PARAMETERS = "n, m, xs, s, d, a"

#: by the type of what comes out; $I an int, $L a list of ints, $S a text, $D a dict, $A an array, $B a condition
EXPRESSIONS: dict[str, list[str]] = {
    "I": [
        "$I + $I", "$I - 2", "$I * 3", "-$I", "abs($I)", "$I % 7", "$I // 3", "($I) ** 2 % 11", "len($L)",
        "len($S)", "sum($L)", "max($L, default=0)", "min($I, $I)", "double($I)", "same($I)", "helper($I)",
        "helper(None, k=$I)", "$I if $B else $I", "($L or [5])[0]", "($L or [1, 2])[-1]", "WORDS.get($S, -1)",
        "$D.get('a', $I)", "int($B)", "$L.count($I)", "sum(v * 2 for v in $L)", "push($L, $I)",
        "drop_negative($L)", "pair($I)[0]", "next(squares($I), 9)", "sum(squares($I))", "int($A.sum())",
        "len($A)", "divmod($I, 5)[1]", "(lambda q: q + $I)(2)", "functools.reduce(lambda p, q: p + q, $L, $I)",
        "min($L, key=lambda v: (v - $I) ** 2, default=3)", "[10, 20, 30][$I % 3]", "Box($I).more($I)",
        "hash($I)", "$I and $I", "$I or $I", "(w := $I) + w", "math.gcd($I, 12)", "ord(($S + 'z')[0])",
        "Cell(positive($I)).safe", "(Cell($I) + Cell($I)).safe", "(Cell().put(positive($I)) + $I).safe",
        "len(Cell().put($I))", "max([Cell($I), Cell($I)]).safe", "(1 if Cell().put(positive($I)) else 2)",
        "Bag($I).add($I)", "Point($I).x", "random.Random($I).randint(0, 99)", "len(pickle.dumps($L))",
        "(datetime.date(2020, 1, 1) + datetime.timedelta(days=$I)).day", "int(decimal.Decimal($I) * 2)",
        "len(textwrap.wrap($S * 9, 8))", "uuid.uuid5(uuid.NAMESPACE_DNS, $S).version",
        "len(ET.fromstring('<r><a/></r>'))", "trimmed($L)", "highest($L)", "heapq.heappushpop($l, $I)",
    ],
    "L": [
        "[$I, $I]", "$L + $L", "$L[1:]", "$L[::-1]", "$L[:$I % 3]", "sorted($L)", "list(range($I % 5))",
        "sorted($L, key=lambda v: -v)", "[v + $I for v in $L]", "[v for v in $L if v > $I]", "[*$L, $I]",
        "[i * v for i, v in enumerate($L)]", "[p + q for p, q in zip($L, $L)]", "list(map(helper, $L))",
        "list(filter(lambda v: v % 2, $L))", "same($L)", "list(reversed($L))", "sorted({ $I, $I, 3 })",
        "sorted({v % 3 for v in $L})", "list($D.values())", "$L * 2", "same([$I, 1])", "list(squares($I))",
        "[ord(c) for c in $S]", "$A.astype(int).tolist()", "list($L)", "pair($I)[1]", "GROUPS[$S[:1] or 'a']",
        "list(Cell().put($I).put($I))", "clew.map(double, $L)",
        "[0 if positive(v) is None else v for v in $L]", "json.loads(json.dumps($L))", "pickle.loads(pickle.dumps($L))",
        "random.Random($I).sample(range(9), 3)",
        "heapq.nlargest(2, $L, key=lambda v: ($l[0] if $l else 0) * v + $I)",
        "sorted($L, key=lambda v: ($l.count(v), v))",
        "heapq.nsmallest(3, $L, key=lambda v: $d.get('a', v))", "[len(word) for word in re.findall('[a-z]+', $S)]",
    ],
    "S": [
        "$S + 'x'", "f'{$i}'", "f'{$s!r:>4}|{$i:03d}'", "str($I)", "$S.upper()", "$S[1:]",
        "'-'.join([$S, 'q'])", "'%s/%d' % ($S, $I)", "'{}:{}'.format($I, $S)", "$S * 2", "same($S)",
        "','.join(str(v) for v in $L)", "repr($L)", "$S.replace('a', $S)", "'yes' if $B else $S", "$S or 'e'",
        "type($I).__name__", "$S and $S[0]", "''.join(sorted($S))",
        "json.dumps($D)", "base64.b64encode($S.encode()).decode()", "string.capwords($S)",
        "str(datetime.timedelta(days=$I))",
        "next(iter(difflib.get_close_matches($S, ['ab', '12'])), '-')", "str(fnmatch.fnmatch($S, 'a*'))",
        "ET.tostring(ET.Element('r', {'k': $S})).decode()", "next(csv.reader([$S + ',q']))[0]",
        "str(Cell().put(positive($I)))", "repr(Point($I))", "hashlib.md5($S.encode()).hexdigest()[:3]",
        "re.sub('[a-z]', lambda match: str($d.get(match[0], len($l))), $S)",
    ],
    "D": [
        "{'a': $I, 'b': $I}", "{**$D, 'c': $I}", "dict($D, z=$I)", "{k: v + 1 for k, v in $D.items()}",
        "{ $S: $I }", "same($D)", "dict(zip('xy', $L))", "{str(v): v for v in $L}", "dict($D)",
    ],
    "A": [
        "$A + $I", "$A * $A", "np.where($A > $I, $A, 0)", "-$A", "$A[::-1]", "np.clip($A, 0, 5)", "np.abs($A)",
        "double($A)", "$A.copy()", "np.cumsum($A)", "np.zeros(3) + $I", "np.maximum($A, $I)", "$A / 2", "same($A)",
        "np.array([$I, $I, 1.0])", "np.stack([$A, $A])[0]", "np.sort($A)",
    ],
    "B": [
        "$I > $I", "$I == 3", "$I in $L", "$I not in [1, 2]", "not $L", "$S == 'a'", "'a' in $S", "bool($I)",
        "$S in WORDS", "'a' in $D", "1 < $I < 6", "$I is None", "$I is not None is not False", "isinstance($I, int)",
        "any(v > 2 for v in $L)", "all($L)", "$B and $B", "$B or $B", "not $B", "$L == $L",
        "bool(($A > 0).all())", "type($I) is int", "$S.startswith('a')", "$S.isdigit()",
        "positive($I) is None", "$I in Cell().put($I)", "Point($I) == Point($I)", "Cell($I) < Cell($I)",
    ],
}  # fmt: skip
#: loops whose graph holds for all lengths
LOOPS = [
    "for v in $L:\n    $i += v * $I", "out = []\nfor v in $L:\n    out.append(double(v))\n$l = out",
    "for j, v in enumerate($L):\n    if v > $I:\n        break\n    $i += j\nelse:\n    $i = -1",
    "for v in $L:\n    if v == 7:\n        return n, m, xs, s, d, a",
    "$l = [v + w for v in $L for w in $L]", "$l = [v for v in $L if helper(v) > $I]",
    "j = 0\nwhile j < len($l):\n    $i += $l[j]\n    j += 1", "$i = sum(helper(v, k=$I) for v in $L)",
    "$d = {str(v): v * $I for v in $L}", "$l = sorted({v % 4 for v in $L})", "$l = list(map(helper, $L))",
    "$l = [p - q for p, q in zip($L, $L)]", "$i = next((v for v in $L if v > $I), 0)",
    "def pairs(q):\n    for j in range(len(q) - 1):\n        yield q[j:j + 2]\n$l = [sum(w) for w in pairs($L)]",
    "groups = {}\nfor v in $L:\n    groups.setdefault(v % 2, []).append(v)\n$i = len(groups)",
    "for v in $L:\n    for w in $L:\n        if w == v + 1:\n            $i += 1\n            break\n",
    "$s = '-'.join(f'{v:02d}' for v in reversed($L))", "$i = sum(1 for v in $L if v > $i)",
    "for j in range(6):\n    $i = ($i * 3 + len($l)) % 11\n    if $i == 4:\n        break\n    $l = [*$l, $i]",
    "def scaled(q):\n    return q * $i\nout = [scaled(v) for v in $L]\n$l = out",
    "for v in $L:\n    try:\n        $i += 12 // v\n    except ZeroDivisionError:\n        continue",
    "best = None\nfor v in $L:\n    if best is None or v > best:\n        best = v\n$s = str(best)",
    "tally = collections.Counter()\nfor v in $L:\n    tally[v % 3] += 1\n$i = tally[0]",
    "$l = [(lambda q: q + v)($I) for v in $L]", "$i = any(v > $I for v in $L) + all(v < $I for v in $L)",
    "k = 0\nwhile True:\n    k += 1\n    if k * k > abs($i) or k > 9:\n        break\n$i = k",
    "$d = dict(zip(map(str, $L), $L))", "for k, v in $D.items():\n    $i += v\n    $s = $s + k",
    "out = [0] * 4\nfor v in $L:\n    out[v % 4] += 1\n$l = out",
    "$l = [x for row in [[v, v + 1] for v in $L] for x in row]", "$i = max((v for v in $L), default=$I)",
]  # fmt: skip
STATEMENTS = [
    "$l.append($I)", "$l.extend($L)", "$l += $L", "$i += $I", "$i %= 5", "$l.sort()", "$l.reverse()",
    "$d['k'] = $I", "$d['a'] = $D.get('a', 0) + 1", "$d.setdefault('q', $I)", "$s += $S", "$s = '<%s>' % $S",
    "$l[:1] = [$I]", "$l.insert(0, $I)", "$a[0] = $I", "$a += 1", "$a[$a < 0] = 0", "$a.sort()",
    "np.add($a, $A, out=$a)", "push($l, $I)", "drop_negative($l)", "$l.pop() if $l else None",
    "if $B:\n    $i = $I\nelse:\n    $l = $L", "for v in $L:\n    $i = $i + v",
    "for v in list($L):\n    if v > $I:\n        break\n    $l.append(v)", "assert $B or True, $S",
    "while $i > 3:\n    $i = $i // 2", "try:\n    $i = int($S)\nexcept ValueError:\n    $i = $I",
    "try:\n    $i = $D['a']\nexcept KeyError as e:\n    $s = str(e)", "$i, *$l = [$I, *$L]",
    "groups = {'a': [], 'b': []}\ngroups.setdefault($S, []).append($I)\n$i = len(groups)",
    "box = Box($I)\nbox.v = $I\n$i = box.more(1)", "for k, v in $D.items():\n    $s = $s + k\n    $i += v",
    "def inner(q, k=$I):\n    return q + k + $i\n$l = [inner(v) for v in $L]",
    "$l = [[v, $I] for v in $l][0] if $l else []",
    "rows = [[$I], [$I]]\nfor j, row in enumerate(rows):\n    row.append(j)\n$l = rows[$I % 2]",
    "match $I % 3:\n    case 0:\n        $s = 'zero'\n    case 1 | 2 as r:\n        $i = r",
    "match $L:\n    case [p, q]:\n        $i = p\n    case [p, *rest]:\n        $l = rest\n    case _:\n        $i = 0",
    "count = collections.Counter($S)\n$i = count.get('a', 0)", "t = ($I, [$I])\nt[1].append($I)\n$l = t[1]",
    "$l = $L\nfor j in range(len($l)):\n    $l[j] = $l[j] * 2", "$d = $D\n$d.pop('a', None)",
    "groups = collections.defaultdict(list)\nfor v in $L:\n    groups[v % 2].append($I)\n$l = groups[$I % 2]",
    "tally = collections.Counter($L)\ntally[$I] += 1\n$i = tally[$I]",
    "queue = collections.deque($L, maxlen=3)\nqueue.append($I)\n$l = list(queue)",
    "class Near:\n    def __init__(self, q):\n        self.q = q + $i\n$i = Near($I).q",
    "class Far:\n    v = $I\n    def sum(self, q):\n        return self.v + q + $i\n$i = Far().sum($I)",
    "with contextlib.suppress(KeyError, IndexError):\n    $i = $D['b'] + $L[0]",
    "try:\n    $i = 12 // $I\nexcept ZeroDivisionError:\n    $i = -1\nelse:\n    $s = $s + 'q'\nfinally:\n    $i += 1",
    "rest = dict($D)\nrest.update(k=$I)\n$d = {k: v for k, v in rest.items() if v > 0}",
    "keeper.put($I)\n$i = keeper.last()", "$s = ' '.join(NUMBER.findall($S + str($I)))",
    "cells = [0, 0, 0]\ncells[$I % 3] = $I\ncells[$I % 3] += 1\n$l = cells",
    "def walk(q):\n    return [] if q <= 0 else [q, *walk(q - 2)]\n$l = walk($I)",
    "pairs = sorted(((v, str(v)) for v in $L), reverse=True)\n$s = ''.join(t for _, t in pairs)",
    "bag.reset()\nbag.add($I)\n$i = bag.items[0]\n$l = bag.items", "b = Bag($I)\nb.add($I)\n$l = list(b.items)",
    "c = Cell()\nc.put(positive($I))\n$i = c.safe\n$s = str(c)", "c = Cell($I)\nc.v = positive($I)\n$i = c.safe",
    "p = Point($I)\np.x += $I\np.tags.append($I)\n$l = p.tags\n$i = p.x",
    "o = [Cell($I), Cell($I)]\no.sort()\n$i = o[0].v",
    "digest = hashlib.md5()\ndigest.update($S.encode())\n$s = digest.hexdigest()[:3]",
    "page = io.StringIO()\npage.write($S)\n$s = page.getvalue()",
    "@contextlib.contextmanager\ndef near():\n    yield $i + 1\nwith near() as w:\n    $i = w",
    "found = []\nt = threading.Thread(target=lambda: found.append(not positive($I)))\nt.start()\nt.join()\n$l = found",
    *LOOPS,
    "bag.reset()\nfor v in $L:\n    bag.add(v)\n$l = list(bag.items)",
    "c = Cell(0)\nfor v in $L:\n    c.put(v + $I)\n$i = c.v",
    "near = $l\nfor v in list($L):\n    near.append(v)",
    "pair_ = {'a': $l}\nfor v in list($L):\n    pair_['a'].append(v)",
    "def bump(q):\n    nonlocal $i\n    $i += q\n    return $i\n$l = [bump(v) for v in $L]",
    "def near(q):\n    return q + $i\nfor v in $L:\n    $i = near(v)",
    "it = iter($L)\nfor v in it:\n    $i += v + next(it, 0)",
    "try:\n    for v in list($L):\n        $l.append(6 // v)\nexcept ZeroDivisionError:\n    $i = len($l)",
    "for v in $L:\n    last = v\nif $L:\n    $i = last",
    "keeper.put(1)\nfor v in $L:\n    keeper.put(v)\n$i = keeper.last()",
    "gone = (v + $i for v in $L)\n$i = $i + 1\n$l = [q for q in gone]",
    "box = Box($I)\nwhile box.more(1) < 6:\n    $l.append(box.v)", "while $l and $l.pop() > $I:\n    $i += 1",
    "rows = [$l, $l]\nfor v in list($L):\n    rows[0].append(v)\n$i = len(rows[1])",
    "page = io.StringIO()\nprint($S, $I, file=page)\n$s = page.getvalue()",
    "page = io.StringIO()\ncsv.writer(page).writerow([$S, $I])\njson.dump($D, page)\n$s = page.getvalue()",
    "tree = ET.Element('r')\nET.SubElement(tree, 'c').text = $S\ntree.set('k', str($I))\n$s = str(ET.tostring(tree))",
    "chance = random.Random(3)\nchance.seed($I)\n$i = chance.randint(0, 99)",
    "random.seed($I)\n$i = random.randint(0, 99)",
    "np.random.seed(abs($I))\n$a = np.random.rand(3)",
    "dice = np.random.default_rng(abs($I))\n$a = dice.normal(size=3)",
    "try:\n    $i = json.loads($S)\nexcept ValueError:\n    $i = -1",
    "trimmed($l)", "highest($l)\n$i = $i + len($l)", "$l.sort(key=lambda v: $d.get('a', 3) * v)",
    "try:\n    if $I > 3:\n        raise Odd($I, $S)\nexcept Odd as e:\n    $s = f'{e}!'\n    $i = e.at",
    "$l = [*map(lambda p, q=$I: p * q, $L)]", "key = ($I, $S)\nseen = {key: $I}\n$i = seen.get(($I, $S), 0)",
]  # fmt: skip
NAMES = {"I": ["n", "m"], "L": ["xs"], "S": ["s"], "D": ["d"], "A": ["a"]}
LITERALS = {
    "I": ["0", "1", "2", "7"],
    "L": ["[1, 2]", "[]"],
    "S": ["'a'", "'12'"],
    "D": ["{'a': 1}"],
    "A": ["np.ones(3)"],
}


def _filled(draw: Any, pattern: str, depth: int) -> str:
    """The pattern with expressions for its holes; small letters are names that are assigned to."""

    names = {kind.lower(): draw(st.sampled_from(known)) for kind, known in NAMES.items()}

    def fill(hole: re.Match[str]) -> str:
        return _expression(draw, hole[1], depth) if hole[1].isupper() else str(names[hole[1]])

    return re.sub(r"\$([A-Za-z])", fill, pattern)


def _expression(draw: Any, kind: str, depth: int) -> str:
    leaves = NAMES.get(kind, []) * 3 + LITERALS.get(kind, [])
    if depth <= 0 and leaves:
        return str(draw(st.sampled_from(leaves)))
    pattern = draw(st.sampled_from(leaves + EXPRESSIONS[kind]))
    return pattern if pattern in leaves else f"({_filled(draw, pattern, depth - 1)})"


@st.composite
def pipelines(draw: Any, state: bool = False) -> str:
    """The source of a module with a function `pipeline(n, m, xs, s, d, a)`.

    state   it goes by what the module holds, which `setups` changes
    """
    lines = []
    for pattern in draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4 if state else 6)):
        lines += _filled(draw, pattern, 1).split("\n")
    for name, kind in zip(("n", "xs", "s", "d", "a"), "ILSDA", strict=True):
        if draw(st.booleans()):
            lines.append(f"{name} = {_expression(draw, kind, 2)}")
    if state:
        used = draw(st.lists(st.sampled_from(STATE_EXPRESSIONS), min_size=1, max_size=4))
        lines += [f"m = m + {_filled(draw, pattern, 0)}" for pattern in used]
    lines.append("return n, m, xs, s, d, a")
    header = HEADER + (STATE_HEADER if state else "")
    return header + f"\ndef pipeline({PARAMETERS}):\n" + "".join(f"    {line}\n" for line in lines)


def setups() -> Any:
    """What a program does to the module before it records the pipeline."""
    return st.lists(st.sampled_from(SETUPS), max_size=5)


#: expressions that decide nothing, so that the graph of a loop holds for all inputs
_UNDECIDED = {
    "I": ["$I + $I", "$I * 3", "abs($I)", "len($L)", "sum($L)", "double($I)", "$I % 7"],
    "L": ["$L + $L", "$L[1:]", "sorted($L)", "same($L)", "list(range(len($L)))"],
    "S": ["$S + 'x'", "str($I)"],
    "D": ["same($D)", "{'a': $I}"],
}


@st.composite
def loops(draw: Any) -> str:
    """The source of a module whose `pipeline` consists of loops that hold for all lengths."""

    def expression(kind: str, depth: int) -> str:
        names = NAMES[kind] if kind == "L" else NAMES[kind] + LITERALS[kind]
        pattern = draw(st.sampled_from(names if depth == 0 else names + _UNDECIDED[kind]))
        return pattern if pattern in names else f"({filled(pattern, depth - 1)})"

    def filled(pattern: str, depth: int) -> str:
        names = {kind.lower(): draw(st.sampled_from(known)) for kind, known in NAMES.items()}
        return re.sub(
            r"\$([A-Za-z])", lambda hole: expression(hole[1], depth) if hole[1].isupper() else names[hole[1]], pattern
        )

    lines = ["xs = list(xs)"]
    for pattern in draw(st.lists(st.sampled_from(LOOPS), min_size=1, max_size=4)):
        lines += filled(pattern, 1).split("\n")
    lines.append("return n, m, xs, s, d, a")
    return HEADER + f"\ndef pipeline({PARAMETERS}):\n" + "".join(f"    {line}\n" for line in lines)


@st.composite
def arguments(draw: Any, longest: int = 6) -> dict[str, Any]:
    import numpy as np

    number = st.integers(-3, 9)
    return {
        "n": draw(number),
        "m": draw(number),
        "xs": draw(st.lists(number, max_size=longest)),
        "s": draw(st.sampled_from(["a", "b", "12", "", "ab"])),
        "d": draw(st.dictionaries(st.sampled_from(["a", "b"]), number, max_size=2)),
        "a": np.array(draw(st.lists(st.sampled_from([-2.0, 0.5, 3.0]), min_size=3, max_size=3))),
    }
