"""All attempts of the steps of one worker process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.core.errors import ErrorData
from iworkflow.core.port import Outcome, RunInfo, RunStep
from iworkflow.core.steps.attempt import Returned, run_attempt
from iworkflow.core.steps.book import AttemptBook, AttemptState, BeatWriter
from iworkflow.core.steps.clock import Clock
from iworkflow.core.steps.describe import StepError
from iworkflow.core.steps.report import report_final, report_retry
from iworkflow.core.steps.retry import GiveUp, decide, out_of_time
from iworkflow.core.steps.scope import StepInfo, StepScope
from iworkflow.core.steps.slots import Slot, Slots
from iworkflow.core.steps.threads import StepThreads

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition, StepDefinition


@dataclass(frozen=True, slots=True)
class Attempted:
    """What an attempt led to: the step's outcome, or the state that another one goes on from."""

    state: AttemptState
    outcome: Outcome | None = None
    benign: bool = False
    """Whether the attempt failed as expected: nothing is logged as an error."""


class StepRunner:
    """Runs the steps of an app in this process: one for each worker.

    At most `app.max_concurrent_steps` attempts run at once, and of each pool as many as it
    allows; waiting ones go by priority, then first come. A step holds its slot while an attempt
    runs, not between attempts. An attempt that does not end when it is cancelled (a sync step
    that blocks) keeps its slot until it ends.

    Args:
        app: the definition.
        clock: by which steps wait between attempts and `total_timeout` counts. Attempts are
            timed by the wall clock.
        max_payload: how large a result may be, in encoded bytes.
    """

    def __init__(
        self, app: AppDefinition, *, clock: Clock, max_payload: int = DEFAULT_MAX_PAYLOAD
    ) -> None:
        self.app = app
        self.clock = clock
        self.max_payload = max_payload
        self.slots = Slots(app.max_concurrent_steps, app.pools)
        self.threads = StepThreads()
        self.attempts = _Attempts()

    @property
    def running(self) -> int:
        """How many slots are taken: attempts that run, or did not end when they were told to."""
        return self.slots.held

    async def run(self, operation: RunStep, run: RunInfo, book: AttemptBook) -> Outcome:
        """Run a step with its attempts, from where its book says it is.

        The book is written when an attempt failed and another one follows, and while one
        beats; a step that succeeds at once writes nothing. A cancel cancels the attempt that
        runs and writes what it reported last.

        Raises:
            LookupError: the code of this worker has no such step.
        """
        return await self._step_run(operation, run, book).outcome()

    async def attempt(
        self, operation: RunStep, run: RunInfo, book: AttemptBook, state: AttemptState
    ) -> Attempted:
        """Make the next attempt of a step, for an engine that waits between them itself.

        It waits for a slot, not for `state.next_at`. The book is written while the attempt
        beats, and when it is cancelled; `Attempted.state` is left to the caller.

        Raises:
            LookupError: the code of this worker has no such step.
        """
        return await self._step_run(operation, run, book).attempt(state)

    def _step_run(self, operation: RunStep, run: RunInfo, book: AttemptBook) -> _StepRun:
        step = self.app.activities.get(operation.name)
        if step is None:
            known = ", ".join(repr(name) for name in self.app.activities)
            raise LookupError(
                f"step {operation.name!r} of run {run.workflow_id!r} is not in app "
                f"{self.app.app!r} (steps: {known}); this worker's code does not fit the run"
            )
        return _StepRun(self, step, operation, run, book)

    async def drain(self, grace: float) -> bool:
        """Start no new attempt, and wait up to `grace` seconds for those that run.

        Steps that would need another attempt wait until they are cancelled.

        Returns:
            Whether all attempts ended.
        """
        self.slots.freeze()
        try:
            async with asyncio.timeout(grace):
                await self.attempts.none.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Start no new attempt and let the threads go. Waits for nothing."""
        self.slots.freeze()
        self.threads.close()


class _Attempts:
    """Counts the attempts that somebody waits for; `none` is set while there are none."""

    def __init__(self) -> None:
        self._count = 0
        self.none = asyncio.Event()
        self.none.set()

    def __enter__(self) -> None:
        self._count += 1
        self.none.clear()

    def __exit__(self, *raised: object) -> None:
        self._count -= 1
        if not self._count:
            self.none.set()


@dataclass(frozen=True, slots=True)
class _StepRun:
    runner: StepRunner
    step: StepDefinition
    operation: RunStep
    run: RunInfo
    book: AttemptBook

    async def outcome(self) -> Outcome:
        state = await self.book.load()
        if state is None:
            state = AttemptState(made=0, first_at=self.runner.clock.now())
        while True:
            await self._until_due(state)
            made = await self.attempt(state)
            if made.outcome is not None:
                return made.outcome
            await self.book.save(made.state)
            state = made.state

    async def attempt(self, state: AttemptState) -> Attempted:
        slot = await self._slot(state)
        if slot is None:
            return Attempted(state, Outcome(error=self._out_of_time(state)))
        result, state = await self._attempt(slot, state)
        if isinstance(result, Returned):
            return Attempted(state, Outcome(result.value))
        following = self._following(state, result)
        if isinstance(following, ErrorData):
            return Attempted(state, Outcome(error=following), benign=result.benign)
        return Attempted(following, benign=result.benign)

    async def _until_due(self, state: AttemptState) -> None:
        if state.next_at is not None:
            left = state.next_at - self.runner.clock.now()
            if left > 0:
                await self.runner.clock.sleep(left)

    async def _slot(self, state: AttemptState) -> Slot | None:
        """Wait for a slot; None once `total_timeout` is over."""
        policy, slots = self.operation.policy, self.runner.slots
        if policy.total_timeout is None:
            return await slots.acquire(policy.pool, policy.priority)
        left = state.first_at + policy.total_timeout - self.runner.clock.now()
        if left < 0:
            return None
        slot = slots.take(policy.pool)
        if slot is not None:
            return slot
        return await self._slot_within(left)

    async def _slot_within(self, left: float) -> Slot | None:
        policy, slots = self.operation.policy, self.runner.slots
        taking = asyncio.ensure_future(slots.acquire(policy.pool, policy.priority))
        timer = asyncio.ensure_future(self.runner.clock.sleep(left))
        try:
            await asyncio.wait({taking, timer}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            taking.add_done_callback(_give_back)
            raise
        finally:
            timer.cancel()
            taking.cancel()
        if taking.done():
            return taking.result()
        timer.result()
        return None

    async def _attempt(
        self, slot: Slot, state: AttemptState
    ) -> tuple[Returned | StepError, AttemptState]:
        writer = BeatWriter(self.book, state)
        scope = StepScope(
            self._info(state),
            previous=state.heartbeat,
            on_beat=writer.beat,
            max_payload=self.runner.max_payload,
        )
        with self.runner.attempts:
            try:
                result = await self._one(scope, slot)
            except asyncio.CancelledError:
                await writer.stop(flush=True)
                raise
            await writer.stop(flush=False)
        return result, replace(state, made=state.made + 1, heartbeat=scope.latest)

    async def _one(self, scope: StepScope, slot: Slot) -> Returned | StepError:
        return await run_attempt(
            self.step,
            self.operation.args,
            scope,
            policy=self.operation.policy,
            threads=self.runner.threads,
            max_payload=self.runner.max_payload,
            on_end=slot.release,
        )

    def _following(self, state: AttemptState, failed: StepError) -> AttemptState | ErrorData:
        policy, now = self.operation.policy, self.runner.clock.now()
        elapsed = now - state.first_at
        decision = decide(policy, attempt=state.made, elapsed=elapsed, error=failed)
        info = self._info(replace(state, made=state.made - 1))
        if isinstance(decision, GiveUp):
            report_final(info, failed, decision.error)
            return decision.error
        report_retry(info, policy, failed, decision.delay)
        return replace(state, next_at=now + decision.delay, error=failed.error)

    def _out_of_time(self, state: AttemptState) -> ErrorData:
        error = out_of_time(self.operation.policy, state.made, state.error)
        report_final(self._info(state), None, error)
        return error

    def _info(self, state: AttemptState) -> StepInfo:
        policy, run = self.operation.policy, self.run
        return StepInfo(
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            app=run.app,
            flow=run.flow,
            step=self.step.name,
            attempt=state.made + 1,
            pool=policy.pool,
            deadline=_in(policy.timeout),
        )


def _in(seconds: float) -> datetime | None:
    try:
        return datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _give_back(taking: asyncio.Task[Slot]) -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result().release()
