"""``auth_strategy = keystone``: tokens are validated by Keystone, through keystonemiddleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from oslo_config import cfg


def keystone(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """*app* behind keystonemiddleware, which is configured by ``[keystone_authtoken]`` of *conf*.

    Raises:
        ConfigError: keystonemiddleware is not installed, or its configuration cannot be used.
    """
    try:
        from keystonemiddleware import auth_token
    except ImportError as error:
        raise ConfigError("auth_strategy `keystone` needs keystonemiddleware: pip install 'stead[keystone]'") from error
    return cast("WSGIApplication", auth_token.AuthProtocol(app, {"oslo_config_config": conf}))
