"""The development authorization server with the OAuth clients and token checks of this package."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from attrs import define, field

from trio_mcp import AuthorizationFailed
from trio_mcp.abc import Fetch
from trio_mcp.auth import (
    ClientCredentials,
    EnterpriseManaged,
    Grant,
    IntrospectionVerifier,
    OAuth,
    PrivateKey,
    Registration,
    ResourceServer,
    WorkloadIdentity,
)
from trio_mcp.auth._dpop import DpopKey, DpopProver
from trio_mcp.auth.client._discovery import TokenIssuer, discover
from trio_mcp.auth.client._steps import FlowServices, drive
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens
from trio_mcp.peer import Access
from trio_mcp.testing import AsgiNetwork, AuthorizationServer, KnownClient
from trio_mcp.transports import Receive, Scope, Send, engine_fetch

from .authorization_bench import Clock, Signer

AUTH, MCP, IDP, APP = "https://auth.test", "https://mcp.test", "https://idp.test", "https://app.test"
RESOURCE = f"{MCP}/mcp"
BACK = "http://127.0.0.1:4000/callback"
SIGNER = Signer()
PEM = SIGNER.key.as_pem(private=True).decode()


@define
class Deployment:
    """An authorization server, an identity provider and a protected server, each with its own origin."""

    options: dict[str, Any] = field(factory=dict[str, Any])
    documents: dict[str, bytes] = field(factory=dict[str, bytes])
    clock: Clock = field(factory=Clock)
    auth: AuthorizationServer = field(init=False)
    idp: AuthorizationServer = field(init=False)
    fetch: Fetch = field(init=False)
    protection: ResourceServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        registered = KnownClient("sso", secret="s3cret", known_as={AUTH: "known"})
        self.idp = AuthorizationServer(IDP, clients=[registered], clock=self.clock)
        trusted = {IDP: self.idp.jwks, "https://platform.test": SIGNER.jwks}
        usual: dict[str, Any] = {"auto_consent": True, "clock": self.clock, "trusted_issuers": trusted}
        self.auth = AuthorizationServer(AUTH, **{**usual, **self.options})
        network = AsgiNetwork({AUTH: self.auth, IDP: self.idp, MCP: self.show, APP: self.show})
        self.auth.settings.fetch = self.fetch = engine_fetch(network)
        self.protection = ResourceServer(RESOURCE, issuers=[AUTH], scopes=["read"], fetch=self.fetch, clock=self.clock)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as the protected server, or as the web site of a client."""
        documents = {**dict.fromkeys(self.protection.metadata_paths, self.protection.document()), **self.documents}
        body = documents.get(scope["path"])
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 404 if body is None else 200, "headers": headers})
        await send({"type": "http.response.body", "body": body or b""})

    def oauth(self, **options: Any) -> OAuth:
        """Return an OAuth client whose user signs in."""
        return OAuth(visit=self.auth.visit, redirect_uri=BACK, **options)

    def services(self, grant: Grant) -> FlowServices:
        return FlowServices(
            fetch=self.fetch,
            storage=grant.storage,
            clock=self.clock,
            agent=grant.agent,
            asking_person=nullcontext,
        )

    async def ask(self, grant: Grant, proofs: DpopProver | None = None) -> TokenAsk:
        """Discover the authorization server of the protected server."""
        token_issuer: TokenIssuer = await drive(discover(RESOURCE, None, trusted_hosts=()), self.services(grant))
        return TokenAsk(token_issuer=token_issuer, scopes=("read", "write"), proofs=proofs)

    async def obtain(self, grant: Grant, proofs: DpopProver | None = None) -> Tokens:
        """Get tokens."""
        return await drive(grant.obtain(await self.ask(grant, proofs)), self.services(grant))

    async def admit(self, tokens: Tokens, proofs: DpopProver | None = None) -> Access:
        """Check a token at the protected server."""
        fields = {"authorization": f"{tokens.token_type} {tokens.access_token}"}
        if proofs is not None:
            fields["dpop"] = proofs.proof("POST", RESOURCE, now=self.clock(), token=tokens.access_token)
        access = await self.protection.guard(self.fetch).admit("POST", "/mcp", "", fields)
        assert isinstance(access, Access)
        return access


async def test_a_user_signs_in_with_a_client_that_registers_itself_and_refreshes_its_tokens() -> None:
    deployment = Deployment()
    grant = deployment.oauth()

    first = await deployment.obtain(grant)
    assert first.refresh_token is not None
    second = await drive(grant.refresh(await deployment.ask(grant), first.refresh_token), deployment.services(grant))

    access = await deployment.admit(second)
    assert (access.principal, access.scopes) == ("user", frozenset({"read", "write"}))
    assert access.expires_at == deployment.clock.now + 3600
    (registered,) = deployment.auth.asked("register")
    assert registered.parameters["application_type"] == "native"
    (authorization,) = deployment.auth.asked("authorize")
    assert authorization.parameters["resource"] == RESOURCE
    assert [each.parameters["resource"] for each in deployment.auth.asked("token")] == [RESOURCE, RESOURCE]


