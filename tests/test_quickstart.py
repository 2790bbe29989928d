"""scripts/quickstart.py, by which CI holds the README to its word, notices when the README is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from documents import ROOT

README = """# x

## Quick start

```python
print("one")
```

```text
{expected}
```

## Next

```python
raise SystemExit("not part of the quick start")
```
"""


def check(readme: str, folder: Path) -> subprocess.CompletedProcess[str]:
    page = folder / "README.md"
    page.write_text(readme)
    command = [sys.executable, str(ROOT / "scripts" / "quickstart.py"), str(page)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_quick_start_that_prints_what_it_says_passes(tmp_path: Path) -> None:
    done = check(README.format(expected="one"), tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_quick_start_that_prints_something_else_fails(tmp_path: Path) -> None:
    done = check(README.format(expected="two"), tmp_path)
    assert done.returncode == 1
    assert "instead of" in done.stderr


def test_a_quick_start_that_raises_fails(tmp_path: Path) -> None:
    done = check(README.format(expected="one").replace('print("one")', "1 / 0"), tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_a_command_of_the_quick_start_that_fails_is_noticed(tmp_path: Path) -> None:
    readme = README.format(expected="one").replace("## Next", "```sh\nclew no-such-command\n```\n\n## Next")
    assert check(readme, tmp_path).returncode != 0


def test_the_readme_has_programs_and_commands() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from quickstart import section
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    languages = [language for language, _ in section((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert {"python", "text", "sh"} <= set(languages)


def test_the_pipeline_example_prints_what_its_page_shows(tmp_path: Path) -> None:
    script = ROOT / "examples" / "pipeline.py"
    environment = os.environ | {"CLEW_DIR": str(tmp_path), "CLEW_QUIET": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    blocks = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8").split("```text\n")[1:]
    (shown,) = [block.split("```")[0] for block in blocks if block.startswith("Dataset.get")]
    assert without_times(done.stderr) == without_times(shown)


def without_times(text: str) -> list[str]:
    return re.sub(r"[\d.]+ (ns|µs|ms|s)\b", "TIME", text).splitlines()
