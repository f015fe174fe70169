"""Contexts of TLS, and what bounds the examples of Hypothesis."""

import ssl
import subprocess

import pytest
from hypothesis import settings

# An example that takes long on a busy machine is no fault: the timeout of the test bounds it.
settings.register_profile("lanes", settings.default, deadline=None)
settings.load_profile("lanes")


@pytest.fixture
def tls(tmp_path):
    """The contexts of a server and of its client."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:TRUE",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, ssl.create_default_context(cafile=certificate)
