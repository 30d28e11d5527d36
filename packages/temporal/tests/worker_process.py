"""A worker in a process of its own: it prints what it does and writes down its effects."""

from __future__ import annotations

import asyncio
import os
import signal

import iwf_temporal_flows as flows
import iwf_temporal_steps as steps

from iworkflow.core import AppDefinition
from iworkflow.temporal import TemporalRuntime


async def main() -> None:
    app = AppDefinition(
        os.environ["TEST_APP"],
        flows=[
            flows.one_slow,
            flows.listens,
            flows.sleeps,
            flows.retries_slowly,
            flows.remembers,
            flows.chains,
            flows.blocks,
        ],
        activities=[steps.note, steps.slow, steps.fails_until, steps.beats, steps.block],
    )
    runtime = TemporalRuntime(
        silent_after=float(os.environ.get("TEST_SILENT_AFTER", "2")),
        max_cached_workflows=int(os.environ.get("TEST_CACHED", "1000")),
    )
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    async with runtime.running(app, grace=float(os.environ.get("TEST_GRACE", "10"))):
        steps.say("ready")
        await stopping.wait()
    steps.say("stopped")


asyncio.run(main())
