"""Steps: attempts, waits, final errors, what an error carries, heartbeats."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from iworkflow.core import FlowError, Reason
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, begin, gaps, keys, lines, target, tell
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until


async def test_S02_none_replays_as_none(arena: Arena) -> None:
    """A recorded None is a result, of a step or a child: after a KILL nothing is run again."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("returns_none"), id="s02")
    await held(arena, "s02", "after")
    assert await arena.store.steps("s02") == 3
    await kill(arena, worker, "s02")
    await arena.worker(APP)
    await held(arena, "s02", "after")
    assert await handle.query("nothing") == [None] * 4
    arena.let_go("s02.after")
    assert await handle.result(timeout=20) == [None, None, None, None, "after"]
    assert await arena.client.handle("s02-child").result(timeout=20) is None
    once = {("nothing", "nothing"): 1, ("echo_absent", "absent"): 1, ("sync_nothing", "nothing"): 1}
    assert arena.log.begun("s02") == once | {("work", "after"): 2}
    assert arena.log.begun("s02-child") == {("nothing", "nothing"): 1}


async def test_S03_the_third_attempt_works(shared: Shared) -> None:
    """Two failures, three attempts: the result, and each attempt knows its number."""
    assert await tell(shared, "s03", "flaky", 2, attempts=3, retry_interval=0.05) == 3
    assert keys(shared, "s03") == ["1", "2", "3"]


async def test_S04_attempts_run_out(shared: Shared) -> None:
    """A step that always fails is tried as often as allowed; its error says `exhausted`."""
    told = await tell(shared, "s04", "flaky", 99, attempts=4, retry_interval=0.05)
    assert told == {
        "type": "Refused",
        "message": "attempt 4 of s04",
        "reason": "failed",
        "exhausted": True,
        "details": None,
    }
    assert keys(shared, "s04") == ["1", "2", "3", "4"]


async def test_S05_one_attempt(shared: Shared) -> None:
    """With attempts=1 a step that fails is not tried again, and its attempts are exhausted."""
    told = await tell(shared, "s05", "flaky", 99, attempts=1)
    assert (told["reason"], told["exhausted"]) == ("failed", True)
    assert keys(shared, "s05") == ["1"]


async def test_S06_waits_grow(shared: Shared) -> None:
    """An interval of 0.2 s and a backoff of 2: the waits are at least 0.2 s and 0.4 s."""
    assert await tell(shared, "s06", "flaky", 2, retry_interval=0.2, backoff=2) == 3
    first, second = gaps(shared, "s06")
    assert first >= 0.2
    assert second >= 0.4


async def test_S06_the_first_wait_is_the_interval(shared: Shared) -> None:
    """Growth begins with the second wait: the first is as long as the interval."""
    options = {"attempts": 2, "retry_interval": 0.2, "backoff": 100}
    assert await tell(shared, "s06-first", "flaky", 1, **options) == 2
    (gap,) = gaps(shared, "s06-first")
    assert 0.2 <= gap < 10
    assert keys(shared, "s06-first") == ["1", "2"]


async def test_S07_waits_are_capped(shared: Shared) -> None:
    """Without the maximum the second wait would be 6 s and the third 180 s."""
    options = {"attempts": 4, "retry_interval": 0.2, "backoff": 30, "max_retry_interval": 0.3}
    assert await tell(shared, "s07", "flaky", 3, **options) == 4
    first, *later = gaps(shared, "s07")
    assert first >= 0.2
    assert all(0.3 <= gap < 6 for gap in later), later


async def test_S08_total_timeout_ends_retries(shared: Shared) -> None:
    """A second for everything: an endless failure ends as `timeout`; no attempt comes later."""
    options = {"attempts": None, "retry_interval": 0.3, "total_timeout": 1}
    told = await tell(shared, "s08", "flaky", 99, **options)
    made = keys(shared, "s08")
    assert told["reason"] == "timeout"
    assert (told["type"], told["exhausted"]) == ("Refused", False)
    assert f"attempt {len(made)} of s08" in told["message"]
    begun = [effect.at for effect in lines(shared, "s08", "begin")]
    assert 2 <= len(begun) <= 4
    assert begun[-1] - begun[0] <= 1
    assert await tell(shared, "s08-later", "flaky", 2, retry_interval=0.3) == 3
    assert keys(shared, "s08") == made


