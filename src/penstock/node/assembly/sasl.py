"""How clients log in on the listeners of this node: by users in its configuration (PLAIN) or in the metadata (SCRAM),
or as an identity provider says (OAUTHBEARER).

A controller that has not heard from a leader yet lets in the users that its own disk knows: the others have to log in
to elect one.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.client.credentials import Credentials, TokenCredentials, read_credentials
from penstock.metadata.configs.sasl import BETWEEN_BROKERS, TO_CONTROLLERS, ListenerSasl, NodeLogin, login_on, sasl_of
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security import SCRAM_RECORDS, TOKEN_RECORDS, SecurityImage
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.node.environment.context import NodeContext
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.login import Mechanisms
from penstock.node.serving.sasl_connection import SaslLimits, SaslListener
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.sasl.delegation_tokens import USER, credential_of
from penstock.protocol.sasl.mechanism import OAUTHBEARER, PLAIN, SaslServer
from penstock.protocol.sasl.oauthbearer import OAuthServer
from penstock.protocol.sasl.plain import PlainServer
from penstock.protocol.sasl.scram import (
    BY_NUMBER,
    MECHANISMS,
    NONCE_BYTES,
    OWN_FORM,
    Form,
    FoundToken,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    invented,
)
from penstock.protocol.secret import Secret

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig
    from penstock.metadata.configs.oauth import ListenerOAuth
    from penstock.node.assembly.oauth import TokenCheck, TokenChecks
    from penstock.node.serving.server import Endpoint

logger = logging.getLogger(__name__)

CREDENTIALS_KEPT: Final = 20_000
"""More than a cluster has tokens, by each of two mechanisms."""


class ScramUsers:
    """`image` has the committed users; until `has_begun`, those that the disk had are asked."""

    def __init__(self, image: ClusterImage, on_disk: SecurityImage, has_begun: Callable[[], bool]) -> None:
        self._image = image
        self._on_disk = on_disk
        self._has_begun = has_begun
        self._models: dict[str, tuple[bytes, Collection[Form]]] = {}

    def changed(self) -> None:
        self._models.clear()

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        record = self._security.scram_credentials.get((mechanism.number, name))
        return None if record is None else _credential(record)

    def invent(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """What a stranger seems to have: the same on all nodes, and in a form that users have.

        It is made from a secret that all nodes know and no stranger does, the credentials of two users: one who logs in
        knows the own.
        """
        if mechanism.name not in self._models:
            self._models[mechanism.name] = self._model(mechanism)
        return invented(mechanism, name, *self._models[mechanism.name])

    @property
    def _security(self) -> SecurityImage:
        is_whole = self._has_begun() and self._image.features  # a new cluster still has to write down its first users
        return self._image.security if is_whole else self._on_disk

    def _model(self, mechanism: ScramMechanism) -> tuple[bytes, Collection[Form]]:
        table, looks = self._security.scram_credentials, self._security.scram_looks
        if looks is None:
            return b"", (OWN_FORM,)
        keys = (next((number, name) for number in BY_NUMBER if (number, name) in table) for name in looks.two_users())
        return b"".join(table[key].stored_key for key in keys), looks.forms(mechanism.number) or (OWN_FORM,)


def _credential(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


class TokenLogins:
    """Delegation tokens of users, as the committed metadata have them; none without a secret."""

    def __init__(self, image: ClusterImage, secret: Secret | None, now_ms: Callable[[], int]) -> None:
        self._image = image
        self._secret = secret
        self._now_ms = now_ms
        self._made: dict[tuple[str, str], ScramCredential] = {}
        """Credentials take milliseconds to make: the last ones are kept."""

    def find(self, mechanism: ScramMechanism, token_id: str) -> FoundToken | None:
        record, secret = self._image.security.delegation_tokens.get(token_id), self._secret
        if record is None or secret is None:
            return None
        left_ms = min(record.expiration_timestamp, record.max_timestamp) - self._now_ms()
        kind, _, name = record.owner.partition(":")
        if left_ms <= 0 or kind != USER:
            return None
        key = mechanism.name, token_id
        if key not in self._made:
            if len(self._made) >= CREDENTIALS_KEPT:
                self._forget_some()
            self._made[key] = credential_of(mechanism, secret, token_id)
        return FoundToken(self._made[key], name, left_ms)

    def _forget_some(self) -> None:
        """Those of tokens that are gone; sessions would have to make the others again, all of them at once."""
        tokens = self._image.security.delegation_tokens
        self._made = {key: made for key, made in self._made.items() if key[1] in tokens}
        if len(self._made) >= CREDENTIALS_KEPT:
            self._made.clear()


class NodeSasl:
    """What the listeners with SASL have in common. `has_begun` says whether this node has all metadata."""

    def __init__(
        self, context: NodeContext, log: MetadataLog, on_disk: SecurityImage, has_begun: Callable[[], bool]
    ) -> None:
        self._config = context.config
        self._environment = context.environment
        self._tokens: TokenChecks | None = None
        self._users = ScramUsers(log.image, on_disk, has_begun)
        secret = context.config.delegation_token_secret_key
        self._by_token = TokenLogins(log.image, Secret(secret) if secret else None, context.now_ms)
        self._listeners: dict[str, SaslListener] = {}
        log.add_listener(self._on_records, self._look)
        log.add_caught_up_listener(self._look)
        log.add_leader_listener(lambda leader_id, epoch: self._look())

    def on(self, endpoint: Endpoint) -> SaslListener:
        """Raises ConfigError."""
        name, config = endpoint.listener, self._config
        limits = SaslLimits(config.sasl_server_max_receive_size, config.connection_failed_authentication_delay_ms)
        listener = SaslListener(name, endpoint.security_protocol, self._mechanisms(name), limits)
        self._listeners[name] = listener
        return listener

    def closed(self, listener: str) -> None:
        """Nobody logs in that way any more."""
        self._listeners.pop(listener, None)

    def credentials_at(self, listener: str) -> Credentials | TokenCredentials:
        """As whom this node logs in on a listener of other nodes. Raises ConfigError."""
        return _credentials(login_at(self._config, listener))

    async def stop(self) -> None:
        if self._tokens is not None:
            await self._tokens.stop()

    def reload(self) -> None:
        """Keys may have changed: other users of PLAIN, say."""
        for name, listener in self._listeners.items():
            try:
                listener.offer(self._mechanisms(name))
            except ValueError as error:
                logger.error("how clients log in on %s stays as it was: %s", name, error)
        self._look()

    def _mechanisms(self, listener: str) -> Mechanisms:
        found = sasl_of(listener, self._config.text)
        check = None if found.oauth is None else self._check_of(found.oauth)
        return Mechanisms(
            found.mechanisms, partial(self._serve, found, check), partial(self._proof, found), found.lifetimes_ms
        )

    def _check_of(self, settings: ListenerOAuth) -> TokenCheck:
        """ValueError."""
        _check_oauth(settings)
        if self._tokens is None:
            from penstock.node.assembly.oauth import TokenChecks

            self._tokens = TokenChecks(self._environment.now_ms, self._environment.elapsed_s)
        return self._tokens.of(settings)

    def _serve(self, found: ListenerSasl, check: TokenCheck | None, name: str) -> SaslServer:
        if name == PLAIN:
            return PlainServer(found.users)
        if name == OAUTHBEARER:
            assert check is not None
            return OAuthServer(check)
        mechanism = MECHANISMS[name]
        nonce = b64encode(self._environment.random.randbytes(NONCE_BYTES)).decode()
        return ScramServer(
            mechanism,
            partial(self._users.find, mechanism),
            partial(self._users.invent, mechanism),
            nonce,
            partial(self._by_token.find, mechanism),
        )

    def _proof(self, found: ListenerSasl, name: str, user: str, token_id: str | None) -> object:
        if token_id is not None:
            token = self._by_token.find(MECHANISMS[name], token_id)
            return None if token is None or token.owner != user else token.credential
        if name == OAUTHBEARER:
            return found.oauth
        return found.users.get(user) if name == PLAIN else self._users.find(MECHANISMS[name], user)

    def _on_records(self, records: Sequence[MetadataRecord]) -> None:
        users = {record.name for record in records if isinstance(record, SCRAM_RECORDS)}
        tokens = {record.token_id for record in records if isinstance(record, TOKEN_RECORDS)}
        if any(isinstance(record, FeatureLevelRecord) for record in records):
            self._look()
        elif users or tokens:
            self._look(users, tokens)

    def _look(self, users: Set[str] | None = None, tokens: Set[str] = frozenset()) -> None:
        if users or users is None:
            self._users.changed()
        for listener in self._listeners.values():
            listener.look(users, tokens)


def login_at(config: BrokerConfig, listener: str) -> NodeLogin:
    """Raises ConfigError."""
    key = TO_CONTROLLERS if listener in config.controller_listener_names else BETWEEN_BROKERS
    return login_on(listener, key, config.text)


def _credentials(login: NodeLogin) -> Credentials | TokenCredentials:
    """ValueError."""
    if login.mechanism == OAUTHBEARER:
        return read_credentials(login.properties)
    return Credentials(login.mechanism, login.user, login.password, login.by_token)


def _check_oauth(settings: ListenerOAuth) -> None:
    """ValueError where tokens cannot be checked."""
    if settings.jwks_url is not None:
        try:
            from penstock.node.assembly.oauth import provider_of
        except ImportError:
            cure = "pip install 'penstock[oauth]'"
            raise ValueError(f"sasl.enabled.mechanisms has OAUTHBEARER, which needs PyJWT: {cure}") from None
        provider_of(settings)


def check_sasl(config: BrokerConfig) -> None:
    """Raises KafkaError INVALID_CONFIG for keys that cannot be used."""
    try:
        for listener in config.listeners_with_sasl:
            oauth = sasl_of(listener, config.text).oauth
            if oauth is not None:
                _check_oauth(oauth)
        for listener in config.ways_with_sasl:
            _credentials(login_at(config, listener))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
