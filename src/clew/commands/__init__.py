"""The command line: one file a verb, each with `add(subparsers)` and `main(args) -> int`. Only here is printed."""