async def test_S09_a_hanging_attempt_is_cancelled(shared: Shared) -> None:
    """An attempt over its timeout is cancelled and told why; the second one works."""
    before = time.time()
    assert await tell(shared, "s09", "hangs", 1, timeout=0.4, retry_interval=0.05) == 2
    (cancel,) = lines(shared, "s09", "cancel")
    begun = lines(shared, "s09", "begin")
    assert (cancel.key, cancel.result) == ("1", "timeout")
    assert before + 0.4 <= cancel.at < begun[0].at + 1.4
    assert [effect.key for effect in begun] == ["1", "2"]


async def test_S10_all_attempts_hang(shared: Shared) -> None:
    """Attempts that all take too long: reason `timeout`, and exhausted."""
    before = time.time()
    told = await tell(shared, "s10", "hangs", 9, timeout=0.3, attempts=2, retry_interval=0.05)
    assert (told["reason"], told["exhausted"]) == ("timeout", True)
    cancels, begun = lines(shared, "s10", "cancel"), lines(shared, "s10", "begin")
    assert [effect.key for effect in cancels] == ["1", "2"]
    ends = [cancel.at for cancel in cancels]
    assert all(end - start >= 0.3 for start, end in itertools.pairwise([before, *ends]))
    assert all(end - effect.at < 1.3 for effect, end in zip(begun, ends, strict=True))


@pytest.mark.parametrize("names", [["Refused"], ["KeyError", "Refused"], ["Exception"]])
async def test_S11_a_listed_type_is_final(shared: Shared, names: list[str]) -> None:
    """An exception whose class, or a base of it, is listed by name is not tried again."""
    run = f"s11-{'-'.join(names)}"
    told = await tell(shared, run, "refuse", "plain", non_retryable_types=names)
    assert (told["type"], told["reason"], told["exhausted"]) == ("Refused", "failed", False)
    assert keys(shared, run) == ["plain"]


async def test_S11_a_failure_type_is_listed(shared: Shared) -> None:
    """A `Failure` is known by its type as well; one that is not listed is tried again."""
    told = await tell(shared, "s11-type", "refuse", "benign", non_retryable_types=["Expected"])
    assert (told["type"], told["exhausted"]) == ("Expected", False)
    assert len(keys(shared, "s11-type")) == 1
    other = {"non_retryable_types": ["Other"], "attempts": 2, "retry_interval": 0.05}
    told = await tell(shared, "s11-other", "refuse", "benign", **other)
    assert (told["type"], told["exhausted"]) == ("Expected", True)
    assert len(keys(shared, "s11-other")) == 2


async def test_S12_a_non_retryable_failure_is_final(shared: Shared) -> None:
    """A failure that says so ends the step at once, with its type and details."""
    told = await tell(shared, "s12", "refuse", "final")
    assert told == {
        "type": "Final",
        "message": "refused to s12",
        "reason": "failed",
        "exhausted": False,
        "details": {"why": [1, "two"]},
    }
    assert keys(shared, "s12") == ["final"]


@pytest.mark.parametrize("kind", ["plain", "subclass"])
async def test_S13_a_subclass_of_a_listed_type_is_final(shared: Shared, kind: str) -> None:
    """A class given as a class stands for its subclasses, too."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("tell_class"), kind, id=f"s13-{kind}")
    told = await handle.result(timeout=20)
    name = {"plain": "Refused", "subclass": "RefusedTwice"}[kind]
    assert (told["type"], told["exhausted"]) == (name, False)
    assert keys(shared, f"s13-{kind}") == [kind]


async def test_S14_retry_after_replaces_the_wait(shared: Shared) -> None:
    """A failure that asks for a second gets it, in place of the step's own short wait."""
    told = await tell(shared, "s14", "refuse", "in a second", attempts=2, retry_interval=0.05)
    assert (told["type"], told["exhausted"]) == ("Busy", True)
    (gap,) = gaps(shared, "s14")
    assert 1 <= gap < 2


async def test_S14_retry_after_may_be_shorter(shared: Shared) -> None:
    """It replaces a longer wait as well."""
    begun = time.time()
    told = await tell(shared, "s14-short", "refuse", "in a second", attempts=2, retry_interval=30)
    assert told["exhausted"] is True
    assert time.time() - begun < 15
    assert gaps(shared, "s14-short")[0] >= 1


