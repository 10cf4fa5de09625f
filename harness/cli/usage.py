"""Command lines that can't be understood: what click says of them, in the parts that our own errors have."""

from __future__ import annotations

import io
import re

import click

from harness.errors import RequestError, did_you_mean

_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


class BadValue(click.BadParameter):
    """A value that an option or an argument does not take."""

    def __init__(
        self, what: str, param: click.Parameter | None, ctx: click.Context | None, *, allowed: str = "", hint: str = ""
    ) -> None:
        said = f"{what} (allowed: {allowed})" if allowed else what
        super().__init__(f"{said}. {hint}".rstrip(), ctx, param)
        self.what, self.allowed, self.hint = what, allowed, hint


class Misuse(click.UsageError):
    """Arguments that are no request, together or where they stand."""

    def __init__(
        self, what: str, ctx: click.Context | None = None, *, where: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(f"{what}. {hint}".rstrip(), ctx)
        self.what, self.where, self.allowed, self.hint = what, where, allowed, hint


def usage_error(error: click.ClickException) -> RequestError:
    """The same as one of our own."""
    what, where, allowed, hint = _parts(error)
    context = getattr(error, "ctx", None)
    if not hint and context is not None and _is_of_the_form(error):
        hint = " ".join(context.get_usage().split())
    return RequestError(what, where=where, allowed=allowed, hint=hint)


def _is_of_the_form(error: click.ClickException) -> bool:
    """Whether the line on how the command is used answers it; not where one value alone is wrong."""
    return isinstance(error, click.MissingParameter) or not isinstance(error, Misuse | click.BadParameter)


def told(error: click.ClickException) -> str:
    """The text of it: click's, with our own hint."""
    hint = _parts(error)[3]
    if isinstance(error, click.NoSuchOption):
        error = click.NoSuchOption(error.option_name, ctx=error.ctx)  # without click's own guesses
    shown = io.StringIO()
    error.show(shown)
    text = shown.getvalue().removesuffix("\n")
    return text if hint in text else f"{text} {hint}"


def _parts(error: click.ClickException) -> tuple[str, str, str, str]:
    """What, where, allowed and hint."""
    message = error.message.rstrip(".")
    context = getattr(error, "ctx", None)
    if isinstance(error, Misuse):
        return error.what, error.where, error.allowed, error.hint
    if isinstance(error, BadValue):
        return error.what, _name(error), error.allowed, error.hint
    if isinstance(error, click.MissingParameter):
        kind = error.param.param_type_name if error.param is not None else "argument"
        return f"the {kind} {_name(error)} is missing", _name(error), _choices(error), ""
    if isinstance(error, click.BadParameter):
        given = message.partition(" is not ")[0].strip("'\"")
        choices = _choices(error)
        if choices:
            return f"'{given}' is no choice", _name(error), choices, did_you_mean(given, choices.split(", "))
        return message, _name(error), "", ""
    if isinstance(error, click.NoSuchOption):
        known = [] if context is None else [_longest(each) for each in context.command.get_params(context)]
        options = [name for name in known if name.startswith("-")]
        name = error.option_name
        if name == "--json" and isinstance(getattr(context, "command", None), click.Group):
            hint = "It goes after the command, as in `harness history --json`."
        else:
            hint = did_you_mean(name, options)
        return f"there is no option '{name}'", name, ", ".join(options), hint
    if isinstance(error, click.BadOptionUsage):
        return _uncapitalised(message), error.option_name, "", ""
    extra = _EXTRA.search(message)
    return _uncapitalised(message), extra[1] if extra else "", "", ""


def _name(error: click.BadParameter) -> str:
    parameter = error.param
    if parameter is None:
        return str(error.param_hint or "")
    return (
        parameter.get_error_hint(error.ctx).strip("'") if isinstance(parameter, click.Argument) else _longest(parameter)
    )


def _longest(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len)


def _choices(error: click.BadParameter) -> str:
    kind = getattr(error.param, "type", None)
    return ", ".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else ""


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
