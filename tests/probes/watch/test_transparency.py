"""House rule 1, point by point: the program does not notice that it is watched."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import pickle
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import clew

from .checking import load


@pytest.fixture
def both(tmp_path: Path) -> Callable[[str], tuple[ModuleType, ModuleType]]:
    """A module twice from the same file: as it is, and with every function and class at its top level watched."""

    def make(source: str) -> tuple[ModuleType, ModuleType]:
        plain = load(tmp_path, source)
        path = Path(plain.__file__ or "")
        watched = types.ModuleType(plain.__name__)
        watched.__file__ = plain.__file__
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), vars(watched))
        for value in list(vars(watched).values()):
            if isinstance(value, types.FunctionType | type) and value.__module__ == watched.__name__:
                clew.watch("*")(value)
        return plain, watched

    return make


def same(modules: tuple[ModuleType, ModuleType], *args: Any) -> Any:
    """What `f` gives, plain and watched alike."""
    plain, watched = modules
    assert ".clew_call" in str(watched.f.__code__.co_varnames), "not watched"
    expected = plain.f(*args)
    assert watched.f(*args) == expected
    return expected


def shown(function: Callable[..., Any], *args: Any) -> str:
    """The traceback a call ends in, as people see it, from the called function on."""
    try:
        function(*args)
    except BaseException as error:
        here = error.__traceback__
        return "".join(traceback.format_exception(type(error), error, here and here.tb_next))
    raise AssertionError("it did not fail")


# ---- exceptions ------------------------------------------------------------------------------------------------------


def test_tracebacks_have_the_same_text(both: Any) -> None:
    plain, watched = both(
        """
        def inner(x):
            try:
                return [1][x]
            except IndexError as error:
                raise ValueError(
                    "bad",
                    x,
                ) from error
            finally:
                done = True

        def f(x):
            with open("/dev/null") as file:
                for i in range(3):
                    y = (inner(x)
                         + 1)
            return y
        """
    )
    assert shown(plain.f, 5) == shown(watched.f, 5)
    assert shown(plain.f, "key") == shown(watched.f, "key")


@pytest.mark.parametrize(
    "body",
    ["x = 1\n    1 / 0", "with M():\n        1 / 0", "try:\n        1 / 0\n    except KeyError:\n        pass",
     "try:\n        1 / 0\n    except ZeroDivisionError as e:\n        x = e\n        raise",
     "try:\n        1 / 0\n    finally:\n        x = 1"],
)  # fmt: skip
def test_a_frame_that_was_left_stays_at_the_failing_line(both: Any, body: str) -> None:
    source = f"""
class M:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return None

def f():
    {body}
