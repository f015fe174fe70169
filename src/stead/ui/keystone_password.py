"""A user and a password become a token of Keystone. Source: Identity API v3, "Password authentication"."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stead.auth.signing_in import Strategy

_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""For one request to Keystone."""


class SignInRefused(Exception):
    """The attempt gave no session; ``status`` is 401 if the credential is not valid, 503 if Keystone did not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def token_of_password(strategy: Strategy, *, user: str, password: str, domain: str, project: str) -> str:
    """A token scoped to *project*, or to the user's default project if it is empty; *domain* is that of both.

    Raises:
        SignInRefused: Keystone refused, or did not answer. The message does not contain the password.
    """
    import httpx2

    identity = {"name": user, "domain": {"name": domain}, "password": password}
    request: dict[str, object] = {"identity": {"methods": ["password"], "password": {"user": identity}}}
    if project:
        request["scope"] = {"project": {"name": project, "domain": {"name": domain}}}
    base = (strategy.keystone_url or "").rstrip("/").removesuffix("/v3")
    try:
        answer = httpx2.post(
            f"{base}/v3/auth/tokens", json={"auth": request}, timeout=_SECONDS, verify=strategy.keystone_cafile or True
        )
    except (httpx2.HTTPError, OSError) as error:
        # Only the type, and no cause: the error of the library has the request, and with it the password.
        _log.warning("sign-in: Keystone does not answer: %s", type(error).__name__)
        raise SignInRefused(503, "Keystone does not answer. Retry, or paste a token.") from None
    token = answer.headers.get("x-subject-token")
    if answer.status_code == 201 and token:
        return str(token)
    if answer.status_code >= 500:
        raise SignInRefused(503, f"Keystone returned {answer.status_code}. Retry, or paste a token.")
    raise SignInRefused(401, "Keystone does not accept this user, password and project.")
