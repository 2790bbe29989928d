"""A command line of the program's own, with options that look like clew's."""

import argparse


def parse():
    parser = argparse.ArgumentParser(prog="program")
    parser.add_argument("--watch", nargs="+")
    parser.add_argument("--model", default="m")
    parser.add_argument("-m", type=int)
    parser.add_argument("rest", nargs="*")
    args = parser.parse_args()
    return args


def main():
    args = parse()
    print(args.watch, args.model, args.m, args.rest)
    raise SystemExit(len(args.rest))


if __name__ == "__main__":
    main()

# Arguments: --watch a: b --model=x:y -m 3 -- --follow c
# Status: 2
# Output:
# ['a:', 'b'] x:y 3 ['--follow', 'c']
