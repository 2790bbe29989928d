"""Context managers that swallow, replace and pass on what happens in them."""

from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from io import StringIO


class Guard:
    def __init__(self, swallow):
        self.swallow = swallow

    def __enter__(self):
        state = "in"
        return state

    def __exit__(self, kind, error, traceback):
        name = kind.__name__ if kind else None
        print("exit", name, traceback is not None)
        return self.swallow


@contextmanager
def tagged(tag):
    print(f"<{tag}>")
    try:
        yield tag
    except LookupError as error:
        print("seen", error)
        raise RuntimeError(tag) from error
    finally:
        print(f"</{tag}>")


def nested():
    with Guard(True) as a, Guard(False) as b:
        found = a + b
        raise KeyError(found)
    return "went on"


def early():
    with Guard(False):
        for i in range(3):
            if i == 1:
                return i


if __name__ == "__main__":
    print(nested(), early())
    with suppress(RuntimeError), tagged("b"):
        [][1]
    with ExitStack() as stack:
        names = [stack.enter_context(tagged(name)) for name in "xy"]
        stack.callback(print, "callback")
    with redirect_stdout(StringIO()) as out:
        print("hidden")
    print(names, repr(out.getvalue()))

# Output:
# exit KeyError True
# exit KeyError True
# exit None False
# went on 1
# <b>
# seen list index out of range
# </b>
# <x>
# <y>
# callback
# </y>
# </x>
# ['x', 'y'] 'hidden\n'
