# Text and bytes through files, stdin, stdout redirected and back.
import contextlib
import io
import sys
import tempfile
from pathlib import Path


def lines_of(path):
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            text = line.rstrip("\n")
            yield number, text


def captured(function, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*args)
    return out.getvalue()


def main():
    print(repr(sys.stdin.read()), sys.stdout.encoding.lower())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text("one\nzwei ü\n", encoding="utf-8")
        print(list(lines_of(path)), path.stat().st_size)
        print(sorted(entry.name for entry in Path(folder).iterdir()))
    print(repr(captured(print, 1, 2)))
    data = bytearray(b"abc")
    view = memoryview(data)
    view[0] = 120
    print(bytes(data))


main()


# Output:
# '' utf-8
# [(0, 'one'), (1, 'zwei ü')] 12
# ['text.txt']
# '1 2\n'
# b'xbc'
