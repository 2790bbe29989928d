"""How values are caught, one package a probe. Each writes the same records through clew.recorder."""
