"""What the main process tells a worker at its start, and how it passes that to it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from stead.serve.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker serves. ``listening``, ``door`` and ``stacks`` are descriptors that it inherits.

    Attributes:
        target: the application, as ``module:attribute``.
        threads: that run it.
        listening: the socket that listens.
        door: the worker's end of a connection from the main process, on which it asks for ``/healthcheck/live``.
        stacks: a file for the stacks of the worker's threads, if it does not answer.
        drain: seconds for which it serves open connections when another worker has taken its place.
    """

    target: str
    threads: int
    listening: int
    door: int
    stacks: int
    drain: float
    certificate: str | None = None
    key: str | None = None
    clients: str | None = None

    @property
    def tls(self) -> TlsFiles | None:
        """The files of TLS, if connections are to be encrypted."""
        if self.certificate is None or self.key is None:
            return None
        return TlsFiles(Path(self.certificate), Path(self.key), Path(self.clients) if self.clients else None)

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """Those that the worker inherits."""
        return self.listening, self.door, self.stacks

    def as_argument(self) -> str:
        """For the command line of the worker."""
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def of_argument(cls, text: str) -> Orders:
        """What :meth:`as_argument` has made."""
        return cls(**json.loads(text))
