"""The syntax that clew knows: all of Python 3.11 to 3.15. What a later Python adds is not guessed at."""

from __future__ import annotations

import _ast
import ast
from typing import Final

#: The classes of syntax trees, each with its fields.
_CLASSES: Final = """
mod | stmt | expr | expr_context | boolop | operator | unaryop | cmpop | excepthandler | pattern | type_ignore
type_param | AST | Module body type_ignores | Interactive body | Expression body | FunctionType argtypes returns
FunctionDef name args body decorator_list returns type_comment type_params
AsyncFunctionDef name args body decorator_list returns type_comment type_params
ClassDef name bases keywords body decorator_list type_params | Return value | Delete targets
Assign targets value type_comment | TypeAlias name type_params value | AugAssign target op value
AnnAssign target annotation value simple | For target iter body orelse type_comment
AsyncFor target iter body orelse type_comment | While test body orelse | If test body orelse
With items body type_comment | AsyncWith items body type_comment | Match subject cases | Raise exc cause
Try body handlers orelse finalbody | TryStar body handlers orelse finalbody | Assert test msg
Import names is_lazy | ImportFrom module names level is_lazy | Global names | Nonlocal names | Expr value
Pass | Break | Continue | BoolOp op values | NamedExpr target value | BinOp left op right | UnaryOp op operand
Lambda args body | IfExp test body orelse | Dict keys values | Set elts | ListComp elt generators
SetComp elt generators | DictComp key value generators | GeneratorExp elt generators | Await value | Yield value
YieldFrom value | Compare left ops comparators | Call func args keywords
FormattedValue value conversion format_spec | Interpolation value str conversion format_spec | JoinedStr values
TemplateStr values | Constant value kind | Attribute value attr ctx | Subscript value slice ctx
Starred value ctx | Name id ctx | List elts ctx | Tuple elts ctx | Slice lower upper step | Load | Store | Del
And | Or | Add | Sub | Mult | MatMult | Div | Mod | Pow | LShift | RShift | BitOr | BitXor | BitAnd | FloorDiv
Invert | Not | UAdd | USub | Eq | NotEq | Lt | LtE | Gt | GtE | Is | IsNot | In | NotIn
comprehension target iter ifs is_async | ExceptHandler type name body
arguments posonlyargs args vararg kwonlyargs kw_defaults kwarg defaults | arg arg annotation type_comment
keyword arg value | alias name asname | withitem context_expr optional_vars | match_case pattern guard body
MatchValue value | MatchSingleton value | MatchSequence patterns | MatchMapping keys patterns rest
MatchClass cls patterns kwd_attrs kwd_patterns | MatchStar name | MatchAs pattern name | MatchOr patterns
TypeIgnore lineno tag | TypeVar name bound default_value | ParamSpec name default_value
TypeVarTuple name default_value
"""
_KNOWN: Final = {words[0]: set(words[1:]) for words in map(str.split, _CLASSES.strip().replace("\n", "|").split("|"))}


def _additions() -> dict[str, frozenset[str]]:
    """What this Python's trees have beyond that: class → new fields; no fields if the class itself is new."""
    found: dict[str, frozenset[str]] = {}
    for kind in vars(_ast).values():
        if isinstance(kind, type) and issubclass(kind, ast.AST):
            known = _KNOWN.get(kind.__name__)
            if known is None or not known.issuperset(kind._fields):
                found[kind.__name__] = frozenset() if known is None else frozenset(kind._fields) - known
    return found


_ADDED: Final = _additions()


def unknown_in(tree: ast.AST) -> str:
    """The first piece of syntax in a tree that is not known; "" if there is none."""
    if not _ADDED:
        return ""
    for node in ast.walk(tree):
        name = type(node).__name__
        added = _ADDED.get(name)
        if added is not None and (not added or any(getattr(node, field, None) for field in added)):
            return name
    return ""
