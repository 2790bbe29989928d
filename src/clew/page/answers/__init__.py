"""The answers of the page, one file per topic: they take an open run and a query, and return plain JSON."""