"""
    plain, watched = both(source)

    def lines(function: Any) -> list[tuple[int | None, int | None]]:
        try:
            function()
        except ZeroDivisionError as error:
            here = error.__traceback__.tb_next  # type: ignore[union-attr]
            return [(here.tb_lineno, here.tb_frame.f_lineno)]  # type: ignore[union-attr]
        raise AssertionError

    assert lines(plain.f) == lines(watched.f)


def test_exc_info_inside_and_after_handlers(both: Any) -> None:
    modules = both(
        """
        import sys
        def f():
            seen = [sys.exc_info()[0]]
            try:
                raise KeyError(1)
            except KeyError:
                seen.append(sys.exc_info()[0])
                try:
                    raise ValueError
                except ValueError as inner:
                    seen.append((sys.exc_info()[0], type(inner.__context__)))
                seen.append(sys.exc_info()[0])
            finally:
                seen.append(sys.exc_info()[0])
            seen.append(sys.exc_info()[0])
            return seen
        """
    )
    assert same(modules)[1] is KeyError


def test_the_name_of_a_handler_is_gone_after_it(both: Any) -> None:
    assert "UnboundLocalError" in same(
        both(
            """
            def f():
                try:
                    1 / 0
                except ZeroDivisionError as e:
                    pass
                try:
                    return e
                except Exception as f:
                    return repr(f)
            """
        )
    )


@pytest.mark.filterwarnings("ignore:.* in a 'finally' block:SyntaxWarning")  # since Python 3.14
def test_return_and_break_in_finally_win(both: Any) -> None:
    modules = both(
        """
        def f(how):
            while True:
                try:
                    if how == 1:
                        return "try"
                    1 / 0
                finally:
                    if how == 2:
                        return "finally"
                    if how == 3:
                        break
            return "after"
        """
    )
    for how in (1, 2, 3):
        same(modules, how)


def test_recursion_ends_at_about_the_same_depth_with_the_same_error(both: Any, no_garbage: None) -> None:
    source = """
        depth = 0
        def f(n):
            global depth
            depth = n
            x = [n]
            return f(n + 1)
        """
    plain, watched = both(source)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    try:
        expected, found = shown(plain.f, 0), shown(watched.f, 0)
    finally:
        sys.setrecursionlimit(before)
    assert found.splitlines()[-1].startswith("RecursionError: maximum recursion depth exceeded")
    assert expected.splitlines()[:6] == found.splitlines()[:6]
    assert "/clew/" not in found
    assert "During handling" not in found
    assert plain.depth - 60 <= watched.depth <= plain.depth


def test_a_program_that_catches_recursion_goes_on_and_is_recorded(both: Any, no_garbage: None) -> None:
    _, watched = both(
        """
        def down(n):
            return down(n + 1)

        def f():
            try:
                down(0)
            except RecursionError as error:
                caught = type(error).__name__
            after = 1
            return caught
        """
    )
    with clew.run() as run:
        assert watched.f() == "RecursionError"
        watched.f()
    first, second = clew.open(run.path).calls("f")
    assert first.parent is None
    assert second.parent is None
    assert [c.value for c in second.changes if c.name == "after"] == [1]


# ---- generators and coroutines ---------------------------------------------------------------------------------------


def test_generators_send_throw_close_and_return(both: Any) -> None:
    source = """
        def g(log):
            got = None
            try:
                while True:
                    try:
                        got = yield got
                        if got == "stop":
                            return "result"
                    except KeyError as error:
                        log.append(repr(error))
                        got = "caught"
            finally:
                log.append("finally")

        def f():
            log = []
            a = g(log)
            log.append([next(a), a.send(1), a.throw(KeyError(2)), a.send(3)])
            try:
                a.send("stop")
            except StopIteration as stop:
                log.append(stop.value)
            b = g(log)
            next(b)
            b.close()
            c = g(log)
            next(c)
            del c
            return log
        """
    assert same(both(source)).count("finally") == 3


def test_yield_from_delegates_as_before(both: Any) -> None:
    same(
        both(
            """
            def inner():
                try:
                    x = yield 1
                    y = yield x
                except ValueError:
                    yield "thrown"
                return "inner"

            def outer():
                result = yield from inner()
                yield result

            def f():
                a, b = outer(), outer()
                first = [next(a), a.send("s"), a.send("t")]
                return first, [next(b), b.throw(ValueError), next(b)]
            """
        )
    )


def test_a_generator_that_holds_itself_is_collected(both: Any) -> None:
    _, watched = both(
        """
        class Holder:
            def run(self, log):
                mine = self
                try:
                    yield 1
                    yield 2
                finally:
                    log.append("closed")

        def f(log):
            holder = Holder()
            holder.generator = holder.run(log)
            next(holder.generator)
        """
    )
    log: list[str] = []
    watched.f(log)
    gc.collect()
    assert log == ["closed"]


def test_coroutines_async_generators_and_their_protocols(both: Any) -> None:
    same(
        both(
            """
            import asyncio

            class Manager:
                async def __aenter__(self):
                    return "in"
                async def __aexit__(self, *error):
                    return error[0] is KeyError

            async def numbers(n):
                try:
                    for i in range(n):
                        await asyncio.sleep(0)
                        got = yield i
                finally:
                    await asyncio.sleep(0)

            async def main():
                total = [x async for x in numbers(3)]
                async with Manager() as m:
                    total.append(m)
                    raise KeyError
                async for y in numbers(2):
                    total.append(y)
                    break
                return total

            def f():
                return asyncio.run(main())
            """
        )
    )


def test_kinds_of_functions_stay_what_they_are(both: Any) -> None:
    _, watched = both(
        """
        import types
        def g(): yield 1
        async def c(): pass
        async def a(): yield 1
        @types.coroutine
        def old(): yield 1
        def f(): return 1
        """
    )
    assert inspect.isgeneratorfunction(watched.g)
    assert inspect.iscoroutinefunction(watched.c)
    assert inspect.isasyncgenfunction(watched.a)
    assert watched.old.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE
    assert ".clew_call" in watched.old.__code__.co_varnames


def test_tasks_that_take_turns_do_not_mix(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        import asyncio

        def note(n):
            doubled = n * 2
            return doubled

        async def worker(n):
            total = 0
            for i in range(5):
                await asyncio.sleep(0)
                total += note(n)
            return total

        async def main():
            return await asyncio.gather(*(worker(n) for n in range(4)))
        """,
    )
    for function in (module.note, module.worker, module.main):
        clew.watch("*")(function)
    with clew.run() as run:
        assert asyncio.run(module.main()) == [0, 10, 20, 30]
    done = clew.open(run.path)
    for call in done.calls("worker"):
        n = call.args["n"]
        assert [c.value for c in call.changes if c.name == "total"] == list(dict.fromkeys(2 * n * i for i in range(6)))
        assert call.parent.function.endswith("main")
        assert {child.args["n"] for child in call.children} == {n}
        assert len(call.children) == 5


