"""How a user of the web interface gets a token, by strategy of authentication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stead.auth.token_file import TokenFile

if TYPE_CHECKING:
    from pathlib import Path

    from stead.config import Settings


@dataclass(frozen=True, slots=True)
class Strategy:
    """The strategy, with what signing in needs of it.

    ``tokens`` is the file of static tokens, if there is one. ``data_dir`` has the one-time codes of an embedded
    service.
    ``keystone_url`` is Keystone's own address, if users sign in with a password.
    """

    kind: Literal["keystone", "noauth2", "token"]
    tokens: TokenFile | None = None
    data_dir: Path | None = None
    keystone_url: str | None = None
    keystone_cafile: str | None = None


def strategy_of(settings: Settings) -> Strategy:
    """The strategy of the settings. The token file of an embedded service must exist already."""
    if settings.auth_strategy == "token":
        assert settings.token_file is not None  # `load` sets it for this strategy
        return Strategy("token", TokenFile(settings.token_file), settings.data_dir if settings.embedded else None)
    if settings.auth_strategy == "noauth2":
        return Strategy("noauth2")
    group = settings.conf.keystone_authtoken
    return Strategy("keystone", keystone_url=group.auth_url or group.www_authenticate_uri, keystone_cafile=group.cafile)
