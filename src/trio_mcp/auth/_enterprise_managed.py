"""How an enterprise lets its people's clients in: its identity provider vouches for them, so that nobody is asked.

Specification: https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization
"""

from __future__ import annotations

from typing import Literal

from attrs import define, field

from .._errors import AuthorizationFailed
from ._grant import TokenAsk
from ._machine_grants import JWT_BEARER, AssertionSource, MachineGrant, read_assertion
from ._metadata import ServerMetadata
from ._registering import check_issuer
from ._shown import shown_url
from ._steps import Flow
from ._token_requests import post_token_request, request_tokens, scope_member, text_member
from ._tokens import PrivateKey, Registration, Tokens
from ._urls import checked_endpoint, resource_of

__all__ = ["EnterpriseManaged"]

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # the name of a grant
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 # the names of token types begin so
_ID_JAG = f"{_TOKEN_TYPE}id-jag"


@define(kw_only=True, eq=False)
class EnterpriseManaged(MachineGrant):
    """Shows a server who asks by what the enterprise's identity provider says of its user; a `ClientAuth`.

    The identity provider exchanges the user's sign-in there for a grant that is good at the MCP server's authorization
    server alone (ID-JAG), and that server exchanges the grant for a token.

    Args:
        client: how the client is registered at the authorization server.
        idp_client_id: the client's name at the identity provider.
        idp_secret: what proves there that this is the client, where it has a secret.
        idp_private_key: what proves it in place of a secret.
        idp_issuer: the identity provider, as its metadata spell it.
        idp_token_endpoint: the URL at which it exchanges tokens.
        id_token: what the identity provider gave when the user signed in, or an async function that gets it.
        id_token_type: what it is: an ID token of OpenID Connect, or a SAML 2 assertion.

    Raises:
        ValueError: `idp_token_endpoint` is no URL that secrets may go to.

    One storage may hold the tokens of several users: tell them apart by `account`. Options that all ways to get tokens
    have are described at `auth.Grant`.
    """

    client: Registration = field(kw_only=False)
    idp_client_id: str
    idp_secret: str | None = field(default=None, repr=False)
    idp_private_key: PrivateKey | None = None
    idp_issuer: str
    idp_token_endpoint: str
    id_token: AssertionSource = field(repr=False)
    id_token_type: Literal["id_token", "saml2"] = "id_token"  # noqa: S105 # the name of a type

    def __attrs_post_init__(self) -> None:
        try:
            checked_endpoint(self.idp_token_endpoint, "token endpoint of the identity provider", self.trusted_hosts)
        except AuthorizationFailed as fault:
            raise ValueError(f"idp_token_endpoint: {fault}") from None

    @property
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        return f"enterprise {self.idp_issuer} {self.idp_client_id} client {self.client.client_id}"

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that the client was shown to is the only one."""
        return self.client.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.client.issuer, ask.place, f"the client {self.client.client_id!r}")
        grant = yield from self._exchange(ask)
        form = {"grant_type": JWT_BEARER, "assertion": grant, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, self.client, form))

    def _exchange(self, ask: TokenAsk) -> Flow[str]:
        """Have the identity provider vouch for the user at the authorization server (RFC 8693)."""
        provider = ServerMetadata(issuer=self.idp_issuer, token_endpoint=self.idp_token_endpoint)
        registration = Registration(self.idp_client_id, secret=self.idp_secret, private_key=self.idp_private_key)
        id_token = yield from read_assertion(self.id_token, "the user's ID token")
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": ask.place.server.issuer,
            "resource": ask.place.identifier or resource_of(ask.place.url),
            "subject_token": id_token,
            "subject_token_type": f"{_TOKEN_TYPE}{self.id_token_type}",
            **scope_member(ask.scopes),
        }
        members = yield from post_token_request(provider, registration, form, proofs=None, named_by="user")
        grant = text_member(members, "access_token")
        if grant is None or members.get("issued_token_type") != _ID_JAG:
            raise AuthorizationFailed(
                f"the token exchange at {shown_url(self.idp_token_endpoint)} brought no grant of the type {_ID_JAG}"
            )
        return grant
