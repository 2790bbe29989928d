"""The page: runs in a browser, and one file of it to send away.

    serving ──► server (token, Host, routes) ──► answers/* ──► Shelf ──► Opened ──► history
    report  ─────────────────────────────────► answers/*

What is answered is said in `web/src/types.ts`; the tests hold `answers` to it. `import clew` loads nothing of this.
"""

from pathlib import Path

BUILT = Path(__file__).with_name("static") / "page.html"  # made of web/ by scripts/build_page.py
