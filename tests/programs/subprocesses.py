"""Programs that this program starts are on their own."""

import os
import subprocess
import sys


def start(code, *words):
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def fork():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = b"from the child"
        os.write(write, text)
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.read(read, 100), status


if __name__ == "__main__":
    print(start("import sys; print(sys.argv[1:], 'clew' in sys.modules)", "a", "b"))
    print(start("import sys; sys.exit(3)"))
    print(fork())
    print(os.path.basename(sys.argv[0]), __name__, os.path.basename(__file__))

# Output:
# (0, "['a', 'b'] False", '')
# (3, '', '')
# (b'from the child', 7)
# subprocesses.py __main__ subprocesses.py
