"""What cannot be carried, is not known or does not fit: refused early, and by its name."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from typing import Any

import pytest

from iworkflow.core import Failure, FlowError, Handle, Reason, Target
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, dumps
from iworkflow.core.errors import ErrorData
from iworkflow_lab.apps import negative
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.negative:app"
NARROW, WIDE = "iworkflow_lab.apps.versions.narrow:app", "iworkflow_lab.apps.versions.wide:app"
MIB = negative.MIB
BAD = {"items": [1, negative.Opaque()]}


def target(flow: str) -> Target[Any]:
    """Name a flow of the negative app."""
    return Target("negative", flow)


async def missing(arena: Arena, run: str) -> bool:
    """Tell whether there is no run of the id."""
    try:
        await arena.client.handle(run).describe()
    except FlowError as error:
        return error.reason == "not-found"
    return False


async def outcome(handle: Handle[Any]) -> FlowError:
    """Wait for a run that fails, and return its error."""
    with pytest.raises(FlowError) as raised:
        await handle.result(timeout=30)
    return raised.value


async def test_N01_an_argument_that_cannot_be_encoded(shared: Shared) -> None:
    """Each call of the client raises `TypeError`: argument, path, type; nothing is started."""
    arena = await shared.arena_of(APP)
    named = r"\['items'\]\[1\].*Opaque"
    with pytest.raises(TypeError, match=r"flow 'idle'.*" + named):
        await arena.client.start(target("idle"), BAD, id="n01-idle")
    with pytest.raises(TypeError, match=r"flow 'idle'.*" + named):
        await arena.client.signal_with_start(
            target("idle"), BAD, id="n01-idle", topic="mail", value=1
        )
    with pytest.raises(TypeError, match=r"topic 'mail'.*" + named):
        await arena.client.signal_with_start(target("idle"), id="n01-idle", topic="mail", value=BAD)
    with pytest.raises(TypeError, match=r"topic 'mail'.*" + named):
        await arena.client.handle("n01-idle").signal("mail", BAD)
    assert await missing(arena, "n01-idle")
    assert arena.log.begun("n01-idle") == {}


async def test_N01_an_argument_inside_a_flow(shared: Shared) -> None:
    """Each call of the context does the same, and the flow may catch it and go on."""
    arena = await shared.arena_of(APP)
    told = await (await arena.client.start(target("opaque_arguments"), id="n01")).result(timeout=20)
    wheres = ["step 'echo'", "flow 'idle'", "flow 'idle'", "state 'state'", "topic 'mail'"]
    for (kind, message), where in zip(told, wheres, strict=True):
        assert kind == "TypeError"
        assert where in message
        assert "['items'][1]" in message
        assert "Opaque" in message
    assert await missing(arena, "n01-child")
    assert arena.log.ended("n01") == {("noted", "went on"): 1}


async def test_N02_a_result_that_cannot_be_encoded(shared: Shared) -> None:
    """A step's result, or a flow's, that cannot be encoded: a final failure, `EncodeError`."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("opaque_result"), id="n02")
    kind, message, *rest = await handle.result(timeout=20)
    assert (kind, rest) == ("FlowError", ["failed", "EncodeError", False])
    assert "step 'opaque'" in message
    assert "['items'][1]" in message
    assert arena.log.ended("n02") == {("opaque", "opaque"): 1}
    error = await outcome(await arena.client.start(target("opaque_outcome"), id="n02-outcome"))
    assert (error.reason, error.type) == ("failed", "EncodeError")
    assert "['items'][1]" in str(error)
    assert arena.log.ended("n02-outcome") == {("noted", "before"): 1}


