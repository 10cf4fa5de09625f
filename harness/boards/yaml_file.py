"""Reading a board's YAML: plain values, no duplicate keys, and one error that names file and key.

`Fields` is the one place where a value's type is checked, for `task.yml`, `harness.yml` and set files alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import RequestError, did_you_mean

MAX_BYTES = 4_000_000
"""A problem file is some kilobytes; beyond this something else was named."""

E = TypeVar("E", bound=StrEnum)
_MISSING = object()


@cache
def _loader() -> type:
    """A safe loader, the C one where PyYAML has it, that refuses duplicate keys."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class UniqueKeyLoader(base):
        pass

    def construct(loader: Any, node: Any) -> dict[Any, Any]:
        loader.flatten_mapping(node)
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            try:
                if key in seen:
                    raise _Position(f"the key '{key}' is given twice, first on line {seen[key]}", line)
                seen[key] = line
            except TypeError:
                raise _Position(f"a {_kind(key)} can't be a key", line) from None
        return dict(loader.construct_pairs(node, deep=True))

    UniqueKeyLoader.add_constructor("tag:yaml.org,2002:map", construct)
    return UniqueKeyLoader


class _Position(Exception):
    """What is wrong and on which line, until the file's name is known."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def read_yaml(path: Path) -> Fields:
    """The mapping at the top of a YAML file.

    Raises RequestError, naming file and line, for a file that is missing, unreadable, no UTF-8, no YAML, has a key
    twice, or holds something other than a mapping.
    """
    import yaml

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RequestError(f"the file can't be read: {error.strerror}", where=str(path)) from error
    if len(raw) > MAX_BYTES:
        raise RequestError(f"the file has {len(raw):,} bytes", where=str(path), allowed=f"at most {MAX_BYTES:,}")
    try:
        content = yaml.load(raw.decode("utf-8"), Loader=_loader())
    except _Position as error:
        raise RequestError(str(error), where=f"{path}:{error.line}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise RequestError(f"not YAML: {error.problem or error.context}", where=where) from error
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise RequestError(f"byte 0x{raw[error.start]:02x} is no UTF-8", where=f"{path}:{line}") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"not YAML: {str(error) or type(error).__name__}", where=str(path)) from error
    if not isinstance(content, dict):
        kind = "is empty" if content is None else f"holds a {_kind(content)}"
        raise RequestError(f"the file {kind}; it must hold keys with values", where=str(path))
    return Fields(content, str(path))


def _kind(value: Any) -> str:
    """A value's type in the words of a person who writes YAML."""
    names = {bool: "boolean", int: "number", float: "number", str: "text", dict: "mapping", type(None): "empty value"}
    if isinstance(value, list | tuple):
        return "list"
    return names.get(type(value), type(value).__name__)


class Fields:
    """The values of one mapping, taken out by type. Every method raises RequestError naming file and key."""

    def __init__(self, values: Mapping[Any, Any], file: str, path: str = "") -> None:
        self.file = file
        self.path = path
        for key in values:
            if not isinstance(key, str):
                raise self.error(f"the key {key!r} is not text", hint=f'Write "{key}" in quotes if it is meant.')
        self.values: Mapping[str, Any] = values

    def __contains__(self, key: str) -> bool:
        """Whether `key` has a value; an empty one counts as absent."""
        return self.values.get(key) is not None

    def at(self, key: str) -> str:
        """The full name of a key, e.g. `config.main`."""
        return f"{self.path}.{key}" if self.path else key

    def error(self, what: str, key: str = "", *, allowed: str = "", hint: str = "") -> RequestError:
        name = self.at(key) if key else self.path
        return RequestError(what, where=f"{self.file}: {name}" if name else self.file, allowed=allowed, hint=hint)

    def unknown(self, known: Sequence[str]) -> list[str]:
        return [key for key in self.values if key not in known]

    def refuse_unknown(self, known: Sequence[str]) -> None:
        for key in self.unknown(known):
            raise self.error("unknown key", key, allowed=", ".join(known), hint=did_you_mean(key, list(known)))

    def _take(self, key: str, kinds: tuple[type, ...], wanted: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            if default is _MISSING:
                raise self.error("the key is missing", key, allowed=wanted)
            return default
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(f"a {_kind(value)} ({_shorten(value)}) where {wanted} is needed", key)
        return value

    def text(self, key: str, default: Any = _MISSING) -> str:
        return str(self._take(key, (str,), "text", default))

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self._take(key, (bool,), "true or false", default))

    def number(self, key: str, default: Any = _MISSING) -> int | None:
        value = self._take(key, (int,), "a whole number", default)
        return None if value is None else int(value)

    def seconds(self, key: str, default: int) -> int:
        value = int(self._take(key, (int,), "a whole number of seconds", default))
        if value <= 0:
            raise self.error(f"{value} seconds", key, allowed="at least 1")
        return value

    def choice(self, key: str, choices: type[E], default: Any = _MISSING) -> E:
        value = self.text(key, default)
        names = [str(choice) for choice in choices]
        if value not in names:
            raise self.error(f"'{value}' is unknown", key, allowed=", ".join(names), hint=did_you_mean(value, names))
        return choices(value)

    def items(self, key: str) -> list[Any]:
        return list(self._take(key, (list,), "a list", []))

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.items(key)
        for i, item in enumerate(items):
            if not isinstance(item, str) or not item:
                hint = f'Write "{item}" in quotes.' if isinstance(item, int | float) else ""
                raise self.error(f"a {_kind(item)} ({_shorten(item)}) where text is needed", f"{key}[{i}]", hint=hint)
        return tuple(items)

    def fields(self, key: str, default: Any = _MISSING) -> Fields:
        return Fields(self._take(key, (dict,), "keys with values", default), self.file, self.at(key))

    def list_of_fields(self, key: str) -> list[Fields]:
        rows = []
        for i, item in enumerate(self.items(key)):
            if not isinstance(item, dict):
                raise self.error(f"a {_kind(item)} ({_shorten(item)}) where keys with values are needed", f"{key}[{i}]")
            rows.append(Fields(item, self.file, self.at(f"{key}[{i}]")))
        return rows


def _shorten(value: Any) -> str:
    import reprlib  # bounded, whatever the value holds

    shown = reprlib.repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
