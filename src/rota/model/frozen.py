"""Records that nobody changes, for what is made by the thousand in a second.

For type checkers this is the `dataclass` of the standard library, and `frozen=True` means that an assignment to a field
is an error, which `make check` refuses. At run time nothing stands in the way of an assignment: a frozen class of the
standard library takes every field of every new record through a function of its own, which was a fourteenth of all
that the simulator does. Such a record is compared and hashed by its fields all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable

    def dataclass(*, frozen: bool = False, **options: bool) -> Callable[[type], type]:
        """The standard library's, with `frozen` left to type checkers."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)


__all__ = ["dataclass"]
