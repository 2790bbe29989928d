"""How values are caught, one package a probe. Each writes the same records through clew.recorder."""

import clew.instrument  # noqa: F401  (refuses a free-threaded Python before anything else is asked for)
