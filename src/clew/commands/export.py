"""`clew export`: a run as a file for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.commands.console import print_json, progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = [
    "clew export latest --to csv",
    "clew export latest loss acc --to parquet -o curves.parquet",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "export", help="write a run for other tools: JSON, Parquet, HDF5, TensorBoard, Perfetto"
    )
    parser.description = "Writes a run, or some names of it, as a file for other tools."
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name, or `latest`")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only this name (or pattern)")
    parser.add_argument(
        "-t",
        "--to",
        required=True,
        metavar="FORMAT",
        help="json, csv, parquet, hdf5, zarr, safetensors, tensorboard, perfetto",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (a file named after the run, here)")
    parser.add_argument(
        "--raw-cells", action="store_true", help="csv: leave texts as they are that a spreadsheet takes for formulas"
    )
    parser.add_argument("--json", action="store_true", help="say what was written for machines")


def main(args: argparse.Namespace) -> int:
    from clew.commands.show import chosen
    from clew.export import export, writer
    from clew.reading import open_run

    writer(args.to)  # a format that does not exist is said before a long run is opened
    run = open_run(args.run)
    names = chosen(run, args.names) if args.names else None
    with progress_bar(f"to {args.to}") as progress:
        path = export(run, args.to, args.output, names=names, progress=progress, raw_cells=args.raw_cells)
    size = _size(path)
    if args.json:
        print_json({"path": str(path.absolute()), "format": args.to, "bytes": size})
    else:
        print(f"{path} ({size:,} bytes)")
    return 0


def _size(path: Path) -> int:
    """Of a file, or of all files in a folder (Zarr, TensorBoard)."""
    return (
        sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) if path.is_dir() else path.stat().st_size
    )
