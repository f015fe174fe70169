"""The refusal to run where another distribution installs the same files.

It is a module of its own, under a name that only this distribution has: whichever distribution was installed last has
overwritten ``placement/__init__.py`` and ``placement/wsgi/api.py``.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

OTHER = "openstack-placement"


def require_sole_provider() -> None:
    """Check that no other distribution provides the package ``placement``.

    Raises:
        ImportError: openstack-placement is installed where this Python finds it. The message says what to do.
    """
    try:
        other = distribution(OTHER)
    except PackageNotFoundError:
        return
    raise ImportError(
        f"{OTHER} is installed in {other.locate_file('')}. It and stead-placement provide the same package, placement. "
        f"Run: pip uninstall --yes {OTHER}; then: pip install --force-reinstall --no-deps stead-placement. "
        "To keep both, install stead-placement in a virtual environment of its own, without system packages."
    )
