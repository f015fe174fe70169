"""What mod_wsgi and uWSGI load: the application, with the configuration of the usual places."""

from stead.wsgi import application

__all__ = ["application"]
