"""What works where msgspec, or anything but core, is not installed."""

import subprocess
import sys
from pathlib import Path

import iworkflow.core.errors

SOURCE = Path(iworkflow.core.errors.__file__).parents[2]

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "msgspec":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def _run(code: str, *options: str) -> str:
    return subprocess.run(
        [
            sys.executable,
            *options,
            "-c",
            f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_importing_core_imports_no_third_party() -> None:
    """In an interpreter without site-packages, core and its codec import and define an app."""
    code = """
import iworkflow.core, iworkflow.core.codec, iworkflow.core.definition
from dataclasses import dataclass
@dataclass
class Lead:
    name: str
async def outreach(ctx, lead: Lead) -> Lead: ...
app = iworkflow.core.definition.AppDefinition("ioutreach", flows=[outreach])
print(app.flow("outreach").signature.encode_args([Lead("a")], where="x"))
"""
    assert _run(code, "-S", "-I") == "[{'name': 'a'}]\n"


def test_importing_core_leaves_msgspec_alone() -> None:
    """Where msgspec is installed, an import of core does not import it."""
    code = "import iworkflow.core, iworkflow.core.codec; print('msgspec' in sys.modules)"
    assert _run(code) == "False\n"


def test_reading_without_msgspec_says_how_to_install_it() -> None:
    """The error of whatever needs msgspec names the extra of core."""
    code = """
from iworkflow.core.codec import decode, require_msgspec
for call in (lambda: decode(1, int, where="x"), require_msgspec):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    line = (
        "values are read back with msgspec, which is not installed; "
        'run: pip install "iworkflow-core[codec]"\n'
    )
    assert _run(BLOCKED + code) == line * 2


def test_a_hint_is_refused_without_msgspec_too() -> None:
    """Our own walk finds what cannot be read back."""
    code = """
from datetime import date
from iworkflow.core.codec import check_hint
check_hint(dict[int, date | None], where="p")
try:
    check_hint(date | str, where="p")
except TypeError as error:
    print(error)
"""
    expected = "p: the codec cannot read back date | str: date and str are all strings in JSON\n"
    assert _run(BLOCKED + code) == expected
