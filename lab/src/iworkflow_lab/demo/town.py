"""The organisations of the demo: read the letters, answer them, or never do."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from iworkflow.core import Client, FlowError
from iworkflow_lab.demo.iprofile import register
from iworkflow_lab.demo.letters import posted
from iworkflow_lab.demo.model import Lead

SILENCE = "no reply, reminded"
REFUSAL = "failed (StruckOff)"


@dataclass(frozen=True, slots=True)
class Organisation:
    """A line of the shipped table."""

    lead: Lead
    answer: str
    """What it writes back; empty: it never does."""

    @property
    def run(self) -> str:
        """The id of its flow."""
        return f"outreach-{self.lead.code}"

    @property
    def expected(self) -> str:
        """How the outcome of its flow has to begin."""
        struck_off = register()[self.lead.code].get("struck_off")
        return REFUSAL if struck_off else self.answer or SILENCE


def organisations() -> list[Organisation]:
    """Read the shipped table."""
    text = files("iworkflow_lab.demo").joinpath("organisations.csv").read_text("utf-8")
    return [
        Organisation(Lead(**row), answer)
        for row in csv.DictReader(text.splitlines())
        if (answer := row.pop("answer")) is not None
    ]


class Town:
    """Answers each letter once, as soon as it lies in the box, whatever dies meanwhile."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._answers: Mapping[str, str] = {one.run: one.answer for one in organisations()}
        self._read: set[str] = set()
        self.replies = 0

    @property
    def letters(self) -> int:
        """How many different letters came in."""
        return len(self._read)

    async def live(self) -> None:
        """Open letters until cancelled."""
        while True:
            await self.open_letters()
            await asyncio.sleep(0.02)

    async def open_letters(self) -> None:
        """Answer what is new."""
        for letter in set(posted(self._folder)) - self._read:
            self._read.add(letter)
            await self._answer(letter)

    async def _answer(self, letter: str) -> None:
        run = letter.rpartition(".")[0]
        if not self._answers[run]:
            return
        with suppress(FlowError):  # the run may be over: it had waited long enough
            await self._client.handle(run).signal("reply", self._answers[run], message_id=letter)
            self.replies += 1
