"""Contexts of TLS."""

import ssl

import pytest

from tests.servers.certificates import certified_for_localhost


@pytest.fixture
def tls(tmp_path):
    """The contexts of a server and of its client."""
    certificate = certified_for_localhost(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context, ssl.create_default_context(cafile=certificate.certificate)