async def test_a_client_with_a_metadata_document_signs_in_without_registration() -> None:
    url = f"{APP}/client.json"
    body = b'{"client_id":"%s","client_name":"App","redirect_uris":["%s"],"token_endpoint_auth_method":"none"}'
    deployment = Deployment(documents={"/client.json": body % (url.encode(), BACK.encode())})

    access = await deployment.admit(await deployment.obtain(deployment.oauth(client_metadata_url=url)))

    assert access.client_id == url
    assert deployment.auth.asked("register") == []


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
async def test_a_preregistered_client_authenticates_with_its_credentials(method: Any) -> None:
    proof: dict[str, Any] = {"private_key": PrivateKey(PEM)} if method == "private_key_jwt" else {"secret": "a b:%"}
    registered = KnownClient("known", redirect_uris=[BACK], method=method, secret=proof.get("secret"), keys=SIGNER.jwks)
    deployment = Deployment(options={"clients": [registered], "registration": False})
    client = Registration("known", method=method, issuer=AUTH, redirect_uri=BACK, **proof)

    access = await deployment.admit(await deployment.obtain(deployment.oauth(client=client)))

    assert access.client_id == "known"


@pytest.mark.parametrize("with_nonces", [False, True])
async def test_tokens_are_bound_to_the_key_of_a_client(with_nonces: bool) -> None:
    deployment, proofs = (
        Deployment(options={"dpop": "required", "dpop_nonces": with_nonces}),
        DpopProver(DpopKey.generate()),
    )

    tokens = await deployment.obtain(deployment.oauth(), proofs)

    assert tokens.token_type == "DPoP"
    assert (await deployment.admit(tokens, proofs)).principal == "user"
    assert [each.error for each in deployment.auth.asked("token")] == ["use_dpop_nonce", None][not with_nonces :]


@pytest.mark.parametrize("proof", [{"secret": "s3cret"}, {"private_key": PrivateKey(PEM)}])
async def test_a_client_gets_tokens_with_its_client_credentials(proof: dict[str, Any]) -> None:
    registered = KnownClient("known", secret=proof.get("secret"), keys=SIGNER.jwks)
    deployment = Deployment(options={"clients": [registered]})

    access = await deployment.admit(await deployment.obtain(ClientCredentials("known", **proof)))

    assert (access.principal, access.client_id) == ("client known", "known")


async def test_a_workload_gets_tokens_with_the_assertion_of_its_platform() -> None:
    deployment = Deployment()
    claims = {"iss": "https://platform.test", "sub": "job-1", "aud": AUTH, "exp": deployment.clock.now + 60}

    access = await deployment.admit(await deployment.obtain(WorkloadIdentity(SIGNER.sign(claims))))

    assert access.principal == "client job-1"


async def test_a_user_signs_in_through_an_identity_provider() -> None:
    deployment = Deployment(options={"clients": [KnownClient("known", secret="x")]})
    grant = EnterpriseManaged(
        Registration("known", secret="x"),
        idp_client_id="sso",
        idp_secret="s3cret",
        idp_issuer=IDP,
        idp_token_endpoint=f"{IDP}/token",
        id_token=deployment.idp.issue_id_token(subject="ada", client_id="sso"),
    )

    access = await deployment.admit(await deployment.obtain(grant))

    assert (access.principal, access.client_id) == ("ada", "known")
    assert deployment.auth.asked("authorize") == []


async def test_a_protected_server_may_check_tokens_by_introspection() -> None:
    deployment = Deployment(options={"clients": [KnownClient("guard", secret="x")]})
    verifier = IntrospectionVerifier(client=Registration("guard", secret="x"))
    deployment.protection = ResourceServer(
        RESOURCE, issuers=[AUTH], verifier=verifier, fetch=deployment.fetch, clock=deployment.clock
    )

    tokens = await deployment.obtain(deployment.oauth())

    assert (await deployment.admit(tokens)).principal == "user"
    assert len(deployment.auth.asked("introspect")) == 1


@pytest.mark.parametrize("iss", [f"{AUTH}/", "https://other.test", None])
async def test_a_client_detects_a_wrong_issuer_in_the_authorization_response(iss: str | None) -> None:
    def change(endpoint: str, members: dict[str, Any]) -> dict[str, Any]:
        if endpoint != "authorize":
            return members
        return {name: value for name, value in {**members, "iss": iss}.items() if value is not None}

    deployment = Deployment(options={"change": change})

    with pytest.raises(AuthorizationFailed):
        await deployment.obtain(deployment.oauth())
    assert deployment.auth.asked("token") == []
