"""Authentication and policy."""

from stead.auth.authentication import ANONYMOUS, Credentials, authenticate
from stead.auth.policy import Policy
from stead.auth.tokens import ensure_admin_token

__all__ = ["ANONYMOUS", "Credentials", "Policy", "authenticate", "ensure_admin_token"]
