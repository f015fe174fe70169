"""Authorization: oslo.policy with Stead's rules."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_policy import opts, policy

from stead.config import ConfigError, read_conf
from stead.domain.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stead.auth.authentication import Credentials


LOG = logging.getLogger(__name__)

RECHECK = 0.25  # seconds for which policy files and cached decisions are assumed to be current


class Policy:
    """The rules with the operator's changes. Rereads the policy files when they change. Thread-safe.

    oslo.policy would check the files on each call, and has no rules while it loads them. So an enforcer here loads its
    rules once, and a change creates a new enforcer. Allowed requests are cached for a short time, because a decision of
    oslo.policy takes as long as the rest of a small request in the HTTP layer.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the policy files that ``[oslo_policy]`` of *conf* names, if they exist.

        Raises:
            ConfigError: a policy file is malformed.
        """
        self._conf = conf
        self._reloading = Lock()
        self._files: _FileStates | None = None  # unknown which state the enforcer reads: the first check rereads them
        self._fresh_until = monotonic() + RECHECK
        try:
            self._known = _Known(_LoadedEnforcer(conf))
        except Exception as error:  # oslo.policy documents no exception class
            raise ConfigError(f"policy: {_one_line(error)}") from error

    def require(self, rule: str, credentials: Credentials, target: Mapping[str, str] | None = None) -> None:
        """Return if *rule* allows *credentials* to act on *target*; None: their own project and user.

        Raises:
            Forbidden: the rule does not allow it, or does not apply to the request's scope.
            oslo_policy.policy.PolicyNotRegistered: the rule does not exist, which is a bug in Stead.
        """
        current = self._current()
        question = rule, credentials, None if target is None else frozenset(target.items())
        if question in current.allowed:
            return
        checked_target = (
            {"project_id": credentials.project_id, "user_id": credentials.user_id} if target is None else target
        )
        try:
            current.enforcer.authorize(rule, checked_target, _values(credentials), do_raise=True)
        except policy.InvalidScope as error:
            raise Forbidden(rule, scope=True) from error
        except policy.PolicyNotAuthorized as error:
            raise Forbidden(rule) from error
        current.allowed.add(question)

    def _current(self) -> _Known:
        # One thread reloads, and the others use the previous rules meanwhile instead of waiting.
        if monotonic() > self._fresh_until and self._reloading.acquire(blocking=False):
            try:
                # A new object even without a change of the files, so that the cached decisions end here and stay few.
                self._known = _Known(self._enforcer_of_now())
            finally:
                # Before the release, so that no other thread checks the files again at once.
                self._fresh_until = monotonic() + RECHECK
                self._reloading.release()
        return self._known

    def _enforcer_of_now(self) -> policy.Enforcer:
        try:
            files = self._policy_files()
            if files != self._files:
                self._files = files  # even if one is malformed, so that the warning appears once
                return _LoadedEnforcer(self._conf)
        except Exception as error:  # oslo.policy documents no exception class
            LOG.warning("policy: %s; the previous rules stay in force", _one_line(error))
        return self._known.enforcer

    def _policy_files(self) -> _FileStates:
        stats = {path: path.stat() for path in _files(self._conf, self._known.enforcer)}
        return {path: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}


_FileStates = dict[Path, tuple[int, int, int]]  # values that change whenever a file changes


class _Known:
    """An enforcer and its recently allowed requests. One object, so that no decision outlives its rules."""

    __slots__ = ("allowed", "enforcer")

    def __init__(self, enforcer: policy.Enforcer) -> None:
        self.enforcer = enforcer
        self.allowed: set[tuple[str, Credentials, frozenset[tuple[str, str]] | None]] = set()


class _LoadedEnforcer(policy.Enforcer):
    """Loads its rules at creation, and never again."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the files.

        Raises:
            ValueError: a file is malformed, or its rules refer to each other in a circle. The message has its path.
        """
        super().__init__(conf)
        _prepare(self)
        # Each file is read by itself first: the errors of oslo.policy do not name it.
        sources = {rule: path for path in _files(conf, self) for rule in _rules_in(path)}
        super().load_rules()
        circle = _circle(self.rules)
        if circle:
            path = next((sources[rule] for rule in circle if rule in sources), "")
            raise ValueError(f"{path}: rules refer to each other in a circle: {' -> '.join([*circle, circle[0]])}")

    def load_rules(self, force_reload: bool = False) -> None:  # oslo.policy's signature
        """Ignored; oslo.policy calls this before each decision."""


class _Complaints(logging.Filter):
    """Records warnings that oslo.policy only logs: a check that it cannot parse counts as one that always fails."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass *record* through unless it is such a warning."""
        if record.levelno < logging.ERROR:
            return True
        self.messages.append(record.getMessage())
        return False