async def test_S15_retry_after_past_the_total(shared: Shared) -> None:
    """If the wait asked for would pass `total_timeout`, the step fails now, not then."""
    begun = time.time()
    told = await tell(shared, "s15", "refuse", "in a minute", total_timeout=20)
    assert time.time() - begun < 10
    assert (told["reason"], told["type"]) == ("timeout", "Busy")
    assert (told["details"], told["exhausted"]) == ({"n": 1}, False)
    assert keys(shared, "s15") == ["in a minute"]


async def test_S16_a_benign_failure_is_not_logged(shared: Shared) -> None:
    """The same outcome as any failure; neither the engine nor we log an error of it."""
    told: dict[str, Any] = {}
    for kind in ("benign", "not benign"):
        run = f"s16-{kind.replace(' ', '-')}"
        told[kind] = await tell(shared, run, "refuse", kind, attempts=2, retry_interval=0.05)
        assert len(keys(shared, run)) == 2
        told[kind].pop("message")
    assert told["benign"] == told["not benign"]
    await until(lambda: "s16-not-benign" in shared.arena.printed(), "an error is logged")
    assert "s16-benign" not in shared.arena.printed()


@pytest.mark.parametrize("flow", ["run", "refuses"])
async def test_S16_a_run_fails_of_a_benign_failure(shared: Shared, flow: str) -> None:
    """A run that fails of one, by a step or by itself, is not logged as an error either."""
    arena = await shared.arena_of(APP)
    run = f"s16-{flow}"
    args: list[Any] = [True] if flow == "refuses" else ["refuse", ["benign"], {"attempts": 1}]
    handle = await arena.client.start(target(flow), *args, id=run)
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    assert (caught.value.reason, caught.value.type) == (Reason.FAILED, "Expected")
    assert keys(shared, run) == ([] if flow == "refuses" else ["benign"])
    assert run not in arena.printed()


