"""The command `iworkflow-contracts`: write the documents, check them, judge a change."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from iworkflow.contracts.folder import (
    FolderError,
    Plan,
    documents,
    is_document,
    is_typescript,
    plan,
)
from iworkflow.contracts.judging import Change, Side, judge_all
from iworkflow.contracts.loading import LoadError, load_contracts
from iworkflow.contracts.manifest import (
    Manifest,
    ManifestError,
    manifest_of,
    read_manifest,
    read_manifests,
)
from iworkflow.contracts.typescript import typescript

CLEAN, DRIFT, USAGE, BREAKING = 0, 1, 2, 3

_EPILOG = """\
exit codes: 0 clean or compatible, 1 drift, 2 usage or import error, 3 breaking change

iworkflow-contracts ts MANIFEST... --out DIR writes TypeScript types.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["ts"]:
            return _typescript(given[1:])
        return _contracts(given)
    except (LoadError, FolderError, ManifestError) as error:
        print(f"iworkflow-contracts: {error}", file=sys.stderr)
    except OSError as error:
        print(f"iworkflow-contracts: {error.filename}: {error.strerror}", file=sys.stderr)
    return USAGE


def _contracts(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="iworkflow-contracts",
        description="Write the manifests and pages of contracts, or check them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("modules", nargs="+", metavar="pkg.mod", help="a module with contracts")
    parser.add_argument("--out", type=Path, help="the folder of the documents")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; show what differs in --out"
    )
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="judge the change since the manifests in DIR"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=[side.option for side in Side],
        help="report what breaks this pair, but do not fail for it",
    )
    options = parser.parse_args(given)
    _check_usage(parser, options)
    manifests = [manifest_of(one) for one in load_contracts(options.modules)]
    judged = CLEAN
    if options.against is not None:
        judged = _judge(options.against, manifests, frozenset(options.allow))
    if options.out is None:
        return judged
    made = plan(options.out, documents(manifests), is_document)
    again = f"iworkflow-contracts {' '.join(options.modules)} --out {options.out}"
    drifted = _check(made, again) if options.check else _write(made)
    return judged or drifted


def _check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.out is None and options.check:
        parser.error("--check needs --out, the folder to check")
    if options.out is None and options.against is None:
        parser.error("give --out DIR to write the documents, or --against DIR to judge a change")
    if options.allow and options.against is None:
        parser.error("--allow goes with --against")


def _typescript(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="iworkflow-contracts ts",
        description="Write TypeScript types from manifests.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "manifests", nargs="+", type=Path, metavar="MANIFEST", help="a manifest, or a folder"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the modules")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; show what differs in --out"
    )
    options = parser.parse_args(given)
    manifests: dict[str, Manifest] = {}
    for path in options.manifests:
        for one in read_manifests(path).values() if path.is_dir() else [read_manifest(path)]:
            if manifests.setdefault(str(one["name"]), one) != one:
                raise ManifestError(f"two manifests are of the contract {one['name']!r}")
    made = plan(options.out, typescript(list(manifests.values())), is_typescript)
    named = " ".join(map(str, options.manifests))
    again = f"iworkflow-contracts ts {named} --out {options.out}"
    return _check(made, again) if options.check else _write(made)


def _write(made: Plan) -> int:
    made.apply()
    for name in made.written:
        print(f"wrote {made.folder / name}")
    for name in made.deleted:
        print(f"deleted {made.folder / name}")
    if made.clean:
        print(f"{made.folder} is up to date")
    return CLEAN


def _check(made: Plan, again: str) -> int:
    if made.clean:
        print(f"{made.folder} is up to date")
        return CLEAN
    if not made.folder.exists():
        print(f"{made.folder} is missing; run: {again}", file=sys.stderr)
        return DRIFT
    sys.stdout.writelines(made.diff())
    print(f"{made.folder} is out of date; run: {again}", file=sys.stderr)
    return DRIFT


def _judge(against: Path, manifests: Iterable[Manifest], allowed: frozenset[str]) -> int:
    new = {str(one["name"]): one for one in manifests}
    changes = judge_all(read_manifests(against), new)
    for change in changes:
        _print_change(change)
    broken = {side for change in changes for side in change.broken}
    failing = [side for side in Side if side in broken and side.option not in allowed]
    if failing:
        print(f"breaking for: {', '.join(failing)}", file=sys.stderr)
        return BREAKING
    print("compatible" if changes else f"no change since {against}")
    return CLEAN


def _print_change(change: Change) -> None:
    verdict = "breaking" if change.breaking else "compatible"
    print(f"{verdict}: {change.contract}: {change.part}: {change.what}")
    for side, why in change.broken.items():
        print(f"  {side}: {why}")
