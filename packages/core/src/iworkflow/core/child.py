"""A child as the flow that started it sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from iworkflow.core.codec import decode
from iworkflow.core.port import AwaitRun

if TYPE_CHECKING:
    from iworkflow.core.flow.run import FlowRun

R = TypeVar("R")


class ChildHandle(Generic[R]):
    """A child that was started. It works inside the flow that started it."""

    def __init__(self, run: FlowRun, id: str, result_type: Any, *, created: bool) -> None:
        self._run = run
        self._id = id
        self._result_type = result_type
        self._created = created

    def __repr__(self) -> str:
        return f"<ChildHandle {self._id!r}>"

    @property
    def id(self) -> str:
        """The id of the child."""
        return self._id

    @property
    def created(self) -> bool:
        """Whether the call that returned this handle started the child."""
        return self._created

    async def result(self) -> R:
        """Wait for the child's outcome; the errors are those of `Context.child`."""
        completion = await self._run.issue(AwaitRun(self._id))
        error = completion.outcome.error
        if error is not None:
            raise replace(error, message=f"child {self._id!r}: {error.message}").to_exception()
        where = f"outcome of child {self._id!r}"
        return cast("R", decode(completion.outcome.value, self._result_type, where=where))
