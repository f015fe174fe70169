"""The credentials of a request, as the policy needs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

ENVIRON_KEY = "stead.credentials"

# The first header that is present applies, even if empty; the later names are Keystone's old ones. Source:
# "Authentication and policy", docs/api.md.
_USER_ID = ("HTTP_X_USER_ID", "HTTP_X_USER")
_PROJECT_ID = ("HTTP_X_PROJECT_ID", "HTTP_X_TENANT_ID", "HTTP_X_TENANT")
_ROLES = ("HTTP_X_ROLES", "HTTP_X_ROLE")

_IDENTITY_PREFIXES = (
    "HTTP_X_USER",
    "HTTP_X_PROJECT",
    "HTTP_X_TENANT",
    "HTTP_X_DOMAIN",
    "HTTP_X_ROLE",
    "HTTP_X_IS_ADMIN",
    "HTTP_X_IDENTITY",
    "HTTP_X_SERVICE_",
    "HTTP_OPENSTACK_SYSTEM_SCOPE",
)
_SERVICE_TOKEN = "HTTP_X_SERVICE_TOKEN"  # the only X-Service- header that clients send


@dataclass(frozen=True, slots=True)
class Credentials:
    """User, project, roles and scope of one request; the ids are Keystone's or those of another strategy.

    A request is system-scoped if *system_scope* is not empty. Otherwise it is domain-scoped if *domain_id* is not
    empty. All other requests count as project-scoped, with a project or without. *user_id* is None for an
    unauthenticated request.
    """

    user_id: str | None = None
    project_id: str | None = None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    domain_id: str | None = None
    user_domain_id: str | None = None
    project_domain_id: str | None = None
    is_admin_project: bool = True
    service_user_id: str | None = None
    service_user_domain_id: str | None = None
    service_project_id: str | None = None
    service_project_domain_id: str | None = None
    service_roles: tuple[str, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once, since every request looks up a decision of the policy by its credentials."""

    def __post_init__(self) -> None:
        identity = (self.user_id, self.project_id, self.roles, self.system_scope, self.domain_id, self.service_user_id)
        object.__setattr__(self, "_hash", hash(identity))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, environ: WSGIEnvironment) -> Credentials:
        """The credentials that authentication stored in *environ*; :data:`ANONYMOUS` if there are none."""
        credentials: Credentials = environ.get(ENVIRON_KEY, ANONYMOUS)
        return credentials

    @classmethod
    def from_headers(cls, environ: WSGIEnvironment) -> Credentials:
        """The credentials in the identity headers of *environ*, which are not verified here."""
        get = environ.get
        return _make(
            _first(environ, _USER_ID),
            _first(environ, _PROJECT_ID),
            _first(environ, _ROLES),
            get("HTTP_OPENSTACK_SYSTEM_SCOPE"),
            get("HTTP_X_DOMAIN_ID"),
            get("HTTP_X_USER_DOMAIN_ID"),
            get("HTTP_X_PROJECT_DOMAIN_ID"),
            get("HTTP_X_IS_ADMIN_PROJECT", "true"),
            get("HTTP_X_SERVICE_USER_ID"),
            get("HTTP_X_SERVICE_USER_DOMAIN_ID"),
            get("HTTP_X_SERVICE_PROJECT_ID"),
            get("HTTP_X_SERVICE_PROJECT_DOMAIN_ID"),
            get("HTTP_X_SERVICE_ROLES"),
        )


ANONYMOUS = Credentials()


def strip_identity(environ: WSGIEnvironment) -> None:
    """Remove all headers that only authentication may set, so that clients cannot forge them. Tokens stay."""
    for name in [name for name in environ if name.startswith(_IDENTITY_PREFIXES) and name != _SERVICE_TOKEN]:
        del environ[name]


def split_roles(header: str) -> list[str]:
    """The roles of a comma-separated header, without surrounding blanks."""
    return [role for part in header.split(",") if (role := part.strip())]


def _first(environ: WSGIEnvironment, names: tuple[str, ...]) -> str | None:
    for name in names:
        value: str | None = environ.get(name)
        if value is not None:
            return value
    return None


@cached_if_short(1024)  # the same few clients send most requests
def _make(
    user_id: str | None,
    project_id: str | None,
    roles: str | None,
    system_scope: str | None,
    domain_id: str | None,
    user_domain_id: str | None,
    project_domain_id: str | None,
    is_admin_project: str,
    service_user_id: str | None,
    service_user_domain_id: str | None,
    service_project_id: str | None,
    service_project_domain_id: str | None,
    service_roles: str | None,
) -> Credentials:
    return Credentials(
        user_id=user_id,
        project_id=project_id,
        roles=tuple(split_roles(roles or "")),
        system_scope=system_scope,
        domain_id=domain_id,
        user_domain_id=user_domain_id,
        project_domain_id=project_domain_id,
        is_admin_project=is_admin_project.strip().lower() == "true",
        service_user_id=service_user_id,
        service_user_domain_id=service_user_domain_id,
        service_project_id=service_project_id,
        service_project_domain_id=service_project_domain_id,
        service_roles=tuple(split_roles(service_roles or "")),
    )
