"""The post of the demo: a Maildir that any mail reader opens."""

from __future__ import annotations

from email.message import EmailMessage
from mailbox import Maildir
from pathlib import Path

from iworkflow.core import step_info
from iworkflow_lab.demo.model import Lead
from iworkflow_lab.effects import folder


def post(kind: str, lead: Lead, text: str) -> None:
    """Put a letter into the box. Its Message-ID names the run and what kind of letter it is."""
    letter = EmailMessage()
    letter["To"] = f"{lead.contact} <{lead.email}>"
    letter["From"] = "Spring Meeting <hello@meeting.example>"
    letter["Subject"] = f"{lead.name}: a {kind}"
    letter["Message-ID"] = f"<{step_info().workflow_id}.{kind}@meeting.example>"
    letter.set_content(text)
    box(folder()).add(letter)


def box(folder: Path) -> Maildir:
    """Return the box in an arena's folder."""
    return Maildir(folder / "letters", create=True)


def posted(folder: Path) -> list[str]:
    """Return what lies in the box as `run.kind`, one entry a letter."""
    ids = [str(letter["Message-ID"]) for letter in box(folder)]
    return sorted(id.strip("<>").partition("@")[0] for id in ids)
