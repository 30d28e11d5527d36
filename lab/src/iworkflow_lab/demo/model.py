"""What the two apps of the demo exchange."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lead:
    """An organisation to write to."""

    code: str
    name: str
    contact: str
    email: str
    city: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What the register knows of an organisation."""

    kind: str
    members: int
    since: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What writing to an organisation came to."""

    draft: str
    profile: Profile
    reply: str | None
