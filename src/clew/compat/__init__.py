"""Five faces: code written for another tool runs here after its import line alone is changed."""
