"""The server programs of this machine: found, or installed with apt where that may be done."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


class Unavailable(Exception):
    """This database cannot be had here; the text says why, in one line."""


def find(names: tuple[str, ...], places: tuple[str, ...]) -> Path | None:
    """The first of these programs in PATH or in *places*, which may be patterns; of several versions the newest."""
    for name in names:
        candidates = [Path(path) for path in [shutil.which(name)] if path]
        for place in places:
            candidates += sorted(Path("/").glob(f"{place.lstrip('/')}/{name}"), key=_version, reverse=True)
        for candidate in candidates:
            if os.access(candidate, os.X_OK):
                return candidate
    return None


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.parts if part.isdigit())


def find_or_install(package: str, names: tuple[str, ...], places: tuple[str, ...], lock: Path) -> Path:
    """Raises Unavailable when there is none and none may be installed. *lock*: one apt at a time."""
    return look_or_install(lambda: find(names, places), (package,), lock)


def look_or_install(look: Callable[[], Path | None], packages: tuple[str, ...], lock: Path) -> Path:
    """What *look* finds, if need be when *packages* are installed, or Unavailable. *lock*: one apt at a time."""
    program = look()
    if program is None:
        with lock.open("w") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            install(*packages)
        program = look()
    if program is None:
        raise Unavailable(f"{' and '.join(packages)} brought not what was looked for")
    return program


def install(*packages: str) -> None:
    """``apt-get install`` as root or through a sudo that asks nothing; ``STEAD_TEST_INSTALL=0`` forbids it."""
    if os.environ.get("STEAD_TEST_INSTALL") == "0":
        raise Unavailable("no server program is installed, and STEAD_TEST_INSTALL=0 forbids to install one")
    if shutil.which("apt-get") is None:
        raise Unavailable("no server program is installed, and there is no apt-get to install one")
    become_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if become_root and (
        shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode
    ):
        raise Unavailable(f"no server program is installed, and {' '.join(packages)} can only be installed as root")
    apt = [*become_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run([*apt, *arguments], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Unavailable(
            f"apt-get install {' '.join(packages)} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
        )
