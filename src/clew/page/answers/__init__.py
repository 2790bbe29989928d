"""What the page asks and what it is told, a file each: they take an opened run and a query, and give plain JSON."""