@pytest.mark.parametrize("kind", ["final", "plain"])
async def test_S17_a_caught_failure_replays(arena: Arena, kind: str) -> None:
    """A failure that a flow caught is caught again after a KILL: same type, details, reason."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("catches"), kind, id="s17")
    await held(arena, "s17", "after")
    before = await handle.query("caught")
    await kill(arena, worker, "s17")
    await arena.worker(APP)
    await held(arena, "s17", "after")
    arena.let_go("s17.after")
    assert await handle.result(timeout=20) == before
    assert before["type"] == {"final": "Final", "plain": "Refused"}[kind]
    assert before["details"] == {"final": {"why": [1, "two"]}, "plain": None}[kind]
    assert before["exhausted"] is (kind == "plain")
    made = {"final": 1, "plain": 2}[kind]
    assert arena.log.begun("s17") == {("refuse", kind): made, ("work", "after"): 2}


CHAINS = {
    "three": [("Costly", "12 EUR"), ("Missing", "no such lead"), ("KeyError", "'lead-7'")],
    "cycle": [("ValueError", "first"), ("RuntimeError", "second")],
    "itself": [("ValueError", "myself")],
    "context": [("ValueError", "above"), ("KeyError", "'below'")],
}


def flattened(told: dict[str, Any]) -> list[tuple[str, str]]:
    """Return type and message of an error and of its causes."""
    below = told.get("cause")
    return [(told["type"], told["message"]), *(flattened(below) if below else [])]


@pytest.mark.parametrize("kind", CHAINS)
async def test_S18_causes_survive(shared: Shared, kind: str) -> None:
    """The flow sees the causes of a failure, with their details; a cycle of them is cut."""
    told = await tell(shared, f"s18-{kind}", "chained", kind, attempts=1)
    assert flattened(told) == CHAINS[kind]
    if kind == "three":
        assert told["cause"]["details"] == {"id": 7}
    assert keys(shared, f"s18-{kind}") == [kind]


@pytest.mark.parametrize("kind", CHAINS)
async def test_S18_causes_reach_the_client(shared: Shared, kind: str) -> None:
    """A run that fails of it hands them on to whoever waits for its result."""
    arena = await shared.arena_of(APP)
    run = f"s18-client-{kind}"
    handle = await begin(arena, run, "chained", kind, flow="run", attempts=1)
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    chain: list[tuple[str, str]] = []
    error: BaseException | None = caught.value
    while isinstance(error, FlowError):
        chain.append((str(error.type), error.message))
        error = error.__cause__
    assert chain == CHAINS[kind]
    assert keys(shared, run) == [kind]


async def test_S18_a_group_tells_its_members(shared: Shared) -> None:
    """An exception group out of a TaskGroup fails the step; its message names the members."""
    told = await tell(shared, "s18-group", "chained", "group", attempts=1)
    assert told["type"] == "ExceptionGroup"
    assert "Left: left" in told["message"]
    assert "Refused: right" in told["message"]
    assert (told["cause"]["type"], told["cause"]["details"]) == ("Left", [1])
    assert keys(shared, "s18-group") == ["group"]


async def test_S19_a_heartbeat_reaches_the_next_attempt(shared: Shared) -> None:
    """The first attempt reads None; the next ones what was reported last, also by a silent one.

    What an attempt reads does not change by what it reports itself.
    """
    assert await tell(shared, "s19", "reports", attempts=3, retry_interval=0.05) == [3, 7]
    first = ["1 read None", "1 reported, and reads None"]
    assert keys(shared, "s19") == [*first, "2 read 7", "3 read 7"]


async def test_S20_a_silent_attempt_is_retried(shared: Shared) -> None:
    """An attempt that stops beating is cancelled and retried; beats kept it alive before."""
    options = {"heartbeat_timeout": 0.5, "retry_interval": 0.05}
    assert await tell(shared, "s20", "silent", 8, **options) == 3
    cancels = lines(shared, "s20", "cancel")
    begun = lines(shared, "s20", "begin")
    assert [(e.key, e.result) for e in cancels] == [(n, "heartbeat-timeout") for n in "12"]
    assert all(1.2 <= cancels[n].at - begun[n].at < 2.7 for n in (0, 1))


async def test_S20_the_last_one_times_out(shared: Shared) -> None:
    """If no attempt is left, the step failed of a timeout, exhausted."""
    options = {"heartbeat_timeout": 0.3, "attempts": 2, "retry_interval": 0.05}
    told = await tell(shared, "s20-last", "silent", 0, **options)
    assert (told["reason"], told["exhausted"]) == ("timeout", True)
    assert keys(shared, "s20-last", "cancel") == ["1", "2"]


async def test_S35_attempts_without_limit(shared: Shared) -> None:
    """With attempts=None a step is tried until it works, far past the default."""
    assert await tell(shared, "s35", "flaky", 12, attempts=None, retry_interval=0.01) == 13
    assert keys(shared, "s35") == [str(n) for n in range(1, 14)]


async def test_S36_defaults(shared: Shared) -> None:
    """Without options: 3 attempts, 0.2 s apart without growth, and 60 s for each."""
    told = await tell(shared, "s36", "flaky", 99)
    assert told["exhausted"] is True
    assert keys(shared, "s36") == ["1", "2", "3"]
    assert all(0.2 <= gap < 1.5 for gap in gaps(shared, "s36"))
    facts = await tell(shared, "s36-facts", "facts")
    assert 50 < facts["left"] <= 60


async def test_S36_waits_do_not_grow(shared: Shared) -> None:
    """Without a backoff, the fifth wait is as long as the first."""
    assert await tell(shared, "s36-flat", "flaky", 5, attempts=6) == 6
    waits = gaps(shared, "s36-flat")
    assert len(waits) == 5
    assert min(waits) >= 0.2
    assert waits[-1] < 0.2 * 2**4


async def test_S36_facts(shared: Shared) -> None:
    """A step is told its run, app, flow, name, attempt, pool and deadline."""
    facts = await tell(shared, "s36-more", "facts", timeout=100, pool="two", retry_interval=0.05)
    left = facts.pop("left")
    assert 90 < left <= 100
    assert facts == {
        "workflow_id": "s36-more",
        "app": "steps",
        "flow": "tell",
        "step": "facts",
        "attempt": 2,
        "pool": "two",
        "run_id": True,
    }
    assert keys(shared, "s36-more") == ["1", "2"]
