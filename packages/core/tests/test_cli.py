"""The command: worker, start and dev, in this process and in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from iworkflow.core import engines
from iworkflow.core.cli import main

FLOWS = """
import asyncio, os
from iworkflow.core import AppDefinition, Context, Failure

async def greet(ctx: Context, name: str, times: int = 1) -> dict[str, object]:
    return {"greeting": "hello " + name, "times": times, "priority": ctx.priority}

async def refuse(ctx: Context) -> None:
    raise Failure("no thanks", type="Refused", details={"code": 7})

async def hold(ctx: Context) -> None:
    await ctx.recv("never")

async def busy(ctx: Context) -> None:
    await ctx.step(work)

async def tells(ctx: Context) -> None:
    ctx.log.warning("charged %s", 7)
    await busy(ctx)

async def work() -> None:
    print("working", flush=True)
    while os.environ.get("DEAF"):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    await asyncio.sleep(float(os.environ.get("WORK", 60)))
    print("worked", flush=True)

app = AppDefinition(app="office", flows=[greet, refuse, hold, busy, tells], activities=[work],
                    pools={"paced": 2}, max_concurrent_steps=20)
number = 7
"""

# An engine whose clients bring their own worker, and whose worker starts a flow of its own:
# the command runs real flows with no server.
ENGINE = """
import contextlib, logging, os
from iworkflow.core import Target
from iworkflow.core.memory import MemoryClient, MemoryRuntime, MemoryStore, RealClock

store = MemoryStore(RealClock())

class Client(MemoryClient):
    async def __aenter__(self):
        import shop
        self.worker = MemoryRuntime(self.store)
        await self.worker.start(shop.app)
        return await super().__aenter__()

    async def close(self):
        await self.worker.stop(0)
        await super().close()

class Runtime(MemoryRuntime):
    async def start(self, app):
        if os.environ.get("UNREACHABLE"):
            raise ConnectionError('cannot reach toy at here (refused); run "iworkflow dev"')
        await super().start(app)
        if os.environ.get("LOG"):
            logging.getLogger("iworkflow.toy").warning("a line of the engine")
        await MemoryClient(self.store).start(Target("office", os.environ["FLOW"]), id="own")

    async def done(self):
        if os.environ.get("BROKEN"):
            raise {"os": OSError("the database is gone"), "key": KeyError("a bug")}[
                os.environ["BROKEN"]
            ]
        await super().done()

    async def stop(self, grace=10):
        await super().stop(grace)
        if os.environ.get("BROKEN"):
            print("worker stopped", flush=True)

class Plain:
    name = "plain"
    def client(self, **settings): return Client(store)
    def runtime(self, **settings): return Runtime(store)

