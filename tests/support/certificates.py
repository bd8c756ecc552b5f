"""Certificates that nobody trusts."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    begin: datetime,
    end: datetime,
    *more: x509.ExtensionType,
) -> bytes:
    """Return the PEM of a root certificate of this name. `more`: its further extensions."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def roots_of_rds() -> str:
    """Return a bundle like Amazon's, with the root of one region."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.NameAttribute(x509.NameOID.COMMON_NAME, "Amazon RDS eu-west-1 Root CA ECC384 G1")
    years = timedelta(days=3650)
    return self_signed(key, x509.Name([name]), now - years, now + years).decode()


def loopback_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate's file, and the context of a server on 127.0.0.1 that has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now, day = datetime.now(UTC), timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(self_signed(key, name, now - day, now + day, address))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(public, private)
    return public, server
