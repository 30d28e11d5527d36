"""The contract of a process: declared once by its owner, imported by its neighbours."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, cast

from iworkflow.contracts.checks import check_definition
from iworkflow.contracts.errors import ContractError
from iworkflow.contracts.outcomes import Outcomes
from iworkflow.contracts.parts import Message, State, is_message
from iworkflow.contracts.states import Walk
from iworkflow.contracts.template import IdTemplate
from iworkflow.core.codec import ANY
from iworkflow.core.definition import Target
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.signature import Parameter, Signature

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar

    InT = TypeVar("InT")
    OutT = TypeVar("OutT")
    SignalsT = TypeVar("SignalsT", bound=Mapping[str, object], default=Mapping[str, Message[Any]])
    QueriesT = TypeVar("QueriesT", bound=Mapping[str, object], default=Mapping[str, Message[Any]])
else:
    from typing import TypeVar

    InT = TypeVar("InT")
    OutT = TypeVar("OutT")
    SignalsT = TypeVar("SignalsT")
    QueriesT = TypeVar("QueriesT")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkflowContract(Generic[InT, OutT, SignalsT, QueriesT]):
    """What a process takes, what it can come to, and how it is talked to.

    `define_workflow_contract` makes one. `WorkflowContract[In, Out]` is enough of a type; the
    third and fourth parameter are TypedDicts of `Message[...]`, which type
    `contract.signals["approve"]` and `contract.queries["status"]`.
    """

    name: str
    task_queue: str
    id_template: IdTemplate
    input: TypeForm[InT]
    outcomes: Mapping[str, TypeForm[OutT]]
    states: Mapping[str, State]
    signals: SignalsT
    queries: QueriesT
    description: str = ""
    _outcomes: Outcomes = field(default_factory=lambda: Outcomes("", {}), kw_only=True)

    if not TYPE_CHECKING:
        # The first two parameters stand alone at run time too, before Python 3.13.
        __class_getitem__ = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        return f"<WorkflowContract {self.name!r} of {self.task_queue!r}>"

    def workflow_id(self, data: InT) -> str:
        """Build the id of the run for an input.

        Raises:
            Failure: type `INVALID_WORKFLOW_ID`, not retryable: a field of the template is
                missing, of another type, empty, blank, or holds control characters.
        """
        return self.id_template.fill(self.name, data)

    @property
    def target(self) -> Target[Any]:
        """What a client starts; the input is checked, the outcome is plain JSON."""
        taken = Signature(parameters=(Parameter("input", hint=self.input),))
        return Target(self.task_queue, self.name, ANY, signature=taken)

    def decode_outcome(self, value: JsonValue) -> OutT:
        """Read the outcome of a run.

        Raises:
            Failure: type `DecodeError`, not retryable: it fits no outcome, or two; names what
                each missed.
        """
        return cast("OutT", self._outcomes.decode(value)[1])

    def outcome_name(self, value: JsonValue) -> str:
        """Tell which outcome a value is; raises as `decode_outcome`."""
        return self._outcomes.decode(value)[0]

    def encode_outcome(self, value: object) -> tuple[str, JsonValue]:
        """Write what a flow returned: the outcome's name and its JSON.

        Raises:
            Failure: type `EncodeError`, not retryable: it is no outcome, or could be two.
        """
        return self._outcomes.encode(value)

    def walk(self) -> Walk:
        """Begin at the start of the states."""
        return Walk(self.name, self.states, tuple(self.outcomes))


def define_workflow_contract(
    *,
    name: str,
    task_queue: str,
    workflow_id: str,
    input: TypeForm[InT],
    outcomes: Mapping[str, TypeForm[OutT]],
    states: Mapping[str, State] = MappingProxyType({}),
    signals: SignalsT | None = None,
    queries: QueriesT | None = None,
    description: str = "",
) -> WorkflowContract[InT, OutT, SignalsT, QueriesT]:
    """Declare the contract of a process, and check it against itself.

    Annotate the variable, since a union cannot be inferred from a dict:
    `onboarding: WorkflowContract[In, Created | Refused] = define_workflow_contract(...)`.

    Args:
        name: the name of the flow.
        task_queue: the app whose workers run it.
        workflow_id: the template of its ids, such as `iprofile-org-{code}`. Fields are required
            members of the input, by their names in JSON.
        input: a class that is an object in JSON: dataclass, `msgspec.Struct`, TypedDict, attrs
            class, pydantic model.
        outcomes: name -> class. They are told apart by Literals and required members.
        states: name -> what may follow; the first is the start.
        signals: topic -> what neighbours may send.
        queries: key -> what they may ask.
        description: what the process is for, for the page.

    Raises:
        ContractError: it contradicts itself; every fault is named with its field.
    """
    sent = _bound(name, cast("Mapping[str, object]", signals or {}))
    asked = _bound(name, cast("Mapping[str, object]", queries or {}))
    template, faults = check_definition(
        name=name,
        task_queue=task_queue,
        template=workflow_id,
        input=input,
        outcomes=outcomes,
        states=states,
        signals=sent,
        queries=asked,
    )
    if faults:
        raise ContractError(name, faults)
    kept = MappingProxyType(dict(outcomes))
    return WorkflowContract(
        name=name,
        task_queue=task_queue,
        id_template=template,
        input=input,
        outcomes=kept,
        states=MappingProxyType(dict(states)),
        signals=cast("SignalsT", MappingProxyType(sent)),
        queries=cast("QueriesT", MappingProxyType(asked)),
        description=description,
        _outcomes=Outcomes(name, kept),
    )


def _bound(contract: str, messages: Mapping[str, object]) -> dict[str, object]:
    """Tell each message its name and its contract; what is no message is left for the checks."""
    return {
        name: Message(one.description, one.type, name=name, contract=contract)
        if is_message(one)
        else one
        for name, one in messages.items()
    }


def messages_of(
    contract: WorkflowContract[Any, Any, Any, Any], sort: str
) -> Mapping[str, Message[Any]]:
    """Return the signals or the queries of a contract as a plain mapping."""
    return cast("Mapping[str, Message[Any]]", getattr(contract, sort))