def test_threads_have_each_their_own_calls(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        def inner(n):
            y = n
            return y

        def f(n, wait):
            wait.wait()
            for i in range(50):
                x = inner(n * 1000 + i)
            return x
        """,
    )
    clew.watch("*")(module.inner)
    clew.watch("*")(module.f)
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=module.f, args=(n, barrier)) for n in range(4)]
    with clew.run() as run:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for call in clew.open(run.path).calls("f"):
        n = call.args["n"]
        assert [c.value for c in call.changes if c.name == "x"] == [n * 1000 + i for i in range(50)]
        assert len(call.children) == 50
        assert {child.thread for child in call.children} == {call.thread}


def test_a_finaliser_run_by_the_collector_inside_a_watched_call_does_no_harm(both: Any) -> None:
    """On 3.11 this crashed the interpreter while calls were kept in a context variable."""
    _, watched = both(
        """
        class Node:
            def __init__(self):
                self.me = self
            def __del__(self):
                gone = 1

        def f(n):
            for i in range(n):
                node = Node()
        """
    )
    before = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    try:
        watched.f(300)
        gc.collect()
    finally:
        gc.set_threshold(*before)


def test_contexts_hold_nothing_of_clews_after_plain_calls(both: Any) -> None:
    _, watched = both("def f(x):\n    y = x\n    return y\n")
    context = contextvars.Context()
    assert context.run(watched.f, 1) == 1
    assert len(context) == 0


# ---- functions and classes as objects --------------------------------------------------------------------------------


def test_signature_source_defaults_and_annotations_are_untouched(both: Any) -> None:
    plain, watched = both(
        """
        def f(a: int, /, b: "str" = "d", *args: float, c=[1], **more) -> None:
            '''What it says.'''
            x = a
        f.attribute = 1
        """
    )
    assert inspect.signature(plain.f) == inspect.signature(watched.f)
    assert inspect.getsource(plain.f) == inspect.getsource(watched.f)
    for name in (
        "__name__",
        "__qualname__",
        "__doc__",
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
        "__dict__",
    ):
        of_watched = getattr(watched.f, name)
        if name == "__dict__":  # where torch.compile is loaded, it is told to leave the function alone
            of_watched = {key: value for key, value in of_watched.items() if key != "_torchdynamo_disable"}
        assert getattr(plain.f, name) == of_watched, name
    assert plain.f.__code__.co_name == watched.f.__code__.co_name
    assert plain.f.__code__.co_qualname == watched.f.__code__.co_qualname
    assert plain.f.__code__.co_firstlineno == watched.f.__code__.co_firstlineno


def test_a_watched_function_is_the_same_object_and_pickles_by_name(tmp_path: Path) -> None:
    module = load(tmp_path, "def f(x):\n    y = x\n    return y\n")
    function = module.f
    assert clew.watch("*")(function) is function
    assert pickle.loads(pickle.dumps(function)) is function


def test_closures_and_cells_are_shared(both: Any) -> None:
    same(
        both(
            """
            def counter():
                count = 0
                def up(by=1):
                    nonlocal count
                    count += by
                    return count
                def get():
                    return count
                return up, get

            def f():
                up, get = counter()
                up()
                up(by=5)
                return get(), [cell.cell_contents for cell in up.__closure__]
            """
        )
    )


def test_super_class_cells_and_private_names(both: Any) -> None:
    same(
        both(
            """
            class Base:
                def __init__(self, x):
                    self.__x = x
                def get(self):
                    return ["base", self.__x]

            class Child(Base):
                def __init__(self, x):
                    super().__init__(x)
                    self.__x = -x
                    __local = x
                    self.copy = __local
                def get(self):
                    found = super().get()
                    return [*found, self.__x, __class__.__name__, self.copy]
                @classmethod
                def make(cls, x):
                    new = cls(x)
                    return new

            def f():
                child = Child.make(3)
                return child.get(), sorted(vars(child))
            """
        )
    )


def test_a_private_local_of_a_method_is_recorded_by_the_name_it_is_written_with(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        class C:
            def f(self):
                __hidden = 1
                __hidden = 2
        """,
    )
    clew.watch("*")(module.C.f)
    with clew.run() as run:
        module.C().f()
    changes = clew.open(run.path).calls("C.f")[0].changes
    assert [(c.name, c.value) for c in changes if c.name != "self"] == [("__hidden", 1), ("__hidden", 2)]


