"""While a model is traced, nothing of clew is in it: what is copied, saved, exported or replaced is as without clew."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import io
import re
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clew
from clew.instrument import module_calls
from clew.probes.follow import unfollow

PATHS = ["**", "**.input", "**.forward.*", "**.grad", "**.weight", "**.weight.grad"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        h = self.fc(x)
        h = torch.relu(h) * scale
        return h + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.blocks(x)
        y = self.norm(y)
        return self.head(y)


def made() -> tuple[Any, torch.Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(3, 4)


@contextmanager
def nothing(model: Any) -> Iterator[None]:
    yield


@contextmanager
def traced(model: Any) -> Iterator[None]:
    with clew.ModelTracer(model, PATHS, store=False, nonfinite="find"):
        yield


@contextmanager
def followed(model: Any) -> Iterator[None]:
    clew.follow(model, show=False)
    try:
        yield
    finally:
        unfollow(model)


WAYS = [traced, followed]


def in_both(look: Callable[[Any, torch.Tensor], Any], way: Any) -> tuple[Any, Any]:
    """What `look` finds in a model that was called, without clew and with it."""
    found = []
    for each in (nothing, way):
        model, x = made()
        with each(model):
            model(x).sum().backward()
            found.append(look(model, x))
    return found[0], found[1]


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save(value, buffer)
    return buffer.getvalue()


def graph_text(scripted: Any) -> str:
    """Classes are numbered in a process: the first of a name has no number."""
    return re.sub(r"___torch_mangle_\d+\.", "", str(scripted.inlined_graph))


def attributes(model: Any, x: Any) -> Any:
    return {
        path: {name: dict(held) if name.endswith("hooks") else type(held) for name, held in vars(module).items()}
        for path, module in model.named_modules()
    }


LOOKS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "vars": attributes,
    "torch.save": lambda model, x: saved(model),
    "torch.save of a deep copy": lambda model, x: saved(copy.deepcopy(model)),
    "torch.save of a shallow copy": lambda model, x: saved(copy.copy(model)),
    "torch.save of an output": lambda model, x: saved(model(x)),
    "state_dict": lambda model, x: saved(model.state_dict()),
    "signature": lambda model, x: str(inspect.signature(model.forward)),
    "source": lambda model, x: inspect.getsource(model.forward),
    "symbolic_trace": lambda model, x: torch.fx.symbolic_trace(model).code,
    "jit.trace": lambda model, x: graph_text(torch.jit.trace(model, (x,))),  # type: ignore[no-untyped-call]
    "functional_call": lambda model, x: torch.func.functional_call(
        model, {name: value * 2 for name, value in model.named_parameters()}, (x,)
    ).tolist(),
}  # fmt: skip
SLOW_LOOKS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "jit.script": lambda model, x: graph_text(torch.jit.script(model)),
    "export": lambda model, x: str(torch.export.export(model, (x,))),
    "strict export": lambda model, x: str(torch.export.export(model, (x,), strict=True)),
    "compile": lambda model, x: torch.compile(model, backend="eager", fullgraph=True)(x).tolist(),
}


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:.*not supported in Python 3.14:UserWarning"
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("look", LOOKS)
def test_a_model_looks_the_same(look: str, way: Any) -> None:
    plain, with_clew = in_both(LOOKS[look], way)
    assert with_clew == plain


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("look", SLOW_LOOKS)
def test_a_model_is_captured_the_same(look: str, way: Any) -> None:
    try:
        plain, with_clew = in_both(SLOW_LOOKS[look], way)
    finally:
        torch._dynamo.reset()
    assert with_clew == plain


def test_a_model_saved_while_traced_loads_without_clew(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with traced(model):
        model(torch.ones(2))
        torch.save(model, tmp_path / "model.pt")
    script = (
        "import sys; sys.modules['clew'] = None; import torch\n"
        f"print(torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)(torch.ones(2)).shape)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "torch.Size([2])\n", done.stderr


def test_a_deep_copy_is_not_traced_and_keeps_nothing() -> None:
    model, x = made()
    with clew.ModelTracer(model, ["forward", "forward.y"], store=False) as tracer:
        copied = copy.deepcopy(model)
        copied(x)
        copied.forward(x)
    assert tracer.counts == {"train": 0, "eval": 0}
    assert attributes(copied, x) == attributes(made()[0], x)


def test_no_code_is_left_exchanged_when_tracing_ends() -> None:
    gc.collect()
    # A followed model that is collected leaves its code exchanged until tracing begins or ends the next time: other
    # tests have followed some.
    with traced(made()[0]):
        pass
    functions = [nn.Module.__call__, Net.forward, Block.forward, nn.Linear.forward, nn.Sequential.forward]
    before = [(function.__code__, dict(vars(function))) for function in functions]
    heard = set(module_calls.heard)
    for _ in range(2):
        model, x = made()
        with traced(model):
            model(x)
            assert [function.__code__ for function in functions] != [code for code, _ in before]
    assert [(function.__code__, dict(vars(function))) for function in functions] == before
    assert set(module_calls.heard) <= heard


def test_a_followed_model_that_is_gone_is_forgotten() -> None:
    model, x = made()
    clew.follow(model, show=False)
    model(x)
    assert module_calls.heard
    del model
    gc.collect()
    assert not module_calls.heard


def test_a_model_compiled_after_it_was_traced_is_compiled_as_a_whole() -> None:
    model, x = made()
    with traced(model):
        expected = model(x)
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    assert torch.equal(torch.compile(model, backend=backend, fullgraph=True)(x), expected)
    assert len(graphs) == 1
    torch._dynamo.reset()


@pytest.mark.parametrize("paths", [["**"], PATHS])
def test_with_compiled_leave_models_are_compiled_as_a_whole(paths: list[str]) -> None:
    model, x = made()
    expected = model(x)
    try:
        with clew.ModelTracer(model, paths, store=False, compiled="leave"):
            assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(x), expected)
            assert torch.equal(torch.compile(made()[0], backend="eager", fullgraph=True)(x), expected)
    finally:
        torch._dynamo.reset()


# ---- what is replaced while a model is traced takes effect


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x * 1
        return y


@contextmanager
def tracing(model: Any, *paths: str) -> Iterator[clew.ModelTracer]:
    with clew.ModelTracer(model, paths or ["forward", "forward.x", "forward.y"], store=False) as tracer:
        yield tracer


def values(tracer: clew.ModelTracer, name: str) -> list[float]:
    return [value.item() for value in tracer.results[name].values]


def thousandfold(self: Any, x: Any) -> Any:
    y = x * 1000
    return y


def test_a_replaced_forward_of_the_class_is_run_and_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scaled()
    with tracing(model) as tracer:
        assert model(torch.tensor(1.0)).item() == 1
        monkeypatch.setattr(Scaled, "forward", thousandfold)
        assert model(torch.tensor(1.0)).item() == 1000
    assert values(tracer, "forward") == [1, 1000]
    assert values(tracer, "forward.y") == [1, 1000]
    assert model(torch.tensor(1.0)).item() == 1000


@pytest.mark.parametrize(
    "new",
    [
        lambda model: types.MethodType(thousandfold, model),
        lambda model: functools.partial(thousandfold, model),
        lambda model: lambda x: x * 1000,
    ],
)
def test_a_replaced_forward_of_the_module_is_run(new: Any) -> None:
    model = Scaled()
    with tracing(model) as tracer:
        model(torch.tensor(1.0))
        model.forward = new(model)
        assert model(torch.tensor(1.0)).item() == 1000
    assert values(tracer, "forward") == [1, 1000]
    assert model(torch.tensor(1.0)).item() == 1000
    assert "forward" in vars(model)


@pytest.mark.parametrize("new", [types.MethodType, functools.partial])
def test_a_forward_that_was_replaced_before_is_looked_into(new: Any) -> None:
    model = Scaled()
    model.forward = new(thousandfold, model)
    with tracing(model) as tracer:
        model(torch.tensor(1.0))
        model.forward(torch.tensor(2.0))
    assert values(tracer, "forward") == [1000, 2000]
    assert values(tracer, "forward.y") == [1000, 2000]


def test_a_forward_wrapped_as_accelerate_does_is_heard_once() -> None:
    model = Scaled()
    old = model.forward

    def new_forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        return old(*args, **kwargs) * 10

    model.forward = functools.update_wrapper(functools.partial(new_forward, model), old)
    with tracing(model) as tracer:
        assert model(torch.tensor(1.0)).item() == 10
    assert values(tracer, "forward") == [10]
    assert values(tracer, "forward.y") == [1]
    assert tracer.counts["train"] == 1


def test_a_recompiled_graph_module_runs_its_new_code() -> None:
    model = torch.fx.symbolic_trace(Scaled())
    with tracing(model, "forward") as tracer:
        assert model(torch.tensor(1.0)).item() == 1
        for node in model.graph.nodes:
            if node.op == "call_function":
                node.args = (node.args[0], 1000)
        model.recompile()
        assert model(torch.tensor(1.0)).item() == 1000
    assert values(tracer, "forward") == [1, 1000]


def test_another_class_takes_effect() -> None:
    class Other(Scaled):
        def forward(self, x: Any) -> Any:
            y = super().forward(x) * 1000
            return y

    model = Scaled()
    with tracing(model) as tracer:
        model(torch.tensor(1.0))
        model.__class__ = Other
        assert model(torch.tensor(1.0)).item() == 1000
    assert values(tracer, "forward") == [1, 1000]


def test_a_forward_that_calls_that_of_its_base_is_heard_once() -> None:
    class Base(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x + 1
            return y

    class Derived(Base):
        def forward(self, x: Any) -> Any:
            y = super().forward(x) * 10
            return y

    both = nn.ModuleDict({"base": Base(), "derived": Derived()})
    both.forward = lambda x: both["base"](both["derived"](x))  # type: ignore[method-assign]
    with tracing(both, "base", "derived", "derived.forward.y", "base.forward.y") as tracer:
        both(torch.tensor(1.0))
        both["derived"].forward(torch.tensor(2.0))
    assert values(tracer, "derived") == [20, 30]
    assert values(tracer, "derived.forward.y") == [20, 30]
    assert values(tracer, "base") == [21]


# ---- hooks of the user's


def test_hooks_of_the_user_run_in_their_order_and_what_they_change_is_seen() -> None:
    model = nn.Sequential(Scaled())
    order: list[str] = []

    def says(name: str, result: Callable[[Any], Any]) -> Any:
        def hook(module: Any, *args: Any) -> Any:
            order.append(name)
            return result(args)

        return hook

    model[0].register_forward_pre_hook(says("before, first", lambda args: (args[0][0] + 1,)))
    model[0].register_forward_hook(says("after, first", lambda args: args[1] * 10))
    with tracing(model, "0", "0.input", "0.forward.x.input") as tracer:
        model[0].register_forward_pre_hook(says("before, second", lambda args: (args[0][0] + 1,)))
        model[0].register_forward_hook(says("after, second", lambda args: args[1] * 10))
        assert model(torch.tensor(1.0)).item() == 300
    assert order == ["before, first", "before, second", "after, first", "after, second"]
    assert values(tracer, "0") == [300]
    assert values(tracer, "0.input") == [3]
    assert values(tracer, "0.forward.x.input") == [3]


def test_a_hook_that_raises_ends_the_iteration() -> None:
    model = Scaled()

    def refuse(module: Any, args: Any) -> None:
        raise KeyError("no")

    handle = model.register_forward_pre_hook(refuse)
    with tracing(model) as tracer:
        with pytest.raises(KeyError):
            model(torch.tensor(1.0))
        handle.remove()
        model(torch.tensor(2.0))
    assert tracer.counts["train"] == 2
    assert values(tracer, "forward") == [2]


def test_full_backward_hooks_and_parametrizations_work_as_before() -> None:
    def run(way: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        gradients = []
        model[0].register_full_backward_hook(lambda module, into, out: gradients.append(out[0].clone()))
        with way(model):
            torch.nn.utils.parametrize.register_parametrization(model[0], "weight", nn.Softplus())
            output = model(torch.ones(1, 2, requires_grad=True))
            output.sum().backward()
        return [output.tolist(), [gradient.tolist() for gradient in gradients], saved(model.state_dict())]

    assert run(traced) == run(nothing)


# ---- several tracers, threads, replicas


def test_a_replica_of_a_traced_model_is_heard() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with tracing(model, "0", "0.forward.input", "forward") as tracer:
        replica = model._replicate_for_data_parallel()
        replica._modules["0"] = model[0]
        replica(torch.ones(2))
        del replica
    assert len(tracer.results["0"]) == len(tracer.results["forward"]) == 1


def test_a_module_of_two_models_is_heard_by_both_tracers() -> None:
    shared = Scaled()
    one, other = nn.Sequential(shared), nn.Sequential(shared, Scaled())
    with tracing(other, "0", "1.forward.y") as second:
        with tracing(one, "0", "0.forward.y") as first:
            one(torch.tensor(1.0))
        other(torch.tensor(2.0))
    assert (values(first, "0"), values(second, "0")) == ([1], [2])
    assert values(first, "0.forward.y") == [1]
    assert values(second, "1.forward.y") == [2]


def test_a_tracer_may_end_inside_forward() -> None:
    class Ends(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x + 1
            if tracer is not None:
                tracer.stop()
            y = y + 1
            return y

    model = Ends()
    tracer: Any = clew.ModelTracer(model, ["forward", "forward.y"], store=False).start()
    assert model(torch.tensor(1.0)).item() == 3
    assert values(tracer, "forward.y") == [2]
    tracer = None
    assert model(torch.tensor(1.0)).item() == 3
    assert not module_calls.heard


def test_models_in_two_threads_are_heard_apart() -> None:
    models = [nn.Sequential(Scaled()), nn.Sequential(Scaled())]
    tracers = [clew.ModelTracer(model, ["0", "0.forward.y"], store=False, repeats="all").start() for model in models]

    def call(model: Any, value: float) -> None:
        for _ in range(50):
            assert model(torch.tensor(value)).item() == value

    threads = [threading.Thread(target=call, args=(model, float(n))) for n, model in enumerate(models)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, tracer in enumerate(tracers):
        tracer.stop()
        assert values(tracer, "0") == [number] * 50
        assert values(tracer, "0.forward.y") == [number] * 50


def test_an_exception_of_a_traced_model_has_the_frames_it_has_without() -> None:
    def frames(way: Any) -> list[tuple[str, int]]:
        model, _ = made()
        with way(model), pytest.raises(RuntimeError) as raised:
            model(torch.ones(3, 5))
        found = []
        traceback = raised.value.__traceback__
        while traceback is not None:
            found.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
            traceback = traceback.tb_next
        return found

    assert frames(traced) == frames(nothing)


# ---- together with other probes


def test_a_watched_forward_is_still_watched_when_it_is_traced() -> None:
    changes: list[Any] = []

    class Watched(nn.Module):
        @clew.watch("y", on_change=lambda change: changes.append(change.value))
        def forward(self, x: Any) -> Any:
            y = float(x)
            y = y + 1
            return x

    model, other = Watched(), Watched()
    with tracing(model, "forward"):
        other(torch.tensor(1.0))
        assert changes == [1.0, 2.0]
        model(torch.tensor(3.0))
    assert changes == [1.0, 2.0, 3.0, 4.0]
    changes.clear()
    model(torch.tensor(5.0))
    assert changes == [5.0, 6.0]


def test_a_followed_forward_is_still_followed_when_it_is_traced(tmp_path: Path) -> None:
    model = Net()

    def step(x: Any) -> Any:
        return model(x)

    clew.follow(show=False)(step)
    with clew.run(path=tmp_path / "run") as run, tracing(model, "head", "head.input") as tracer:
        output = step(torch.ones(3, 4))
    found = clew.open(run.path)
    assert [len(found.calls(name)) for name in ("step", "Net.forward", "Block.forward")] == [1, 1, 2]
    assert torch.equal(tracer.results["head"].values[0], output.detach())