class Toy(Plain):
    name = "toy"
    @contextlib.asynccontextmanager
    async def dev(self):
        yield "toy server at here\\nexport TOY=here"
        print("toy server stopped", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: it holds `shop.py`, and the engines `toy` and `plain` beside memory."""
    (tmp_path / "shop.py").write_text(FLOWS)
    (tmp_path / "toy_engine.py").write_text(ENGINE)
    info = tmp_path / "iworkflow_toy-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: iworkflow-toy\nVersion: 1.2\n")
    lines = "[iworkflow.engines]\ntoy = toy_engine:Toy\nplain = toy_engine:Plain\n"
    (info / "entry_points.txt").write_text(lines)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IWORKFLOW_ENGINE", "toy")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("shop", "toy_engine", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: exit code, stdout, stderr. No engine of others is seen."""

    def entry_points(*, group: str) -> metadata.EntryPoints:
        (toy,) = metadata.distributions(path=[str(folder)])
        return toy.entry_points.select(group=group)

    monkeypatch.setattr(engines, "entry_points", entry_points)
    monkeypatch.syspath_prepend(str(folder))

    def command(*words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return command


Run = Callable[..., tuple[int, str, str]]


def test_start_prints_id_and_created(run: Run) -> None:
    """`start` prints the id and whether this call started the run."""
    words = ("start", "office/hold", "--id", "lead-7")
    assert run(*words) == (0, "lead-7 created\n", "")
    assert run(*words) == (0, "lead-7 attached\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ("office/greet", '"bob"', "-2", "--id", "x", "--wait"),
        ("office/greet", "--id", "x", '"bob"', "-2", "--wait"),
        ("office/greet", "--id", "x", "--wait", "--arg", '"bob"', "--arg=-2"),
        ("office/greet", '"bob"', "--id", "x", "--wait", "--arg=-2"),
    ],
)
def test_start_waits(run: Run, words: tuple[str, ...]) -> None:
    """`--wait` leaves stdout to the outcome as JSON; arguments may stand anywhere."""
    code, out, err = run("start", *words)
    assert (code, err) == (0, "x created\n")
    assert json.loads(out) == {"greeting": "hello bob", "times": -2, "priority": 3}


def test_start_takes_options(run: Run) -> None:
    """`--priority`, `--timeout` and `--engine` reach the run."""
    code, out, _ = run(
        "start", "office/greet", '"bob"', "--id=x", "--wait", "--priority", "1", "--engine=plain"
    )
    assert (code, json.loads(out)["priority"]) == (0, 1)
    code, _, err = run("start", "office/hold", "--id=y", "--wait", "--timeout", "0.05")
    assert code == 1
    assert "(reason timeout)" in err


def test_start_tells_a_failure(run: Run) -> None:
    """A failed run: exit code 1, with reason, type and details on stderr, nothing on stdout."""
    code, out, err = run("start", "office/refuse", "--id", "x", "--wait")
    assert (code, out) == (1, "")
    assert 'no thanks (reason failed, type Refused); details: {"code": 7}\n' in err
    assert "Traceback" not in err


def test_start_tells_a_taken_id(run: Run) -> None:
    """An id of another flow: exit code 1 and who has it."""
    run("start", "office/hold", "--id", "x")
    assert run("start", "office/refuse", "--id", "x") == (
        1,
        "",
        (
            "iworkflow start: x: id 'x' is taken by a run of 'office/hold' (running) "
            "(reason already-started)\n"
        ),
    )


BAD_STARTS = [
    (("office", "--id=x"), "'office' names no flow; write it as APP/FLOW, like ioutreach/outreach"),
    (
        ("office/greet", "bob", "--id=x"),
        (
            "argument 1 is not JSON: 'bob' (Expecting value: line 1 column 1 (char 0)); "
            "a text needs quotes of its own, like '\"bob\"'"
        ),
    ),
    (("office/greet", "--id="), "id of a flow must be a non-empty string, not ''"),
    (("OFFICE/greet", "--id=x"), "app name 'OFFICE': a name has 3 to 256 characters of"),
    (
        ("office/greet", "--id=x", "--priority=6"),
        "priority must be 1 (first) to 5 (last), not 6",
    ),
    (("office/greet", "--id=x", "--timeout=0"), "timeout must be above 0, not 0.0"),
    (("office/greet", "NaN", "--id=x"), "flow 'greet', argument 1: nan is not a JSON number"),
    (
        ("office/greet", "--id=x", "--engine=tay"),
        "no engine 'tay' (installed: 'memory', 'plain', 'toy'); did you mean 'toy'?",
    ),
    (
        ("office/greet", "--id=x", "--engine=memory"),
        (
            "the memory engine lives inside one process, where this command cannot reach a worker; "
            'name another with --engine, or run "pip install iworkflow-dbos[embedded]"'
        ),
    ),
]


@pytest.mark.parametrize(("words", "message"), BAD_STARTS)
def test_start_refuses(run: Run, words: tuple[str, ...], message: str) -> None:
    """What `start` cannot do is one line with the remedy, exit code 2, no traceback."""
    code, out, err = run("start", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"iworkflow start: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("sing",), ("start", "a/b"), ("worker", "m:a", "--gr", "x")])
def test_usage(run: Run, words: tuple[str, ...]) -> None:
    """Words that are no command of ours: exit code 2 and the usage."""
    code, _, err = run(*words)
    assert code == 2
    assert err.startswith("usage: iworkflow")


@pytest.mark.parametrize("words", [("dev", "surplus"), ("start", "a/b", "--id=x", "--tiemout=1")])
def test_unknown_words(run: Run, words: tuple[str, ...]) -> None:
    """A word that a command does not know is named."""
    code, _, err = run(*words)
    assert (code, err.splitlines()[-1]) == (2, f"iworkflow: error: unknown: {words[-1]}")


BAD_APPS = [
    ("shop", "'shop' names no app; write it as module:name, like pkg.mod:app"),
    ("shop:", "'shop:' names no app; write it as module:name, like pkg.mod:app"),
    ("shopp:app", "no module 'shopp', in this folder or installed; run the command in the folder"),
    ("none.shop:app", "no module 'none' (of 'none.shop'), in this folder or installed; "),
    ("shop.py:app", "'shop.py' is a file; name it as a module, like shop:app"),
    ("./pkg/shop.py:app", "'./pkg/shop.py' is a file; name it as a module, like pkg.shop:app"),
    ("shop:ap", "module 'shop' has no 'ap' (apps there: 'app'); did you mean 'app'?"),
    ("shop:number", "'shop:number' is of type 'int', not an AppDefinition (apps there: 'app')"),
    ("shop:greet", "'shop:greet' is of type 'function', not an AppDefinition (apps there: 'app')"),
    ("toy_engine:app", "module 'toy_engine' has no 'app' (it defines no app)"),
    ("broken:app", "cannot import 'broken': ZeroDivisionError: division by zero ("),
]


@pytest.mark.parametrize(("place", "message"), BAD_APPS)
def test_worker_refuses(run: Run, folder: Path, place: str, message: str) -> None:
    """An app that is not there is told in one line, with what is; exit code 2."""
    (folder / "broken.py").write_text("\n\n1 / 0\n")
    code, out, err = run("worker", place)
    assert (code, out) == (2, "")
    assert err.startswith(f"iworkflow worker: {message}")
    assert err.count("\n") == 1


BROKEN = [
    ("1 / 0", "ZeroDivisionError: division by zero", 1),
    ("import nothing_of_the_sort", "ModuleNotFoundError: No module named 'nothing_of", 1),
    ("\nfrom broken_too import x", "RuntimeError: deeper", 3),
    ("raise SystemExit(3)", "SystemExit: 3", 1),
]


@pytest.mark.parametrize(("text", "cause", "line"), BROKEN)
def test_a_module_that_breaks(run: Run, folder: Path, text: str, cause: str, line: int) -> None:
    """A module that cannot be imported: the cause, and the line where it happened."""
    (folder / "broken.py").write_text(text)
    (folder / "broken_too.py").write_text("\n\nraise RuntimeError('deeper')")
    code, _, err = run("worker", "broken:app")
    assert code == 2
    assert err.startswith(f"iworkflow worker: cannot import 'broken': {cause}")
    assert err.endswith(f".py:{line})\n")


def test_a_syntax_error(run: Run, folder: Path) -> None:
    """A syntax error names its file and line."""
    (folder / "broken.py").write_text("\n\ndef (")
    _, _, err = run("worker", "broken:app")
    assert "SyntaxError: " in err
    assert "(broken.py, line 3)" in err


def test_worker_refuses_a_bad_grace(run: Run) -> None:
    """A grace that is no length of time is refused before the worker starts."""
    code, _, err = run("worker", "shop:app", "--grace=-1")
    assert (code, err) == (2, "iworkflow worker: grace must be 0 or more, not -1.0\n")


def test_verbose_shows_the_traceback(run: Run) -> None:
    """`--verbose` raises instead of telling."""
    with pytest.raises(Exception, match="names no app"):
        run("worker", "shop", "--verbose")


def test_dev_without_a_server(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dev` for an engine that has no server says so; so it does when none of them has."""
    assert run("dev", "--engine", "plain")[2] == (
        "iworkflow dev: engine 'plain' has no server for development\n"
    )
    monkeypatch.setattr(engines, "entry_points", lambda group: ())
    assert run("dev") == (
        2,
        "",
        (
            "iworkflow dev: no engine with a server for development (installed: 'memory'); run "
            '"pip install iworkflow-dbos[embedded]"\n'
        ),
    )


class Process:
    """The command in a process of its own."""

    def __init__(self, folder: Path, *words: str, **env: str) -> None:
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "iworkflow.core.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **env},
        )

    def wait_for(self, text: str) -> None:
        """Read stdout up to a line that holds the text."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if text in line:
                return
        raise AssertionError(f"the process ended without {text!r}: {self.end()}")

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def read_error(self) -> str:
        """Read one line of stderr."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def end(self) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=30)
        return self._process.returncode, out, err

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


Spawn = Callable[..., Process]


@pytest.fixture
def spawn(folder: Path) -> Iterator[Spawn]:
    """Start processes; what still runs at the end is killed."""
    started: list[Process] = []

    def start(*words: str, **env: str) -> Process:
        started.append(Process(folder, *words, **env))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_worker(spawn: Spawn, number: int) -> None:
    """The first signal lets the running step finish within the grace; the exit code is 0."""
    worker = spawn("worker", "shop:app", FLOW="busy", WORK="0.3")
    worker.wait_for("working")
    worker.send(number)
    code, out, err = worker.end()
    assert (code, out) == (0, "worked\n")
    assert err.splitlines()[0] == (
        "iworkflow worker: app 'office' on toy; flows: greet, refuse, hold, busy, tells; "
        "pools: paced=2; steps at once: 20"
    )
    stopping = "stopping; running steps have 10 s, a second signal ends at once"
    assert err.splitlines()[-1] == f"iworkflow worker: {stopping}"


def test_a_line_of_a_flow_names_its_run(spawn: Spawn) -> None:
    """What a flow logs is shown with the id of its run; what the worker logs, without one."""
    worker = spawn("worker", "shop:app", FLOW="tells", WORK="0", LOG="1")
    worker.wait_for("worked")
    worker.send(signal.SIGTERM)
    code, _, err = worker.end()
    assert code == 0
    assert " WARNING iworkflow.flow.tells [own]: charged 7\n" in err
    assert " WARNING iworkflow.toy: a line of the engine\n" in err


def test_the_grace_is_kept(spawn: Spawn) -> None:
    """A step that outlasts `--grace` is cancelled, and the worker stops all the same."""
    worker = spawn("worker", "shop:app", "--grace", "0.1", FLOW="busy")
    worker.wait_for("working")
    worker.send(signal.SIGTERM)
    code, out, err = worker.end()
    assert (code, out) == (0, "")
    assert "running steps have 0.1 s" in err


def test_a_deaf_step_holds_up_no_stop(spawn: Spawn) -> None:
    """A step that swallows every cancel is named and left behind; the exit code is 0."""
    worker = spawn("worker", "shop:app", "--grace", "0.1", FLOW="busy", DEAF="1")
    worker.wait_for("working")
    worker.send(signal.SIGTERM)
    code, out, err = worker.end()
    assert (code, out) == (0, "")
    assert "ends although this ignores its cancel: step work of own" in err


def test_a_second_signal_ends_at_once(spawn: Spawn) -> None:
    """The second signal ends the process while a step still runs; the exit code tells it."""
    worker = spawn("worker", "shop:app", FLOW="busy")
    worker.wait_for("working")
    worker.send(signal.SIGTERM)
    while "stopping" not in worker.read_error():
        pass
    worker.send(signal.SIGTERM)
    code, out, _ = worker.end()
    assert (code, out) == (128 + signal.SIGTERM, "")


def test_an_unreachable_server(spawn: Spawn) -> None:
    """A server that cannot be reached: the engine's own line, exit code 1, no traceback."""
    worker = spawn("worker", "shop:app", UNREACHABLE="1")
    assert worker.end() == (
        1,
        "",
        'iworkflow worker: cannot reach toy at here (refused); run "iworkflow dev"\n',
    )


def test_a_broken_worker(spawn: Spawn) -> None:
    """What breaks the worker stops it and ends the command with 1: in a line if the engine tells
    it so, and with its traceback if it is a bug."""
    code, out, err = spawn("worker", "shop:app", FLOW="hold", BROKEN="os").end()
    assert (code, err.splitlines()[-1]) == (1, "iworkflow worker: the database is gone")
    assert out == "worker stopped\n"
    assert "Traceback" not in err
    code, _, err = spawn("worker", "shop:app", FLOW="hold", BROKEN="key").end()
    assert (code, err.splitlines()[-1]) == (1, "KeyError: 'a bug'")


def test_dev_serves_until_a_signal(spawn: Spawn) -> None:
    """`dev` prints where the server is and what to set, and stops it at the signal."""
    dev = spawn("dev", "--engine", "toy")
    dev.wait_for("toy server at here")
    dev.wait_for("export TOY=here")
    assert dev.read_error() == "iworkflow dev: running; Ctrl-C stops it\n"
    dev.send(signal.SIGINT)
    assert dev.end() == (0, "toy server stopped\n", "")


def test_ctrl_c_while_waiting(spawn: Spawn) -> None:
    """Ctrl-C of a `start --wait` ends the wait with 130 and no traceback."""
    start = spawn("start", "office/hold", "--id=x", "--wait")
    assert start.read_error() == "x created\n"
    start.send(signal.SIGINT)
    assert start.end() == (130, "", "")
