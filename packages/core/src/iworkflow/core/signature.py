"""The signature of a flow or a step: arguments bound, encoded and decoded by its hints."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iworkflow.core.codec import ANY, check_hint, decode, encode, encode_terse, fingerprint
from iworkflow.core.errors import non_retryable
from iworkflow.core.jsonvalue import JsonValue

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A positional parameter: its hint, and its default unless it is required."""

    name: str
    hint: Any = ANY
    required: bool = True
    default: Any = None


@dataclass(frozen=True, slots=True)
class Signature:
    """The positional parameters of a function and its result."""

    parameters: tuple[Parameter, ...] = ()
    variadic: Parameter | None = None
    """What `*args` takes."""
    result: Any = ANY
    """The hint of the result, or `ANY`."""

    @classmethod
    def of(cls, fn: Callable[..., Any], *, skip: int, where: str) -> Signature:
        """Read the signature of a callable of any sort.

        Args:
            fn: a function, a bound method, a partial, or an object with `__call__`.
            skip: how many leading parameters are not the caller's (1 for a flow's context).
            where: begins every message, such as `step 'compose'`.

        Raises:
            TypeError: a hint is not resolved or cannot be read back, or a parameter can be
                given by keyword alone.
        """
        declared = _parameters(fn, where)
        notes = _Notes(fn, where)
        positional = [one for one in declared if one.kind in _POSITIONAL][skip:]
        rest = [one for one in declared if one.kind is inspect.Parameter.VAR_POSITIONAL]
        _refuse_required_keywords(declared, where)
        return cls(
            parameters=tuple(_parameter(one, notes) for one in positional),
            variadic=_parameter(rest[0], notes) if rest else None,
            result=notes.hint("return", f"{where}: result"),
        )

    def bind(self, args: Sequence[Any], *, where: str) -> tuple[Any, ...]:
        """Check that the function takes these arguments, and return them.

        Raises:
            TypeError: there are too few or too many.
        """
        complaint = self._complaint(len(args))
        if complaint:
            raise TypeError(f"{where}: {complaint}")
        return tuple(args)

    def encode_args(self, args: Sequence[Any], *, where: str) -> list[JsonValue]:
        """Bind the arguments and encode each by its hint.

        Raises:
            TypeError: they do not fit; names the argument, its path and its type.
        """
        bound = zip(self._each(self.bind(args, where=where)), args, strict=True)
        return [encode(arg, one.hint, where=f"{where}: {one.name}") for one, arg in bound]

    def decode_args(self, values: Sequence[JsonValue], *, where: str) -> list[Any]:
        """Read stored arguments back.

        Raises:
            Failure: type `DecodeError`: they no longer fit the signature.
        """
        complaint = self._complaint(len(values))
        if complaint:
            raise non_retryable(f"{where}: {complaint}", type="DecodeError")
        bound = zip(self._each(values), values, strict=True)
        return [decode(value, one.hint, where=f"{where}: {one.name}") for one, value in bound]

    def encode_result(self, value: Any, *, where: str) -> JsonValue:
        """Encode what the function returned.

        Raises:
            TypeError: it does not fit its hint; names the path and the type.
        """
        return encode(value, self.result, where=f"{where}: result")

    def decode_result(self, value: JsonValue, *, where: str) -> Any:
        """Read a stored result back.

        Raises:
            Failure: type `DecodeError`: it no longer fits the hint.
        """
        return decode(value, self.result, where=f"{where}: result")

    def digest(self, name: str, args: Sequence[Any]) -> str:
        """Fingerprint a call: its name and its arguments, given as they are, not encoded.

        Members and trailing arguments equal to their declared default are left out, so that
        one more of them changes no fingerprint. Deterministic across processes.

        Raises:
            TypeError: as `encode_args`.
        """
        kept = list(zip(self._each(self.bind(args, where=name)), args, strict=True))
        encoded = [encode_terse(arg, one.hint, where=f"{name}: {one.name}") for one, arg in kept]
        while encoded and _at_default(kept[len(encoded) - 1][0], encoded[-1]):
            encoded.pop()
        return fingerprint([name, encoded])

    def _each(self, args: Sequence[Any]) -> Iterator[Parameter]:
        yield from self.parameters[: len(args)]
        if self.variadic is not None:
            for _ in args[len(self.parameters) :]:
                yield self.variadic

    def _complaint(self, given: int) -> str | None:
        missing = [one.name for one in self.parameters[given:] if one.required]
        if missing:
            names = ", ".join(repr(name) for name in missing)
            return f"missing argument{'s' if len(missing) > 1 else ''} {names}"
        most = len(self.parameters)
        if given > most and self.variadic is None:
            return f"takes {most} argument{'' if most == 1 else 's'}, {given} were given"
        return None


