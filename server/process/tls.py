"""TLS of the HTTP server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from superopt.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its key, as PEM files; without a key it is in the file of the certificate."""

    certificate: Path
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context of a server. Raises InvalidOptionError for files that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except ssl.SSLError as error:
            raise InvalidOptionError(
                f"TLS: expected a certificate and its key without a password, as PEM, in {self._files}: "
                f"{error.reason or error}"
            ) from None
        except OSError as error:
            raise InvalidOptionError(f"TLS: cannot read {self._files}: {error.strerror}") from None
        return context

    @property
    def _files(self) -> str:
        return " and ".join(str(path) for path in (self.certificate, self.key) if path is not None)


def _no_password() -> str:
    """Instead of a prompt at the terminal."""
    return ""
