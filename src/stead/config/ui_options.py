"""The options of the web interface, in ``[stead]``."""

from __future__ import annotations

from dataclasses import dataclass

from oslo_config import cfg

UI_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt("ui", default=True, help="Serve the web interface at /ui/. Default true."),
    cfg.BoolOpt(
        "ui_writes",
        help="Offer claims and releases in the web interface to users whose policy allows them. Default false: the web "
        "interface only reads. Embedded: default true.",
    ),
    cfg.ListOpt(
        "ui_hosts",
        default=[],
        help="Host names by which browsers reach the web interface, without ports. Other names return 403, which stops "
        "DNS rebinding. IP addresses and localhost are always accepted. Default: any name, but over loopback none, "
        "unless `[oslo_middleware] enable_proxy_headers_parsing` says that a proxy is before the service. Embedded: "
        "default none.",
    ),
    cfg.BoolOpt(
        "public_docs",
        default=True,
        help="Serve the API reference at /docs, and /openapi.json, without a token. Default true.",
    ),
]


@dataclass(frozen=True, slots=True)
class UiSettings:
    """The web interface. ``hosts`` are lower case; None accepts every Host header."""

    enabled: bool
    writes: bool
    hosts: frozenset[str] | None
    public_docs: bool


def ui_settings(conf: cfg.ConfigOpts, *, embedded: bool) -> UiSettings:
    """The settings in *conf*; an *embedded* service has defaults of its own."""
    group = conf.stead
    hosts = frozenset(host.lower() for host in group.ui_hosts)
    return UiSettings(
        enabled=group.ui,
        writes=embedded if group.ui_writes is None else group.ui_writes,
        hosts=hosts if hosts or embedded else None,
        public_docs=group.public_docs,
    )
