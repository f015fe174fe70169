"""What the caller may do: oslo.policy with our rules."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_policy import opts, policy

from stead.auth.rules import list_rules
from stead.config import ConfigError, read_conf
from stead.domain.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.auth.credentials import Credentials


LOG = logging.getLogger(__name__)

RECHECK = 0.25  # seconds for which policy files, and what was allowed, are taken to be as they were


class Policy:
    """The rules as the operator left them; policy files are read again when they change. Safe under threads.

    oslo.policy would look for changes on each call, and is without rules for a moment while it loads them. So here an
    enforcer loads its rules once, and a change makes another enforcer. What was allowed is remembered for a moment,
    because to oslo.policy a decision takes as long as a small request takes to all the rest of the edge.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the policy files that ``[oslo_policy]`` of *conf* names, if they exist.

        Raises:
            ConfigError: a policy file is malformed.
        """
        self._conf = conf
        self._reloading = Lock()
        self._files: _FileStates | None = None  # not known to be those that were read: the first look reads again
        self._fresh_until = monotonic() + RECHECK
        try:
            self._known = _Known(_LoadedEnforcer(conf))
        except Exception as error:  # oslo.policy promises no class
            raise ConfigError(f"policy: {_one_line(error)}") from error

    def require(self, rule: str, credentials: Credentials, target: Mapping[str, str] | None = None) -> None:
        """Return if *rule* allows *credentials* to touch *target*, their own project and user if None.

        Raises:
            Forbidden: it does not, or the request's scope is not one the rule is for.
            oslo_policy.policy.PolicyNotRegistered: there is no such rule; a bug of ours.
        """
        known = self._current()
        question = rule, credentials, None if target is None else frozenset(target.items())
        if question in known.allowed:
            return
        wanted = {"project_id": credentials.project_id, "user_id": credentials.user_id} if target is None else target
        try:
            known.enforcer.authorize(rule, wanted, _values(credentials), do_raise=True)
        except policy.InvalidScope as error:
            raise Forbidden(rule, scope=True) from error
        except policy.PolicyNotAuthorized as error:
            raise Forbidden(rule) from error
        known.allowed.add(question)

    def _current(self) -> _Known:
        if monotonic() > self._fresh_until and self._reloading.acquire(blocking=False):
            try:
                self._known = _Known(self._enforcer_of_now())
            finally:
                self._fresh_until = monotonic() + RECHECK
                self._reloading.release()
        return self._known

    def _enforcer_of_now(self) -> policy.Enforcer:
        try:
            files = self._policy_files()
            if files != self._files:
                self._files = files  # also if one is malformed: that is complained of once
                return _LoadedEnforcer(self._conf)
        except Exception as error:  # oslo.policy promises no class
            LOG.warning("policy: %s; the previous rules stay in force", _one_line(error))
        return self._known.enforcer

    def _policy_files(self) -> _FileStates:
        names = [self._known.enforcer.policy_file, *self._conf.oslo_policy.policy_dirs]
        paths = [Path(path) for name in names if (path := self._conf.find_file(name))]
        files = [path for path in paths if path.is_file()]
        files += [path for directory in paths if directory.is_dir() for path in directory.iterdir()]
        stats = {path: path.stat() for path in files}
        return {path: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}


_FileStates = dict[Path, tuple[int, int, int]]  # what tells one state of a file from the next


class _Known:
    """An enforcer, and what it allowed lately. In one object, so that no answer outlives the rules it came from."""

    __slots__ = ("allowed", "enforcer")

    def __init__(self, enforcer: policy.Enforcer) -> None:
        self.enforcer = enforcer
        self.allowed: set[tuple[str, Credentials, frozenset[tuple[str, str]] | None]] = set()


class _LoadedEnforcer(policy.Enforcer):
    """Loads its rules when it is made, and never again."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        _prepare(self)
        parser = logging.getLogger("oslo_policy._parser")
        complaints = _Complaints()
        parser.addFilter(complaints)
        try:
            super().load_rules()
        finally:
            parser.removeFilter(complaints)
        if complaints.found:
            raise ValueError("; ".join(dict.fromkeys(complaints.found)))

    def load_rules(self, force_reload: bool = False) -> None:  # oslo.policy's signature
        """Called by oslo.policy before each decision."""


class _Complaints(logging.Filter):
    """Takes down what oslo.policy only logs: a check that it can not read counts as one that allows nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Let *record* through if it is no complaint."""
        if record.levelno < logging.ERROR:
            return True
        self.found.append(record.getMessage())
        return False


def roles_in(conf: cfg.ConfigOpts) -> frozenset[str]:
    """The roles that some rule asks for, the rules of the operator's policy files included; in lower case.

    oslo.policy compares roles without regard to case.

    Raises:
        ConfigError: a policy file is malformed.
    """
    try:
        checks = _LoadedEnforcer(conf).rules.values()
    except Exception as error:  # oslo.policy promises no class
        raise ConfigError(f"policy: {_one_line(error)}") from error
    return frozenset(role.lower() for check in checks for role in _ROLE.findall(str(check)))


_ROLE = re.compile(r"\brole:([^\s()%]+)(?=[\s)]|$)")


def get_enforcer() -> policy.Enforcer:
    """For the ``oslopolicy-*`` tools: the entry point ``placement`` of ``oslo.policy.enforcer``.

    They have read their command line into the global configuration of oslo.config: what it says with ``--config-file``
    and ``--config-dir`` counts, else the usual places do.
    """
    tool = cfg.CONF
    files, dirs = ([Path(path) for path in tool[name]] for name in ("config_file", "config_dir"))
    conf = read_conf(files, dirs) if files or dirs else read_conf()
    enforcer = _prepare(policy.Enforcer(conf))
    # One of the tools opens the policy file itself, and looks for its name there.
    tool.register_opts(opts.list_opts()[0][1], group="oslo_policy")
    tool.set_override("policy_file", conf.find_file(enforcer.policy_file) or enforcer.policy_file, group="oslo_policy")
    return enforcer


def _prepare(enforcer: policy.Enforcer) -> policy.Enforcer:
    # All our rules have the same deprecated alternative: a warning for each would tell an operator nothing.
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(list(list_rules()))
    return enforcer


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _values(credentials: Credentials) -> dict[str, Any]:
    """*credentials* by the names policy files know. A new dict each time, because oslo.policy writes to it."""
    return {
        "user_id": credentials.user_id,
        "user_domain_id": credentials.user_domain_id,
        "project_id": credentials.project_id,
        "project_domain_id": credentials.project_domain_id,
        "domain_id": credentials.domain_id,
        "system_scope": credentials.system_scope,
        "roles": list(credentials.roles),
        "is_admin_project": credentials.is_admin_project,
        "service_user_id": credentials.service_user_id,
        "service_user_domain_id": credentials.service_user_domain_id,
        "service_project_id": credentials.service_project_id,
        "service_project_domain_id": credentials.service_project_domain_id,
        "service_roles": list(credentials.service_roles),
    }
