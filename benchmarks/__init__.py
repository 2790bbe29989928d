"""What clew costs, beside what the same thing costs by hand and with other tools. `python -m benchmarks --help`."""
