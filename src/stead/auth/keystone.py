"""``auth_strategy = keystone``: Keystone validates tokens, through keystonemiddleware.

The middleware detects missing configuration at the first request only, and then returns 500 for all requests. This
module detects it at start.
"""

from __future__ import annotations

from functools import partialmethod
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from oslo_config import cfg

from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

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
