"""Authentication by every strategy: turns a token into :class:`Credentials` in the environ, or returns 401."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partialmethod
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, cast

from oslo_config import cfg

from stead.auth.sessions import ENVIRON_KEY as SESSION_KEY
from stead.auth.sessions import find_session
from stead.auth.tokens import TokenFile, ensure_admin_token
from stead.config.values import ConfigError
from stead.process.runtime import cached_if_short
from wsgi_lanes.wsgi import ACCEPT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.config import Settings


_ROOT = frozenset({"/", ""})
OPEN_PATHS = _ROOT | {"/healthcheck"}


def authenticate(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    """*app* behind the configured strategy. *app* gets only authenticated requests and requests for open paths.

    The open paths are the root, with and without its slash, and ``/healthcheck``. Under ``noauth2``, only the root
    without slash needs a token. Requests on open paths carry no credentials, except under ``noauth2``, which accepts
    every identity.

    Raises:
        ConfigError: the strategy cannot work: a package or the token file is missing, or the file is malformed.
    """
    identified = _RequireUser(app)
    if settings.auth_strategy == "noauth2":
        return NoAuth2(identified, open_paths=OPEN_PATHS - {""})
    if settings.auth_strategy == "token":
        return _OpenPaths(identified, _token(identified, settings))
    return _OpenPaths(identified, keystone(identified, settings.conf))


def _token(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    if settings.embedded:
        ensure_admin_token(settings.data_dir)
    assert settings.token_file is not None  # `load` sets it for this strategy
    return TokenAuth(app, TokenFile(settings.token_file))


class _OpenPaths:
    """Passes requests on open paths around the strategy, without identity headers."""

    def __init__(self, app: WSGIApplication, strategy: WSGIApplication) -> None:
        self._app = app
        self._strategy = strategy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        strip_identity(environ)
        chosen = self._app if environ.get("PATH_INFO", "") in OPEN_PATHS else self._strategy
        return chosen(environ, start_response)


class _RequireUser:
    """Reads the identity that the strategy determined; returns 401 if there is none."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        credentials = Credentials.from_headers(environ)
        if credentials.user_id is None:
            if environ.get("PATH_INFO", "") not in OPEN_PATHS:
                return answer(environ, start_response)
        elif (accept := environ.get(ACCEPT)) is not None:
            accept()
        environ[ENVIRON_KEY] = credentials
        return self._app(environ, start_response)


# The credentials of a request, as the policy needs them.


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


# ``auth_strategy = keystone``: Keystone validates tokens, through keystonemiddleware.
#
# The middleware detects missing configuration at the first request only, and then returns 500 for all requests. This
# module detects it at start.


GROUP = "keystone_authtoken"


def keystone(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """*app* behind keystonemiddleware, which is configured by ``[keystone_authtoken]`` of *conf*.

    Stead connects to Keystone only when the first token must be validated.

    Raises:
        ConfigError: keystonemiddleware is not installed, or its configuration cannot be used.
    """
    try:
        from keystoneauth1 import loading
        from keystoneauth1.exceptions import ClientException
        from keystonemiddleware import auth_token
        from keystonemiddleware.auth_token import ConfigurationError
    except ImportError as error:
        raise ConfigError("auth_strategy `keystone` needs keystonemiddleware: pip install 'stead[keystone]'") from error
    loading.register_auth_conf_options(conf, GROUP)  # the middleware registers them in the global configuration only
    try:
        protocol = auth_token.AuthProtocol(app, {"oslo_config_config": conf})
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):  # the message may contain part of a password
        raise ConfigError(f"[{GROUP}]: a value refers to an option that does not exist: write `$$` for `$`") from None
    except (ClientException, ConfigurationError, cfg.Error, ValueError) as error:
        raise ConfigError(f"[{GROUP}]: {' '.join(str(error).split())}") from error
    _require_login(conf)
    _require_cache(conf)
    if conf[GROUP].memcached_servers:
        _refuse_pickles()
    return cast("WSGIApplication", protocol)


class _NoUnpickler:
    """In place of `pickle.Unpickler`, which runs the code that a pickle names: each pickle counts as not cached.

    The middleware caches the JSON text of tokens, never a pickle. It checks MACs only after unpickling.
    """

    def __init__(self, file: object) -> None:
        """Read nothing of *file*."""

    def load(self) -> None:
        """No value."""


