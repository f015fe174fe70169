"""The parameters of a worker, and how the main process passes them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from stead.serve.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Orders:
    """Parameters of a worker. ``listening``, ``door``, ``report`` and ``siblings`` are descriptors that it inherits.

    Attributes:
        target: the application, as ``module:attribute``.
        threads: number of threads that run the application.
        listening: the listening socket.
        door: the worker's end of a connection from the main process, which requests ``/healthcheck/live`` on it.
        report: a file for what the main process logs: why the worker cannot start, or the stacks of its threads.
        siblings: the file with the state of all workers.
        drain: seconds for which it serves open connections after another worker has replaced it.
    """

    target: str
    threads: int
    listening: int
    door: int
    report: int
    siblings: int
    drain: float
    certificate: str | None = None
    key: str | None = None
    clients: str | None = None

    @property
    def tls(self) -> TlsFiles | None:
        """The TLS files, if connections must be encrypted."""
        if self.certificate is None or self.key is None:
            return None
        return TlsFiles(Path(self.certificate), Path(self.key), Path(self.clients) if self.clients else None)

    @property
    def descriptors(self) -> tuple[int, int, int, int]:
        """The descriptors that the worker inherits."""
        return self.listening, self.door, self.report, self.siblings

    def as_argument(self) -> str:
        """The parameters as one argument of the worker's command line."""
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def of_argument(cls, text: str) -> Orders:
        """Parse the result of :meth:`as_argument`."""
        return cls(**json.loads(text))
