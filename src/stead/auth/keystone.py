"""``auth_strategy = keystone``: tokens are validated by Keystone, through keystonemiddleware.

The middleware finds out at the first request what is missing in its configuration, and answers that and all others with
500. Here it is found at the start.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from oslo_config import cfg

from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

GROUP = "keystone_authtoken"


def keystone(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """*app* behind keystonemiddleware, which is configured by ``[keystone_authtoken]`` of *conf*.

    Keystone itself is not asked before the first token has to be validated.

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
    loading.register_auth_conf_options(conf, GROUP)  # the middleware does so for the global configuration only
    try:
        protocol = auth_token.AuthProtocol(app, {"oslo_config_config": conf})
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):  # whose message may be a piece of a password
        raise ConfigError(f"[{GROUP}]: a value refers to an option that does not exist: write `$$` for `$`") from None
    except (ClientException, ConfigurationError, cfg.Error, ValueError) as error:
        raise ConfigError(f"[{GROUP}]: {' '.join(str(error).split())}") from error
    _require_login(conf)
    _require_cache(conf)
    return cast("WSGIApplication", protocol)


def _require_login(conf: cfg.ConfigOpts) -> None:
    """The service needs an identity of its own: Keystone tells nobody what a stranger's token is worth."""
    group = conf[GROUP].auth_section or GROUP
    if not conf[group].auth_type:
        raise ConfigError(f"[{group}] auth_type is not set: Stead must log in to Keystone to validate tokens")


def _require_cache(conf: cfg.ConfigOpts) -> None:
    """Packages that the middleware looks for when it first asks memcached."""
    given = conf[GROUP]
    if not given.memcached_servers:
        return
    if given.memcache_sasl_enabled or given.memcache_tls_enabled:
        wanted = {"bmemcached": "python-binary-memcached"}
    else:
        wanted = {"memcache": "python-memcached"}
    if (given.memcache_security_strategy or "").upper() == "ENCRYPT":
        wanted["cryptography"] = "cryptography"
    for module, package in wanted.items():
        if find_spec(module) is None:
            raise ConfigError(f"[{GROUP}] memcached_servers: this needs the package {package}")
