"""What a client trusts, and what it proves itself with."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

__all__ = ["Identity", "tls_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The files of a connection: the authority that is trusted instead of the system's, and a certificate to show."""

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    def stamps(self) -> tuple[int, ...]:
        """When each file was last written: a renewed certificate is another client. Raises ``OSError``."""
        files = (self.ca_file, self.client_cert, self.client_key)
        return tuple(os.stat(path).st_mtime_ns for path in files if path is not None)


def tls_context(identity: Identity) -> ssl.SSLContext:
    """TLS 1.2 or later, with verification. Raises ``OSError`` (``ssl.SSLError`` is one) where a file is not what it should be."""
    context = ssl.create_default_context(cafile=identity.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if identity.client_cert is not None:
        # The empty password: the library would otherwise ask for one on the terminal.
        context.load_cert_chain(identity.client_cert, identity.client_key, password=lambda: "")
    return context
