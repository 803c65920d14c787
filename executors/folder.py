"""A folder of manifests that is compared with another one: read where it lies, shown where the other one lies."""

from __future__ import annotations

import os
from collections.abc import Hashable

from manifests.load import Disk


class Folder:
    """A folder's files, shown as if they lay in another one. Artifacts are taken to be there: pins stand for them."""

    def __init__(self, shown: str, real: str) -> None:
        self._disk = Disk()
        self._shown, self._real = shown, real

    def real(self, path: str) -> str:
        """Where the file lies."""
        absolute = os.path.abspath(path)  # noqa: PTH100 - by its text, as the shelf makes it
        if absolute == self._shown or absolute.startswith(self._shown.rstrip("/") + "/"):
            return self._real + absolute[len(self._shown) :]
        return absolute

    def is_folder(self, path: str) -> bool:
        return self._disk.is_folder(self.real(path))

    def listed(self, path: str) -> list[str]:
        return self._disk.listed(self.real(path))

    def read(self, path: str, limit_b: int) -> tuple[bytes, Hashable]:
        return self._disk.read(self.real(path), limit_b)

    def pin(self, path: str) -> str | None:
        return self._disk.pin(self.real(path))

    def readable(self, path: str) -> bool:
        del path
        return True

    def there(self, path: str) -> bool:
        """Whether anything lies there."""
        return os.path.lexists(self.real(path))
