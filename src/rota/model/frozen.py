"""Immutable records that are made by the thousand in a second.

For type checkers this is the `dataclass` of the standard library, and `frozen=True` means that an assignment to a field
is an error, which `make check` refuses. At run time a frozen record with slots is a `msgspec.Struct`, whose constructor
is compiled: that of the standard library took a tenth of the core's time. It is compared, hashed and shown by its
fields all the same, and `dataclasses.fields` and `replace` work with it. Other records are those of the standard
library, without its check for assignments, which passes every field of every new record through a function of its own.

`isinstance` and `match` are slow to find that a value is not of such a class: where many are tried, as in the routing
of events, a record's exact type is looked up instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    import inspect
    from collections.abc import Callable

    import msgspec

    _StructMeta = type(msgspec.Struct)
    _FIELDS = "__dataclass_fields__"
    # Attributes that each class statement adds.
    _ADDED = ("__dict__", "__weakref__", "__slots__")

    def dataclass(*, frozen: bool = False, **options: bool) -> Callable[[type], type]:
        """The standard library's, with `frozen` left to type checkers."""

        def decorated(cls: type) -> type:
            if frozen and options == {"slots": True} and _can_be_struct(cls):
                return _struct(cls)
            return dataclasses.dataclass(unsafe_hash=frozen, **options)(cls)

        return decorated

    def _can_be_struct(cls: type) -> bool:
        """Whether its bases have no fields, and each of its own fields is compared and given to its constructor."""
        has_plain_bases = all(type(base) is type and not hasattr(base, _FIELDS) for base in cls.__mro__)
        own = [cls.__dict__.get(name) for name in inspect.get_annotations(cls)]
        fields = [each for each in own if isinstance(each, dataclasses.Field)]
        is_usual = all(each.init and each.compare and each.repr and each.kw_only is not True for each in fields)
        return has_plain_bases and is_usual and "__post_init__" not in cls.__dict__

    def _struct(cls: type) -> type:
        known = dataclasses.fields(dataclasses.dataclass(type(cls.__name__, cls.__bases__, dict(cls.__dict__))))
        content = {name: value for name, value in cls.__dict__.items() if name not in _ADDED}
        for field in known:
            if field.default_factory is not dataclasses.MISSING:
                content[field.name] = msgspec.field(default_factory=field.default_factory)
        bases = tuple(base for base in cls.__bases__ if base is not object)
        made = _StructMeta(cls.__name__, (*bases, msgspec.Struct), content, frozen=True)
        setattr(made, _FIELDS, {field.name: field for field in known})
        return made


__all__ = ["dataclass"]
