"""The configuration for people: the values in effect with their origin, and a sample file with all options."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from oslo_config import cfg, generator

from stead.config import options
from stead.config.masking import MASK, masked, masked_url
from stead.config.settings import settings_of
from stead.config.values import ConfigError, Written, called, place_of, places_in, value_of, written_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.config.settings import Settings
    from stead.config.values import Places

OURS = "placement.conf"
KEYSTONE = "keystonemiddleware.auth_token"
DEFAULT = "default"
EMBEDDED = "embedded mode"


@dataclass(frozen=True, slots=True)
class Shown:
    """An option in effect. ``value`` is in the syntax of files, without secrets; None: not set."""

    group: str
    name: str
    value: str | None
    origin: str  # a file, an environment variable, `default`, or `embedded mode`
    problem: str | None = None  # why the configured value cannot be used

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.origin == DEFAULT


@dataclass(frozen=True, slots=True)
class Report:
    """All values in effect, by group, and the configured options that no library reads."""

    shown: tuple[Shown, ...]
    ignored: tuple[Written, ...]
    problems: tuple[str, ...]  # why a service would not start with this configuration; no secrets


def report(conf: cfg.ConfigOpts, data_dir: Path | None = None) -> Report:
    """The values in effect in *conf*, whether a service can start with it or not.

    Raises:
        ConfigError: a file can no longer be read.
    """
    problems = []
    settings: Settings | None = None
    try:
        settings = settings_of(conf, data_dir)
    except ConfigError as error:
        problems.append(str(error))
    groups = dict(_groups(conf, problems))
    files = written_in(
        [Path(file) for file in conf.default_config_files], [Path(each) for each in conf.default_config_dirs]
    )
    places = places_in(files)
    names = {name for group, opts in groups.items() for opt in opts for name in called(group, opt)}
    shown = [_shown(conf, group, opt, places) for group, opts in groups.items() for opt in opts]
    if settings is not None and settings.embedded:
        url = masked_url(settings.database.url)
        shown = [_embedded(each, url, str(settings.token_file)) for each in shown]
    problems += [each.problem for each in shown if each.problem]
    return Report(
        tuple(shown),
        tuple(written for written in files if (written.group, written.name) not in names),
        tuple(dict.fromkeys(problems)),
    )


def _embedded(each: Shown, url: str, token_file: str) -> Shown:
    decided = {("placement_database", "connection"): url, ("stead", "token_file"): token_file}
    if each.value is None and (each.group, each.name) in decided:
        return Shown(each.group, each.name, decided[each.group, each.name], EMBEDDED)
    return each


def _groups(conf: cfg.ConfigOpts, problems: list[str]) -> Iterator[tuple[str, list[cfg.Opt]]]:
    """The options of each group, including those of libraries, in the order of the groups' names; DEFAULT first.

    Errors that prevent listing all options are added to *problems*.
    """
    options_of: dict[str, dict[str, cfg.Opt]] = {"DEFAULT": {}}
    for group, opts in _listed():
        options_of.setdefault(group, {}).update({str(opt.dest): opt for opt in opts})
    for group, by_name in options_of.items():
        conf.register_opts(list(by_name.values()), group=None if group == "DEFAULT" else group)
    if KEYSTONE in _namespaces():
        try:
            options_of["keystone_authtoken"].update({str(opt.dest): opt for opt in _plugin_options(conf)})
        except ConfigError as error:
            problems.append(str(error))
    for group in ["DEFAULT", *sorted(options_of.keys() - {"DEFAULT"})]:
        yield group, sorted(options_of[group].values(), key=lambda opt: str(opt.dest))


def _listed() -> Iterator[tuple[str, list[cfg.Opt]]]:
    yield from options.GROUPS.items()
    by_name = {point.name: point for point in entry_points(group="oslo.config.opts")}
    for namespace in _namespaces()[1:]:
        for group, opts in by_name[namespace].load()():
            yield str(group or "DEFAULT"), opts


def _plugin_options(conf: cfg.ConfigOpts) -> list[cfg.Opt]:
    """Options for the service's own login to Keystone: those of the plugin that ``auth_type`` names."""
    from keystoneauth1 import exceptions, loading

    try:
        group = conf.keystone_authtoken.auth_section or "keystone_authtoken"
        plugin = conf.keystone_authtoken.auth_type
    except cfg.Error:  # reported where these two options are shown
        return []
    if group != "keystone_authtoken" or not plugin:
        return []
    try:
        opts: list[cfg.Opt] = loading.get_auth_plugin_conf_options(plugin)
    except exceptions.NoMatchingPlugin as error:
        raise ConfigError(f"[keystone_authtoken] auth_type: {error}") from error
    conf.register_opts(opts, group=group)
    return opts


def _namespaces() -> list[str]:
    """The namespaces of all options, Stead's first."""
    return [OURS, "oslo.log", "oslo.policy", *([KEYSTONE] if find_spec("keystonemiddleware") else [])]


def _shown(conf: cfg.ConfigOpts, group: str, opt: cfg.Opt, places: Places) -> Shown:
    name = str(opt.dest)
    try:
        value = value_of(conf, group, opt, places)
    except ConfigError as error:
        return Shown(group, name, None, place_of(group, opt, places) or DEFAULT, str(error))
    where = conf.get_location(name, None if group == "DEFAULT" else group)
    return Shown(group, name, _value(opt, value), _origin(where, group, opt, places))


def _origin(where: cfg.LocationInfo | None, group: str, opt: cfg.Opt, places: Places) -> str:
    if where is None or where.location is cfg.Locations.opt_default:
        return DEFAULT
    if where.location is cfg.Locations.environment:
        return str(where.detail)
    if where.location is not cfg.Locations.user:
        return DEFAULT if group == "DEFAULT" else EMBEDDED  # the logging defaults are the same in every mode
    # oslo.config remembers one file for each group; *places* has the file of each option.
    return next((places[name] for name in called(group, opt) if name in places), str(where.detail))


def _value(opt: cfg.Opt, value: Any) -> str | None:
    if value is None:
        return None
    if opt.dest in ("connection", "slave_connection"):
        return masked_url(str(value))
    text = _written(masked(str(opt.dest), value))
    return MASK if opt.secret and text else text


def _written(value: Any) -> str:
    """The value in the syntax of files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ",".join(f"{key}:{inner}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def write_sample(to: IO[str]) -> None:
    """Write a ``placement.conf`` with every option, documented and commented out."""
    options.set_log_defaults()
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf([f"--namespace={namespace}" for namespace in _namespaces()], default_config_files=[], default_config_dirs=[])
    generator.generate(conf, to)