async def test_N03_more_than_a_payload(shared: Shared) -> None:
    """3 MiB are `PayloadTooLarge` wherever they are given; nearly 2 MiB pass."""
    arena = await shared.arena_of(APP)
    much = "x" * 3 * MIB
    for call in (
        arena.client.start(target("idle"), much, id="n03-idle"),
        arena.client.signal_with_start(target("idle"), id="n03-idle", topic="mail", value=much),
        arena.client.handle("n03-idle").signal("mail", much),
    ):
        with pytest.raises(Failure) as raised:
            await call
        assert raised.value.type == "PayloadTooLarge"
    assert await missing(arena, "n03-idle")
    handle = await arena.client.start(target("sizes"), id="n03")
    told = await handle.result(timeout=60)
    assert told.pop("fits") is True
    assert await handle.query("fits") == "x" * (2 * MIB - 4096)
    result = told.pop("result")
    assert result[2:] == ["failed", "PayloadTooLarge", False]
    assert [(kind, type) for kind, _, type in told.values()] == [
        ("Failure", "PayloadTooLarge"),
    ] * 4
    assert await missing(arena, "n03-child")
    assert arena.log.ended("n03") == {("big", "big"): 1, ("echo", "echo"): 1}
    error = await outcome(await arena.client.start(target("big_outcome"), id="n03-outcome"))
    assert (error.reason, error.type) == ("failed", "PayloadTooLarge")
    assert arena.log.ended("n03-outcome") == {("noted", "before"): 1}


async def test_N03_to_the_last_byte(shared: Shared) -> None:
    """What has the limit's size passes in every position, with what an engine adds to it."""
    arena = await shared.arena_of(APP)
    value = "x" * (DEFAULT_MAX_PAYLOAD - len('[""]'))
    message = "x" * (DEFAULT_MAX_PAYLOAD - len('""'))
    handle = await arena.client.start(target("brims"), value, id="n03-brim")
    await handle.signal("mail", message)
    assert await handle.result(timeout=60) == value
    assert await handle.query("brim") == message
    rest = ErrorData("too much", Reason.FAILED, "Brim", "").to_json()
    size = DEFAULT_MAX_PAYLOAD - len(dumps(rest))
    error = await outcome(await arena.client.start(target("breaks"), size, id="n03-breaks"))
    assert (error.type, error.details) == ("Brim", "x" * size)


async def test_N03_a_report_and_an_error(shared: Shared) -> None:
    """A heartbeat and an error of the largest size pass in one attempt, and the next reads it."""
    arena = await shared.arena_of(APP)
    size = DEFAULT_MAX_PAYLOAD - len('""')
    handle = await arena.client.start(target("beats"), size, size - 1000, id="n03-beats")
    assert await handle.result(timeout=60) == size
    attempts = {("reports", f"attempt {number}"): 1 for number in (1, 2, 3)}
    assert arena.log.begun("n03-beats") == attempts


