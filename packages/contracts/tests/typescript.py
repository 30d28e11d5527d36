"""Have the TypeScript compiler check the generated types, strictly.

It compiles the types of the example and of a contract with every sort of type, and a neighbour's
code that uses the former: what is right compiles, and each `@ts-expect-error` is one. It needs
npm, and fails without it.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from iworkflow.contracts.manifest import manifest_of, read_manifests
from iworkflow.contracts.typescript import typescript

COMPILER = "typescript@7.0.2"
EXAMPLE = Path(__file__).parents[3] / "docs/contracts/example/docs"

NEIGHBOUR = """\
import { contract, Input, Outcome, Queries, Signals, State } from "./organizationOnboarding";

const input: Input = { code: "1", linked_by: "me" };
// @ts-expect-error a member is missing
const less: Input = { code: "1" };
// @ts-expect-error a member is of another type
const wrong: Input = { code: 1, linked_by: "me" };

function told(outcome: Outcome): string {
  return outcome.ok ? outcome.organization_id : outcome.reason;
}
// @ts-expect-error no outcome
told({ ok: false, organization_id: "1" });

const approve: Signals["approve"] = { by: "me" };
const checks: Queries["checks"] = { known: true };
const state: State = "awaiting approval";
const queue: "iprofile" = contract.taskQueue;
export { approve, checks, input, less, queue, state, wrong };
"""


def everything() -> Any:
    """The contract with every sort of type."""
    path = Path(__file__).with_name("test_contracts_manifest.py")
    spec = importlib.util.spec_from_file_location("everything", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["everything"] = module
    spec.loader.exec_module(module)
    return module.contract()


def main() -> int:
    """Write the modules and compile them; give the compiler's exit code."""
    npm = shutil.which("npm")
    if npm is None:
        print("typescript: npm must be installed", file=sys.stderr)
        return 1
    manifests = [*read_manifests(EXAMPLE).values(), manifest_of(everything())]
    with tempfile.TemporaryDirectory(prefix="iworkflow-typescript-") as name:
        folder = Path(name)
        install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*install, COMPILER], cwd=folder, check=True)
        for file, text in typescript(manifests).items():
            (folder / file).write_text(text, "utf-8")
        (folder / "neighbour.ts").write_text(NEIGHBOUR)
        compiler = folder / "node_modules/.bin/tsc"
        options = ["--noEmit", "--strict", "--noUnusedLocals", "--target", "es2022"]
        files = [str(path) for path in folder.glob("*.ts")]
        return subprocess.run([compiler, *options, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