def _at_default(parameter: Parameter, encoded: JsonValue) -> bool:
    if parameter.required:
        return False
    try:
        default = encode_terse(parameter.default, parameter.hint, where=parameter.name)
    except TypeError:
        return False
    return fingerprint(default) == fingerprint(encoded)


def _parameters(fn: Callable[..., Any], where: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: {fn!r} has no signature that can be read: {error}") from None


def _parameter(declared: inspect.Parameter, notes: _Notes) -> Parameter:
    required = declared.default is inspect.Parameter.empty
    if declared.kind is inspect.Parameter.VAR_POSITIONAL:
        required = False
    return Parameter(
        name=declared.name,
        hint=notes.hint(declared.name, f"{notes.where}: parameter {declared.name!r}"),
        required=required,
        default=None if required else declared.default,
    )


def _refuse_required_keywords(declared: Sequence[inspect.Parameter], where: str) -> None:
    for one in declared:
        keyword_only = one.kind is inspect.Parameter.KEYWORD_ONLY
        if keyword_only and one.default is inspect.Parameter.empty:
            raise TypeError(
                f"{where}: parameter {one.name!r} can be given by keyword alone, and arguments "
                "are positional; give it a default or make it positional"
            )


class _Notes:
    """The annotations of a callable, resolved one by one: the others need not resolve."""

    def __init__(self, fn: Callable[..., Any], where: str) -> None:
        self.where = where
        function = _function(fn)
        self._notes: dict[str, Any] = dict(inspect.get_annotations(function))
        self._globals: dict[str, Any] = {
            **getattr(function, "__globals__", {}),
            **{one.__name__: one for one in getattr(function, "__type_params__", ())},
        }

    def hint(self, name: str, where: str) -> Any:
        """Resolve one annotation and check that the codec reads it back."""
        hint = self.resolve(name, where)
        check_hint(hint, where=where)
        return hint

    def resolve(self, name: str, where: str) -> Any:
        """Resolve one annotation; `ANY` where there is none."""
        if name not in self._notes:
            return ANY
        note = self._notes[name]
        holder = types.SimpleNamespace(__annotations__={name: note})
        try:
            return typing.get_type_hints(holder, self._globals, include_extras=True)[name]
        except Exception as error:
            raise TypeError(
                f"{where}: cannot resolve the hint {note!r}: {error} "
                "(a name imported under TYPE_CHECKING, or local to a function?)"
            ) from None


def _function(fn: Any) -> Any:
    """Find the function below partials, methods, decorators and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = type(fn).__call__
    fn = inspect.unwrap(fn)
    return getattr(fn, "__func__", fn)


def first_parameter(fn: Callable[..., Any], *, where: str) -> tuple[str, Any] | None:
    """The name and the hint of the first positional parameter, the hint `ANY` if unresolved."""
    for one in _parameters(fn, where):
        if one.kind in _POSITIONAL:
            try:
                return one.name, _Notes(fn, where).resolve(one.name, where)
            except TypeError:
                return one.name, ANY
    return None
