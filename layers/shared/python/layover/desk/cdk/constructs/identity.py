"""The users' identity: a Cognito user pool, or the deployer's own OIDC provider."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from aws_cdk import Aws, Fn, RemovalPolicy
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.settings import Mfa, Settings
from layover.values.deployment.access import AUDITORS, OPERATORS, READERS

_SCOPES = {
    "use": "Use agents as yourself",
    "act-as": "Name the end user of a request",
    "operate": "See and steer the runs of all users",
    "audit": "Read what was decided, over all users",
    "read-content": "Read what the runs of all users say",
}
"""Scope -> its description. Cognito gives a client's scopes to each of its users, so the client of people has
only `use`: groups make operators, auditors and readers of them."""


@dataclass(frozen=True)
class Identity:
    """The issuer of the tokens, their audiences and scopes, and the public client that people sign in
    with."""

    issuer: str
    audience: list[str]
    client_id: str | None
    operate_group: str | None = None
    """The group whose members are operators; None: only the scope makes one."""
    audit_group: str | None = None
    read_content_group: str | None = None
    pool_id: str | None = None
    machine_id: str | None = None
    """The client of a backend."""
    token_url: str | None = None
    """URL at which clients get tokens; None: the issuer's document names it."""

    @property
    def token_source(self) -> str:
        """The host at which pages get tokens and revoke them, as a Content-Security-Policy names it."""
        return "/".join([*(self.token_url or self.issuer).split("/")[:3], ""])


def own_provider(settings: Settings) -> Identity:
    """Return the provider that the settings name."""
    assert settings.issuer is not None
    return Identity(
        settings.issuer,
        list(settings.audience),
        settings.client_id,
        # Only by name: whoever makes groups there might not be who deploys.
        operate_group=settings.operate_group,
        audit_group=settings.audit_group,
        read_content_group=settings.read_content_group,
        token_url=settings.token_url,
    )