def test_a_local_called_super_gives_a_method_no_class_cell(both: Any) -> None:
    same(
        both(
            """
            class C:
                def method(self):
                    class super:
                        message = "quite super"
                    x = 1
                    def inner():
                        return super().message
                    return inner()

            def f():
                return C().method()
            """
        )
    )


def test_every_kind_of_method_works(both: Any) -> None:
    same(
        both(
            """
            import functools

            class C:
                value = 2
                @staticmethod
                def s(x):
                    y = x + 1
                    return y
                @classmethod
                def c(cls, x):
                    y = cls.value * x
                    return y
                @property
                def p(self):
                    y = self.value
                    return y
                @p.setter
                def p(self, new):
                    self.value = new
                @functools.cached_property
                def cached(self):
                    y = object()
                    return y
                def m(self, a, b):
                    y = (a, b)
                    return y
                part = functools.partialmethod(m, 1)
                def __getattr__(self, name):
                    found = name.upper()
                    return found
                def __len__(self):
                    return 7
                __call__ = lambda self, x: x

            def f():
                c = C()
                c.p = 5
                return C.s(1), C.c(3), c.p, c.cached is c.cached, c.part(2), c.missing, len(c), c(9)
            """
        )
    )


def test_wrapped_functions_keep_their_chain(both: Any) -> None:
    plain, watched = both(
        """
        import functools
        def twice(function):
            @functools.wraps(function)
            def wrapper(*args):
                first = function(*args)
                return first, function(*args)
            return wrapper

        @twice
        @twice
        def f(x):
            y = x
            return y
        """
    )
    assert plain.f(1) == watched.f(1)
    inner = inspect.unwrap(watched.f)
    assert ".clew_call" in inner.__code__.co_varnames
    assert inspect.signature(plain.f) == inspect.signature(watched.f)


def test_lambdas_on_one_line_are_told_apart(tmp_path: Path) -> None:
    module = load(tmp_path, "pair = [lambda x: x + 1, lambda x: x * 10]; f = lambda: (yield 1)\n")
    for function in (*module.pair, module.f):
        clew.watch("*")(function)
    assert [function(3) for function in module.pair] == [4, 30]
    assert list(module.f()) == [1]


def test_watches_stack(tmp_path: Path) -> None:
    module = load(tmp_path, "def f(a):\n    b = a\n    c = b\n    return c\n")
    clew.watch("b")(clew.watch("a")(module.f))
    with clew.run() as run:
        assert module.f(1) == 1
    assert [c.name for c in clew.open(run.path).calls("f")[0].changes] == ["a", "b"]


