"""Authentication and policy."""

from stead.auth.admin_token import ensure_admin_token
from stead.auth.credentials import ANONYMOUS, Credentials
from stead.auth.pipeline import authenticate
from stead.auth.policy import Policy

__all__ = ["ANONYMOUS", "Credentials", "Policy", "authenticate", "ensure_admin_token"]