def _refuse_pickles() -> None:
    """Make all clients of memcached in this process refuse pickles. The middleware creates its clients itself."""
    for module in ("memcache", "bmemcached"):
        if find_spec(module) is None:
            continue
        client = import_module(module).Client
        if not isinstance(vars(client).get("__init__"), partialmethod):
            client.__init__ = partialmethod(client.__init__, unpickler=_NoUnpickler)


def _require_login(conf: cfg.ConfigOpts) -> None:
    """Refuse a configuration without a service user: Keystone validates tokens for authenticated services only."""
    group = conf[GROUP].auth_section or GROUP
    if not conf[group].auth_type:
        raise ConfigError(f"[{group}] auth_type is not set: Stead must log in to Keystone to validate tokens")


def _require_cache(conf: cfg.ConfigOpts) -> None:
    """Check for the packages that the middleware imports when it first uses memcached."""
    given = conf[GROUP]
    if not given.memcached_servers:
        return
    if given.memcache_sasl_enabled or given.memcache_tls_enabled:
        packages = {"bmemcached": "python-binary-memcached"}
    else:
        packages = {"memcache": "python-memcached"}
    if (given.memcache_security_strategy or "").upper() == "ENCRYPT":
        packages["cryptography"] = "cryptography"
    for module, package in packages.items():
        if find_spec(module) is None:
            raise ConfigError(f"[{GROUP}] memcached_servers: this needs the package {package}")


# ``auth_strategy = noauth2``: the token is the identity and is not verified. For tests and trusted networks.
#
# Source: "Authentication and policy", docs/api.md.


class NoAuth2:
    """Accepts ``X-Auth-Token: user[:project]`` and most identity headers unverified; *open_paths* need no token."""

    def __init__(self, app: WSGIApplication, open_paths: Collection[str]) -> None:
        self._app = app
        self._open_paths = open_paths

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401, or the answer of *app*."""
        if environ.get("PATH_INFO", "") in self._open_paths:
            return self._app(environ, start_response)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token is None:
            return answer(environ, start_response)
        user, colon, project = token.partition(":")
        environ["HTTP_X_USER_ID"] = user
        if "HTTP_X_ROLES" not in environ:
            environ["HTTP_X_ROLES"] = "admin" if user == "admin" else ""
        if not environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"):
            environ["HTTP_X_TENANT_ID"] = project if colon else user
        return self._app(environ, start_response)


# ``auth_strategy = token``: static tokens from a file, and the sessions of browsers.


class TokenAuth:
    """Sets the identity headers, like Keystone's middleware. The client's own must have been removed before."""

    def __init__(self, app: WSGIApplication, tokens: TokenFile) -> None:
        self._app = app
        self._tokens = tokens

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401, or the answer of *app*."""
        token = environ.get("HTTP_X_AUTH_TOKEN")
        entry = self._tokens.find(token) if token else None
        if entry is None and SESSION_KEY in environ:
            entry = find_session(self._tokens.current(), environ[SESSION_KEY])
        if entry is None:
            return answer(environ, start_response)
        environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        environ["HTTP_X_USER_ID"] = entry.user
        environ["HTTP_X_PROJECT_ID"] = entry.project
        environ["HTTP_X_ROLES"] = ",".join(entry.roles)
        return self._app(environ, start_response)


# The answer to a request without a valid token.
#
# It is sent before version negotiation and has its own form, unlike other errors. An outer layer adds the request id.
# Source: "Authentication and policy", docs/api.md.


_STATUS = "401 Unauthorized"
_MESSAGE = (
    "This server could not verify that you are authorized to access the document you requested. "
    "Either you supplied the wrong credentials, or you did not supply any."
)
_JSON = json.dumps({"message": _MESSAGE, "code": _STATUS, "title": "Unauthorized"})
_PLAIN = f"{_STATUS}\n\n{_MESSAGE}\n"
_HTML = f"<html><head><title>{_STATUS}</title></head>\n<body><h1>{_STATUS}</h1>\n<p>{_MESSAGE}</p></body></html>\n"


def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Return 401, as JSON unless the client prefers another form."""
    media_type, text = _representation(environ.get("HTTP_ACCEPT", ""))
    body = text.encode()
    start_response(_STATUS, [("Content-Type", media_type), ("Content-Length", str(len(body)))])
    return [body]


def _representation(accept: str) -> tuple[str, str]:
    accept = accept.lower()
    if not accept.strip() or "json" in accept or "*/*" in accept:
        return "application/json", _JSON
    if "text/html" in accept or "text/*" in accept:
        return "text/html; charset=UTF-8", _HTML
    return "text/plain; charset=UTF-8", _PLAIN


# How a user of the web interface gets a token, by strategy of authentication.


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