def test_a_function_made_and_decorated_in_a_loop(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        import clew
        def f():
            made = []
            for i in range(5):
                @clew.watch("y")
                def inner(x, i=i):
                    y = x + i
                    return y
                made.append(inner)
            return [each(10) for each in made]
        """,
    )
    with clew.run() as run:
        assert module.f() == [10, 11, 12, 13, 14]
    assert list(clew.open(run.path)["y"].values) == [10, 11, 12, 13, 14]


# ---- scopes ----------------------------------------------------------------------------------------------------------


def test_listing_the_locals_shows_only_the_users(both: Any) -> None:
    same(
        both(
            """
            def f(a):
                b = [a]
                first = sorted(locals()), sorted(vars()), dir()
                c = "{a} {b}".format(**locals())
                class Inner:
                    names = [n for n in locals() if not n.startswith("__")]
                return first, c, Inner.names, sorted(dict(locals()))
            """
        ),
        1,
    )


@pytest.mark.parametrize(
    "text",
    [
        """
        def f(a):
            b = [a]
            return eval("sorted(locals())"), eval("[sorted(vars()), dir()]"), eval("eval('sorted(locals())')")
        """,
        """
        def f(a):
            exec("b = sorted(locals())")
            exec("c = a + 1")
            return locals().get("b"), locals().get("c"), sorted(locals())
        """,
        """
        def f(a):
            def names():
                b = a
                for c in range(2):
                    yield sorted(locals()), eval("sorted(locals())")
            return list(names())
        """,
        """
        def numbers(a):
            for c in range(2):
                yield sorted(locals()), eval("sorted(locals())")
        def f(a):
            return list(numbers(a))
        """,
        """
        import asyncio
        async def later(a):
            b = a
            return sorted(locals()), eval("dir()")
        def f(a):
            return asyncio.run(later(a))
        """,
        """
        def f(a):
            return [sorted(locals()) for b in range(2)], [eval("a if 'a' in locals() else b") for b in range(2)]
        """,
        """
        def f(a):
            def eval(text):
                return "own", text
            b = 1
            return eval("locals()")
        """,
        """
        def f(a):
            try:
                eval("a +")
            except SyntaxError as error:
                return error.text, sorted(locals())
        """,
    ],
)
def test_no_way_to_list_the_names_inside_a_function_shows_ours(both: Any, text: str) -> None:
    same(both(text), 1)


def test_a_failing_eval_has_the_same_traceback(both: Any) -> None:
    plain, watched = both("def f(a):\n    b = 0\n    return [eval('a / b'),\n            b]\n")
    assert shown(watched.f, 1) == shown(plain.f, 1)


def test_exec_and_eval_see_the_locals(both: Any) -> None:
    same(
        both(
            """
            def f(a):
                b = a + 1
                space = {}
                exec("x = 5", globals(), space)
                return eval("a + b"), space, eval("[a for _ in 'xy']", {"a": b})
            """
        ),
        1,
    )


def test_global_and_nonlocal_declared_late(both: Any) -> None:
    modules = both(
        """
        top = 0
        def f(n):
            if n:
                global top
                top += n
            def inner():
                if n:
                    pass
                nonlocal m
                m = n
            m = 0
            inner()
            return top, m
        """
    )
    same(modules, 3)


def test_walrus_in_comprehensions_and_generator_expressions(both: Any) -> None:
    same(
        both(
            """
            def f(xs):
                found = [y for x in xs if (y := x * 2) > 2]
                any((hit := x) > 1 for x in xs)
                total = sum(z for z in xs)
                return found, y, hit, total
            """
        ),
        [1, 2, 3],
    )


def test_match_captures_and_guards(both: Any) -> None:
    modules = both(
        """
        def f(value):
            match value:
                case {"a": a, **rest} if a > 1:
                    return "map", a, rest
                case [x, *middle, y]:
                    return x, middle, y
                case str() as text:
                    return text
                case _:
                    return "else"
        """
    )
    for value in ({"a": 1, "b": 2}, {"a": 2, "b": 3}, [1, 2, 3], "t", 7):
        same(modules, value)


def test_star_arguments_and_more_than_a_hundred_locals(both: Any) -> None:
    names = [f"v{i}" for i in range(150)]
    body = "\n".join(f"    {name} = {i}" for i, name in enumerate(names))
    same(both(f"def f(*args, **more):\n{body}\n    return args, more, {', '.join(names)}\n"), 1, 2)


def test_blocks_nested_as_deep_as_python_allows(both: Any) -> None:
    """One more than fits: then events do the work, and the program is none the wiser."""

    def nested(depth: int) -> str:
        loops = "".join(f"{'    ' * (i + 1)}for i{i} in range(1):\n" for i in range(depth))
        return f"def f():\n    x = 0\n{loops}{'    ' * (depth + 1)}x = i0\n    return x\n"

    depth = 1
    while _compiles(nested(depth + 1)):
        depth += 1
    plain, watched = both(nested(depth))
    assert plain.f() == watched.f() == 0
    assert ".clew_call" not in watched.f.__code__.co_varnames


def _compiles(source: str) -> bool:
    try:
        compile(source, "nested", "exec")
    except SyntaxError:
        return False
    return True


def test_annotations_alone_bind_nothing(both: Any) -> None:
    same(both("def f():\n    x: int\n    y: int = 1\n    (y): str\n    return sorted(locals())\n"))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of 3.12")
def test_type_aliases_and_type_parameters(both: Any) -> None:
    same(
        both(
            """
            class Box[T]:
                def __init__(self, item: T) -> None:
                    self.item = item
                def get[U](self, other: U) -> tuple[T, U]:
                    both = (self.item, other)
                    return both

            def f[S](x: S):
                type Pair = tuple[S, S]
                def inner[V: int](v: V = x) -> V:
                    w = v
                    return w
                return Box(x).get(2), inner(), Pair.__name__, str(f.__type_params__)
            """
        ),
        1,
    )


def test_debuggers_stop_at_the_same_lines(both: Any) -> None:
    plain, watched = both(
        """
        def f(n):
            total = 0
            for i in range(n):
                if i % 2:
                    total += (
                        i
                    )
                else:
                    continue
            with open("/dev/null") as file:
                names = [file.name]
            try:
                int("x")
            except ValueError as error:
                names.append(str(error))
            return total
        """
    )

    def lines(function: Any) -> list[int]:
        seen: list[int] = []

        def trace(frame: types.FrameType, event: str, arg: Any) -> Any:
            if frame.f_code is not function.__code__:
                return None
            if event == "line":
                seen.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            function(3)
        finally:
            sys.settrace(None)
        return seen

    assert list(dict.fromkeys(lines(watched.f))) == list(dict.fromkeys(lines(plain.f)))


# ---- lifetimes -------------------------------------------------------------------------------------------------------


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_objects_die_when_they_would_have(both: Any) -> None:
    source = """
        import weakref

        class Thing:
            pass

        def pair():
            thing = Thing()
            return thing, 1

        def f():
            seen = []
            a = Thing()
            ref = weakref.ref(a)
            del a
            seen.append(ref() is None)
            b = Thing()
            ref = weakref.ref(b)
            b = 1
            seen.append(ref() is None)
            items = [Thing()]
            ref = weakref.ref(items[0])
            items.clear()
            seen.append(ref() is None)
            try:
                c, (d, e) = Thing(), (1,)
            except ValueError:
                ref = weakref.ref(c)
            del c
            seen.append(ref() is None)
            try:
                raise KeyError(Thing())
            except KeyError as error:
                ref = weakref.ref(error.args[0])
            seen.append(ref() is None)
            for g in [Thing()]:
                ref = weakref.ref(g)
            g = None
            seen.append(ref() is None)
            (h := Thing())
            ref = weakref.ref(h)
            del h
            seen.append(ref() is None)
            return seen
        """
    with _no_collector():
        assert all(same(both(source)))


def test_nothing_is_kept_after_the_call(both: Any) -> None:
    _, watched = both(
        """
        class Thing:
            pass

        def f(thing, fail):
            copy = [thing]
            held = {"k": thing}
            if fail:
                raise KeyError
            return thing
        """
    )
    with _no_collector():
        for fail in (False, True):
            thing = watched.Thing()
            ref = weakref.ref(thing)
            try:
                watched.f(thing, fail)
            except KeyError:
                pass
            del thing
            assert ref() is None


def test_values_are_looked_at_without_running_their_code(both: Any) -> None:
    same(
        both(
            """
            class Counting:
                log = []
                def __repr__(self): self.log.append("repr"); return "x"
                def __eq__(self, other): self.log.append("eq"); return True
                def __hash__(self): self.log.append("hash"); return 1
                def __len__(self): self.log.append("len"); return 0
                def __iter__(self): self.log.append("iter"); return iter(())
                def __bool__(self): self.log.append("bool"); return False
                def __getattr__(self, name): self.log.append(name); raise AttributeError(name)
                def __copy__(self): self.log.append("copy"); return self
                def __deepcopy__(self, memo): self.log.append("deepcopy"); return self
                def __reduce__(self): self.log.append("reduce"); return str, ()
                @property
                def prop(self): self.log.append("prop")
                @property
                def __class__(self): self.log.append("class"); return int

            def f():
                Counting.log.clear()
                x = Counting()
                y = [x, {"k": x}]
                x = y[0]
                y.append(x)
                z = lambda: x
                return Counting.log[:]
            """
        )
    )


def test_reading_a_frame_from_a_callee_finds_the_users_names(both: Any) -> None:
    modules = both(
        """
        import sys
        def peek():
            frame = sys._getframe(1)
            return frame.f_locals["x"], frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno
        def f(x):
            y = 1
            return peek()
        """
    )
    assert same(modules, 4) == (4, "f", 2)


def test_functools_caches_and_dispatch_work_on_watched_functions(both: Any) -> None:
    same(
        both(
            """
            import functools
            @functools.lru_cache
            def fib(n):
                result = n if n < 2 else fib(n - 1) + fib(n - 2)
                return result
            @functools.singledispatch
            def kind(x):
                k = "object"
                return k
            @kind.register
            def of_int(x: int):
                k = "int"
                return k
            def f():
                return fib(30), fib.cache_info().hits, kind("a"), kind(1)
            """
        )
    )
