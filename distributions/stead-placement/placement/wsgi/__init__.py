"""What WSGI servers load: :mod:`placement.wsgi.api`."""
