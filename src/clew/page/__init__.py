"""The page: shows runs in a browser, and writes them into a single file as a report.

    serving ──► server (token, Host, routes) ──► answers/* ──► Shelf ──► OpenedRun ──► history
    report  ─────────────────────────────────► answers/*

`web/src/types.ts` defines the answers, and tests check `answers` against it. `import clew` loads none of this.
"""

from pathlib import Path

BUILT = Path(__file__).with_name("static") / "page.html"  # built from web/ by scripts/build_page.py
