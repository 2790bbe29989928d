"""How values are caught: lines (watch). Each probe writes the same records through clew.recorder."""