def _files(conf: cfg.ConfigOpts, enforcer: policy.Enforcer) -> list[Path]:
    """The policy files, in the order in which oslo.policy reads them."""
    names = [enforcer.policy_file, *conf.oslo_policy.policy_dirs]
    paths = [Path(path) for name in names if (path := conf.find_file(name))]
    files = [path for path in paths if path.is_file()]
    for directory in paths:
        if directory.is_dir():
            files += sorted(path for path in directory.iterdir() if path.is_file() and path.name[0] != ".")
    return files


def _rules_in(path: Path) -> Iterable[str]:
    """The names of the rules in a policy file.

    Raises:
        ValueError: the file cannot be read, or is malformed.
    """
    parser = logging.getLogger("oslo_policy._parser")
    complaints = _Complaints()
    parser.addFilter(complaints)
    try:
        rules: Iterable[str] = policy.Rules.load(path.read_text())
    except Exception as error:  # oslo.policy documents no exception class
        raise ValueError(f"{path}: {_one_line(error)}") from error
    finally:
        parser.removeFilter(complaints)
    if complaints.messages:
        raise ValueError(f"{path}: {'; '.join(dict.fromkeys(complaints.messages))}")
    return rules


def _circle(rules: Mapping[str, Any]) -> list[str]:
    """The names of rules of which each refers to the next one, and the last one to the first; empty if there are none.

    oslo.policy would call itself until the stack ends.
    """
    done: set[str] = set()
    for start in rules:
        # A depth-first search: `way` has the rules from *start* to the present one, each with its unread references.
        way = {start: iter(_references(rules[start]))} if start not in done else {}
        while way:
            present = next(reversed(way))
            reference = next(way[present], None)
            if reference is None:
                done.add(present)
                del way[present]
            elif reference in way:
                names = list(way)
                return names[names.index(reference) :]
            elif reference in rules and reference not in done:
                way[reference] = iter(_references(rules[reference]))
    return []


def _references(check: Any) -> list[str]:
    """The names of the rules to which *check* refers, at any depth."""
    references, checks = [], [check]
    while checks:
        present = checks.pop()
        if isinstance(present, policy.RuleCheck):
            references.append(present.match)
        # The parts of `and` and `or`, and that of `not`.
        checks += [*getattr(present, "rules", ()), *([present.rule] if hasattr(present, "rule") else [])]
    return references


def roles_in(conf: cfg.ConfigOpts) -> frozenset[str]:
    """The roles that the rules name, including those of the operator's policy files; in lower case.

    oslo.policy ignores the case of roles.

    Raises:
        ConfigError: a policy file is malformed.
    """
    try:
        checks = _LoadedEnforcer(conf).rules.values()
    except Exception as error:  # oslo.policy documents no exception class
        raise ConfigError(f"policy: {_one_line(error)}") from error
    return frozenset(role.lower() for check in checks for role in _ROLE.findall(str(check)))


_ROLE = re.compile(r"\brole:([^\s()%]+)(?=[\s)]|$)")


def get_enforcer() -> policy.Enforcer:
    """For the ``oslopolicy-*`` tools: the entry point ``placement`` of ``oslo.policy.enforcer``.

    The tools parse their command line into the global configuration of oslo.config. Its ``--config-file`` and
    ``--config-dir`` apply; without them, the usual places do.
    """
    tool = cfg.CONF
    files, dirs = ([Path(path) for path in tool[name]] for name in ("config_file", "config_dir"))
    conf = read_conf(files, dirs) if files or dirs else read_conf()
    enforcer = _prepare(policy.Enforcer(conf))
    # One of the tools opens the policy file itself, and reads its name from the global configuration.
    tool.register_opts(opts.list_opts()[0][1], group="oslo_policy")
    tool.set_override("policy_file", conf.find_file(enforcer.policy_file) or enforcer.policy_file, group="oslo_policy")
    return enforcer