class UserPool(Construct):
    """A Cognito user pool. An operator makes the users, unless `sign_up` opens the pool. `web`: URLs to which
    browsers return after signing in. `groups`: groups that approvals name. `pool`: a pool of the program that
    makes the stack, which it leaves as it is, but for clients, scopes and, unless it has `pages` (their URL),
    the host of its sign-in pages."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        web: list[str],
        *,
        pool: cognito.IUserPool | None = None,
        pages: str | None = None,
        groups: Iterable[str] = (),
    ) -> None:
        super().__init__(scope, id)
        self._settings = settings
        # By its id, so that clients are made in this stack: their callbacks name the API, which names them.
        self._is_of_layover = pool is None
        adopted = pool.user_pool_id if pool is not None else settings.adopt_user_pool
        self._pool: cognito.IUserPool = (
            cognito.UserPool.from_user_pool_id(self, "Users", adopted) if adopted else self._users()
        )
        self.makes_groups = not adopted
        """Others make the groups of their own pool."""
        if self.makes_groups:
            self._groups(groups)
        pages = pages or self._domain().base_url()
        self._scopes = self._resource_server()
        people = self._people([*dict.fromkeys((*web, *settings.callback_urls))])
        audience = [people.user_pool_client_id]
        machine = self._machine().user_pool_client_id if settings.machine_client else None
        if machine is not None:
            audience.append(machine)
        self.identity = Identity(
            # In the pool's own spelling. An adopted pool has no such attribute, so it is put together.
            issuer=f"https://{self._pool.user_pool_provider_name}",
            audience=audience,
            client_id=people.user_pool_client_id,
            operate_group=settings.operate_group or (OPERATORS if self._is_of_layover else None),
            audit_group=settings.audit_group or (AUDITORS if self._is_of_layover else None),
            read_content_group=settings.read_content_group
            or (READERS if self._is_of_layover else None),
            pool_id=self._pool.user_pool_id,
            machine_id=machine,
            token_url=f"{pages}/oauth2/token",
        )

    def _users(self) -> cognito.UserPool:
        settings = self._settings
        pool = cognito.UserPool(
            self,
            "Users",
            user_pool_name=settings.prefix,
            self_sign_up_enabled=settings.sign_up,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            auto_verify=cognito.AutoVerifiedAttrs(email=True),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            mfa=cognito.Mfa[settings.mfa.name],
            mfa_second_factor=None
            if settings.mfa is Mfa.OFF
            else cognito.MfaSecondFactor(sms=False, otp=True),
            password_policy=cognito.PasswordPolicy(
                min_length=settings.password_length,
                require_lowercase=True,
                require_uppercase=True,
                require_digits=True,
                require_symbols=True,
            ),
            deletion_protection=settings.protects,
            # Not RETAIN: a first deployment that fails has to remove it, or the next one cannot make it.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.retain
            else RemovalPolicy.DESTROY,
        )
        acknowledge(
            pool,
            ("AwsSolutions-COG2", "A second factor (TOTP) is the deployer's choice: `mfa`."),
            ("AwsSolutions-COG3", "Threat protection is part of a plan that costs for each user."),
            ("AwsSolutions-COG8", "The plan without monthly cost does all that is needed here."),
        )
        return pool

    def _groups(self, names: Iterable[str]) -> None:
        """Make the groups of operators, auditors, readers and approvals, without members. They outlive the
        stack as the pool does: a group that goes takes along who is in it."""
        settings = self._settings
        roles = (
            settings.operate_group or OPERATORS,
            settings.audit_group or AUDITORS,
            settings.read_content_group or READERS,
        )
        for name in sorted({*roles, *settings.groups, *names}):
            # An id of the name's own: of two names, letters and digits might be the same.
            id = f"Group-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
            group = cognito.CfnUserPoolGroup(
                self, id, user_pool_id=self._pool.user_pool_id, group_name=name
            )
            group.apply_removal_policy(
                RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
                if settings.retain
                else RemovalPolicy.DESTROY
            )

    def _domain(self) -> cognito.UserPoolDomain:
        """Make the host of the sign-in pages. Its name has to be unique among all accounts of the region, so
        it contains a part of the stack's id."""
        unique = Fn.select(0, Fn.split("-", Fn.select(2, Fn.split("/", Aws.STACK_ID))))
        prefix = f"{self._settings.prefix}-{unique}"
        options = cognito.CognitoDomainOptions(domain_prefix=prefix)
        return self._pool.add_domain("Domain", cognito_domain=options)

    def _resource_server(self) -> dict[str, cognito.OAuthScope]:
        """Return OAuth scopes by their second part: `layover/use` and those of backends and operators."""
        scopes = {
            name: cognito.ResourceServerScope(scope_name=name, scope_description=description)
            for name, description in _SCOPES.items()
        }
        server = self._pool.add_resource_server(
            "Resources", identifier="layover", scopes=list(scopes.values())
        )
        return {
            name: cognito.OAuthScope.resource_server(server, scope)
            for name, scope in scopes.items()
        }

    def _people(self, web: list[str]) -> cognito.UserPoolClient:
        """Make the public client. It has no secret, so the authorization code comes with PKCE. People type
        passwords only into Cognito's own pages, so no flow that takes them over the API is enabled."""
        settings = self._settings
        scopes = [cognito.OAuthScope.OPENID, self._scopes["use"]]
        if settings.mfa is not Mfa.OFF:
            # Cognito has no page on which a user could enroll an optional second factor: `layover mfa` asks
            # its API, with a token of this scope.
            scopes.append(cognito.OAuthScope.COGNITO_ADMIN)
        return self._pool.add_client(
            "People",
            user_pool_client_name=f"{settings.prefix}-people",
            generate_secret=False,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            # Explicit, because the default is SRP; refreshing is always allowed.
            auth_flows=cognito.AuthFlow(user_srp=False),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            access_token_validity=duration(settings.access_token),
            id_token_validity=duration(settings.access_token),
            refresh_token_validity=duration(settings.refresh_token),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=scopes,
                callback_urls=[settings.login_callback, *web],
                logout_urls=web or None,
            ),
        )

    def _machine(self) -> cognito.UserPoolClient:
        """Make a backend's client. Its secret is in no template: an operator reads it with the AWS command
        line."""
        settings = self._settings
        return self._pool.add_client(
            "Machine",
            user_pool_client_name=f"{settings.prefix}-machine",
            generate_secret=True,
            enable_token_revocation=True,
            access_token_validity=duration(settings.access_token),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(client_credentials=True),
                scopes=[self._scopes[name] for name in ("use", "act-as", *settings.machine_scopes)],
            ),
        )
