"""Name stems to kernel names that are unique in a module."""

from __future__ import annotations

from itertools import count


class KernelNames:
    """Hands out `<stem>_0`, `<stem>_1`, ... and skips names that are taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def claim(self, name: str) -> None:
        """Mark a name as taken."""
        self._taken.add(name)

    def fresh(self, stem: str) -> str:
        """The first free `<stem>_<number>`, which is taken from now on."""
        for number in count():
            name = f"{stem}_{number}"
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise AssertionError("unreachable: count() does not end")