def _prepare(enforcer: policy.Enforcer) -> policy.Enforcer:
    # All of Stead's rules have the same deprecated alternative: one warning for each would not help an operator.
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(list(list_rules()))
    return enforcer


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _values(credentials: Credentials) -> dict[str, Any]:
    """*credentials* under the names of policy files. A new dict each time, because oslo.policy modifies it."""
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


# The policy rules: their names, defaults and routes. Source: "Policy", docs/authentication.md.


_SCOPE = ["project"]
_DEFAULT = "rule:admin_or_service_api"

_ADMIN_ALONE = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="Roles other than admin have their own rules.",
    deprecated_since="W",
)

BASE_RULES: list[policy.RuleDefault] = [
    policy.RuleDefault("admin_api", "role:admin", "Default of rules for administrators.", scope_types=_SCOPE),
    policy.RuleDefault(
        "service_api",
        "role:service",
        "Default of rules for other services only.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
    policy.RuleDefault(
        "admin_or_service_api",
        "role:admin or role:service",
        "Default of most routes.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
    policy.RuleDefault(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Default of rules for readers of their own project.",
        deprecated_rule=_ADMIN_ALONE,
    ),
    policy.RuleDefault(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        "Default of rules for readers of their own project, and for administrators and services of every project.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
]

_PROVIDERS = "/resource_providers"
_PROVIDER = f"{_PROVIDERS}/{{uuid}}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_CLASS = "/resource_classes/{name}"
_CONSUMER = "/allocations/{consumer_uuid}"

# name without "placement:", what it allows, routes
_ROUTE_RULES: list[tuple[str, str, list[str]]] = [
    ("resource_providers:list", "List resource providers.", [f"GET {_PROVIDERS}"]),
    ("resource_providers:create", "Create a resource provider.", [f"POST {_PROVIDERS}"]),
    ("resource_providers:show", "Show a resource provider.", [f"GET {_PROVIDER}"]),
    ("resource_providers:update", "Rename or move a resource provider.", [f"PUT {_PROVIDER}"]),
    ("resource_providers:delete", "Delete a resource provider.", [f"DELETE {_PROVIDER}"]),
    ("resource_classes:list", "List resource classes.", ["GET /resource_classes"]),
    ("resource_classes:create", "Create a resource class.", ["POST /resource_classes"]),
    ("resource_classes:show", "Show a resource class.", [f"GET {_CLASS}"]),
    ("resource_classes:update", "Create or rename a resource class.", [f"PUT {_CLASS}"]),
    ("resource_classes:delete", "Delete a resource class.", [f"DELETE {_CLASS}"]),
    ("resource_providers:inventories:list", "List a provider's inventories.", [f"GET {_INVENTORIES}"]),
    ("resource_providers:inventories:create", "Add an inventory to a provider.", [f"POST {_INVENTORIES}"]),
    ("resource_providers:inventories:show", "Show an inventory of a provider.", [f"GET {_INVENTORY}"]),
    (
        "resource_providers:inventories:update",
        "Replace inventories of a provider.",
        [f"PUT {_INVENTORIES}", f"PUT {_INVENTORY}"],
    ),
    (
        "resource_providers:inventories:delete",
        "Delete inventories of a provider.",
        [f"DELETE {_INVENTORIES}", f"DELETE {_INVENTORY}"],
    ),
    ("resource_providers:aggregates:list", "List a provider's aggregates.", [f"GET {_PROVIDER}/aggregates"]),
    ("resource_providers:aggregates:update", "Replace a provider's aggregates.", [f"PUT {_PROVIDER}/aggregates"]),
    ("resource_providers:usages", "Show how much of a provider is used.", [f"GET {_PROVIDER}/usages"]),
    ("usages", "Show how much a project uses.", ["GET /usages"]),
    ("traits:list", "List traits.", ["GET /traits"]),
    ("traits:show", "Show whether a trait exists.", ["GET /traits/{name}"]),
    ("traits:update", "Create a trait.", ["PUT /traits/{name}"]),
    ("traits:delete", "Delete a trait.", ["DELETE /traits/{name}"]),
    ("resource_providers:traits:list", "List a provider's traits.", [f"GET {_PROVIDER}/traits"]),
    ("resource_providers:traits:update", "Replace a provider's traits.", [f"PUT {_PROVIDER}/traits"]),
    ("resource_providers:traits:delete", "Remove all traits of a provider.", [f"DELETE {_PROVIDER}/traits"]),
    ("allocations:manage", "Write the allocations of several consumers at once.", ["POST /allocations"]),
    ("allocations:list", "List the allocations of a consumer.", [f"GET {_CONSUMER}"]),
    ("allocations:update", "Replace the allocations of a consumer.", [f"PUT {_CONSUMER}"]),
    ("allocations:delete", "Release all allocations of a consumer.", [f"DELETE {_CONSUMER}"]),
    ("resource_providers:allocations:list", "List the allocations from a provider.", [f"GET {_PROVIDER}/allocations"]),
    ("allocation_candidates:list", "List allocation candidates.", ["GET /allocation_candidates"]),
    ("reshaper:reshape", "Move inventories and allocations between providers.", ["POST /reshaper"]),
]

# rules for Stead's own features; name without "stead:", what it allows, routes
_OWN_ROUTE_RULES: list[tuple[str, str, list[str]]] = [
    (
        "allocation_candidates:explain",
        "Explain the result of a candidate query.",
        ["GET /allocation_candidates/explain"],
    ),
    ("headroom:show", "Show how many times a request fits.", ["GET /headroom"]),
    (
        "advice:show",
        "Show which consumers to move so that a request fits a number of times.",
        ["GET /advice"],
    ),
    ("flavors:list", "List flavors, with how many times each fits.", ["GET /flavors"]),
    ("flavors:show", "Show a flavor.", ["GET /flavors/{name}"]),
    ("flavors:update", "Create or replace a flavor.", ["PUT /flavors/{name}"]),
    ("flavors:delete", "Delete a flavor.", ["DELETE /flavors/{name}"]),
    ("mix:show", "Show the mix of requests that the site is to serve.", ["GET /mix"]),
    ("mix:delete", "Forget what was learned of the mix.", ["DELETE /mix"]),
    ("consumers:list", "List consumers with their allocations.", ["GET /consumers"]),
    (
        "provider_trees:list",
        "List provider trees with inventories, usages, traits and aggregates.",
        ["GET /provider_trees"],
    ),
    (
        "provider_trees:update",
        "Create, move, rename, change and delete providers of whole trees.",
        ["PUT /provider_trees"],
    ),
    ("provider_trees:disable", "Disable or enable a provider.", ["PATCH /provider_trees/{uuid}"]),
    ("leases:update", "Renew the leases of consumers.", ["PUT /leases"]),
    ("claims:create", "Claim the best candidates for consumers.", ["POST /claims"]),
    ("whatif:show", "Show what planned changes would lead to.", ["POST /whatif"]),
    ("changes:list", "List changed providers and consumers.", ["GET /changes"]),
]

_OTHER_DEFAULTS = {
    "usages": "rule:admin_or_project_reader_or_service_api",
    "consumers:list": "rule:admin_or_project_reader_or_service_api",
    "provider_trees:disable": "rule:admin_api",
    "reshaper:reshape": "rule:service_api",
}


def list_rules() -> Iterator[policy.RuleDefault]:
    """All rules, base rules first: the entry point ``placement`` of ``oslo.policy.policies``."""
    yield from BASE_RULES
    for service, rows in (("placement", _ROUTE_RULES), ("stead", _OWN_ROUTE_RULES)):
        for name, description, routes in rows:
            yield policy.DocumentedRuleDefault(
                name=f"{service}:{name}",
                check_str=_OTHER_DEFAULTS.get(name, _DEFAULT),
                description=description,
                operations=[{"method": method, "path": path} for method, path in (route.split() for route in routes)],
                scope_types=_SCOPE,
            )