async def test_N03_many_at_once(shared: Shared) -> None:
    """Ten steps and ten children at once, half a MiB each: what passes alone passes together."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("crowds"), 10, 0.5, id="n03-crowds")
    assert await handle.result(timeout=90) == [*range(10)] * 3
    assert arena.log.ended("n03-crowds") == {("echo", "echo"): 10}


async def test_N04_a_nul_byte(shared: Shared) -> None:
    """A NUL inside a string comes back from every position, as a key too."""
    arena = await shared.arena_of(APP)
    text = "a\0b\\u0000\0"
    handle = await arena.client.start(target("nuls"), text, id="n04")
    await handle.signal("mail", {text: [text]})
    told = await handle.result(timeout=20)
    assert told == {
        "arg": text,
        "step": {text: [text]},
        "failed": ["FlowError", text, "failed", text, False],
        "message": {text: [text]},
        "child": [text],
    }
    assert await handle.query("state") == {text: [text]}
    assert arena.log.ended("n04") == {("echo", "echo"): 1, ("refuse", "refuse"): 1}
    error = await outcome(await arena.client.start(target("nul_failure"), text, id="n04-failure"))
    assert (str(error), error.type, error.details) == (text, text, {text: text})
    assert arena.log.ended("n04-failure") == {("noted", "before"): 1}


async def test_N05_a_flow_that_no_worker_knows(shared: Shared) -> None:
    """A flow that this worker does not know waits, is logged, and runs on one that knows it."""
    arena = await shared.arena_of(NARROW)
    later: Target[str] = Target("hints", "later")
    handle = await arena.client.start(later, "n05-done", id="n05")

    def said() -> bool:
        return any(
            all(name in line for name in ("'n05'", "'later'", "'reads'", "'takes'"))
            for line in arena.printed().splitlines()
        )

    await until(said, "the worker says what it does not know, and what it knows")
    assert (await handle.describe()).status == "running"
    arena.let_go("n05-known.gate")
    known = await arena.client.start(Target("hints", "takes"), "x", id="n05-known")
    assert await known.result(timeout=20) == ["x", "gate"]
    await shared.arena_of(WIDE)
    assert await handle.result(timeout=90) == "n05-done"
    assert arena.log.ended("n05") == {("make", "n05-done"): 1}
    await shared.stop(WIDE)
    await shared.stop(NARROW)


async def test_N06_an_unknown_step(shared: Shared) -> None:
    """An unknown step or pool raises `ValueError` with what there is; a flow may catch it."""
    arena = await shared.arena_of(APP)
    told = await (await arena.client.start(target("unknown_names"), id="n06")).result(timeout=20)
    assert [kind for kind, _ in told] == ["ValueError"] * 3
    assert "'ecko'" in told[0][1]
    assert "did you mean 'echo'" in told[0][1]
    assert "'pacd'" in told[1][1]
    assert "did you mean 'paced'" in told[1][1]
    assert "stranger" in told[2][1]
    assert arena.log.ended("n06") == {("noted", "went on"): 1}
    error = await outcome(await arena.client.start(target("unknown_uncaught"), id="n06-uncaught"))
    assert (error.reason, error.type) == ("failed", "ValueError")
    assert "'ecko'" in str(error)
    assert arena.log.ended("n06-uncaught") == {("noted", "before"): 1}


async def test_N07_wrong_arguments(shared: Shared) -> None:
    """Arguments that do not fit raise `TypeError` at the call, and nothing is started."""
    arena = await shared.arena_of(APP)
    typed: Any = negative.app.target("typed")
    for args in [(), ("a", 1, 2), (7,), ("a", "b")]:
        with pytest.raises(TypeError, match="flow 'typed'"):
            await arena.client.start(typed, *args, id="n07-typed")
        with pytest.raises(TypeError, match="flow 'typed'"):
            await arena.client.signal_with_start(
                typed, *args, id="n07-typed", topic="mail", value=1
            )
    assert await missing(arena, "n07-typed")
    handle = await arena.client.start(target("wrong_arguments"), id="n07")
    told = await handle.result(timeout=20)
    assert [kind for kind, _ in told] == ["TypeError"] * 5
    for (_, message), where in zip(told, ["step 'noted'"] * 3 + ["flow 'typed'"] * 2, strict=True):
        assert where in message
    assert "'key'" in told[0][1]
    assert await missing(arena, "n07-child")
    assert arena.log.ended("n07") == {("noted", "went on"): 1}
    fits = await arena.client.start(typed, "fits", 2, id="n07-fits")
    assert await fits.result(timeout=20) == "fitsfits"


async def test_N08_a_value_that_no_longer_fits(shared: Shared) -> None:
    """Hints changed since a value was stored: `DecodeError` names path and hint, once."""
    arena = await shared.arena_of(NARROW)
    runs = {
        flow: await arena.client.start(Target("hints", flow), *args, id=f"n08-{flow}")
        for flow, args in {"reads": ("x",), "receives": ()}.items()
    }
    for run in runs.values():
        await held(arena, run.id, "gate")
    for message in ("text", 7):
        await runs["receives"].signal("mail", message)
    await shared.stop(NARROW)
    takes: Target[Any] = Target("hints", "takes")
    runs["takes"] = await arena.client.start(takes, "text", id="n08-takes")
    await shared.arena_of(WIDE)
    for run in runs.values():
        arena.let_go(f"{run.id}.gate")
    made, *rest = await runs["reads"].result(timeout=30)
    assert rest == ["x", "gate"]
    type, message, details = made
    assert type == "DecodeError"
    assert "step 'make'" in message
    assert "items[1]" in message
    assert "items[1]" in details["path"]
    assert "Made" in details["hint"]
    assert arena.log.ended("n08-reads") == {("make", "made"): 1, ("held", "gate"): 1}
    error = await outcome(runs["takes"])
    assert (error.reason, error.type) == ("failed", "DecodeError")
    assert "value" in str(error)
    assert "int" in str(error)
    assert arena.log.begun("n08-takes") == {}
    (kind, said), second = await runs["receives"].result(timeout=30)
    assert kind == "DecodeError"
    assert "topic 'mail'" in said
    assert second == 7
    with pytest.raises(Failure) as raised:
        await runs["receives"].result(result_type=list[int])
    assert raised.value.type == "DecodeError"
    assert arena.log.ended("n08-receives") == {("held", "gate"): 1}
    await shared.stop(WIDE)
