"""Broker keys of security: TLS, SASL, delegation tokens and access rules."""

from penstock.metadata.configs.table import read_table

SECURITY_CONFIGS = read_table("""
penstock.security.ignored boolean false * fixed high
    | Whether this node starts, and serves everybody, although keys or the metadata ask for protection that is not there
    | yet: access rules without an authorizer.
    | A key of Penstock's own.
authorizer.class.name string "" * fixed low
    | Who decides who may do what: nobody, or the access rules in the metadata, by the name of Kafka's class:
    | org.apache.kafka.metadata.authorizer.StandardAuthorizer.
penstock.authorizer.node.listeners list "" * fixed medium
    | Names of listeners that only nodes can reach: without authentication, a connection there is taken for a node's.
    | A key of Penstock's own.
penstock.authorizer.mode string enforce enforce/watch fixed high
    | Whether what no rule allows is refused, or only written to the audit log, while rules are being made: with watch
    | nothing is protected.
    | A key of Penstock's own.
penstock.authorizer.audit.format string kafka kafka/json fixed low
    | How lines of the audit log (kafka.authorizer.logger) are written: in Kafka's words, or each as a JSON object.
    | A key of Penstock's own.
penstock.authorizer.audit.topic string "" * fixed low
    | A topic to which the audit log is written as well; this node's user needs the rights to DESCRIBE and WRITE it.
    | A key of Penstock's own.
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder \
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder broker medium
    | The class that names the user of a connection: Kafka's own and no other, for others would give other names, and
    | rules that deny would not match them. ssl.principal.mapping.rules makes names of certificates.
super.users string "" * fixed medium | Users who may do anything, with semicolons between them.
allow.everyone.if.no.acl.found boolean false * fixed medium | Whether what no rule speaks of is allowed.
connections.max.reauth.ms long 0 * fixed medium | How long an authentication holds; 0: for ever.
security.providers string null * fixed low | Classes of Java's security providers.
delegation.token.expiry.check.interval.ms long 3600000 1.. fixed low | How often expired tokens are looked for.
delegation.token.expiry.time.ms long 86400000 1.. fixed medium | How long a token holds unless it is renewed.
delegation.token.max.lifetime.ms long 604800000 1.. fixed medium | How long a token can be renewed.
delegation.token.secret.key password null * fixed medium | The secret from which tokens are made.
sasl.client.callback.handler.class class null * fixed medium | A class of SASL clients.
sasl.enabled.mechanisms list GSSAPI * broker medium | The SASL mechanisms that listeners offer.
sasl.jaas.config password null * broker medium | Users and passwords of a listener, in JAAS form.
sasl.kerberos.kinit.cmd string /usr/bin/kinit * broker medium | Where kinit is.
sasl.kerberos.min.time.before.relogin long 60000 * broker medium | Pause between two attempts to renew.
sasl.kerberos.principal.to.local.rules list DEFAULT * broker medium | How principals become short names.
sasl.kerberos.service.name string null * broker medium | The Kerberos name of the brokers.
sasl.kerberos.ticket.renew.jitter double 0.05 * broker medium | Random share added to the time of renewal.
sasl.kerberos.ticket.renew.window.factor double 0.8 * broker medium | Share of a ticket's life before it is renewed.
sasl.login.callback.handler.class class null * fixed medium | A class of SASL logins.
sasl.login.class class null * fixed medium | A class of SASL logins.
sasl.login.connect.timeout.ms int null * fixed low | How long a connection to an identity provider may take.
sasl.login.read.timeout.ms int null * fixed low | How long its answer may take.
sasl.login.refresh.buffer.seconds short 300 * broker medium | Time that must be left when a login is renewed.
sasl.login.refresh.min.period.seconds short 60 * broker medium | Least time between two renewals of a login.
sasl.login.refresh.window.factor double 0.8 * broker medium | Share of a login's life before it is renewed.
sasl.login.refresh.window.jitter double 0.05 * broker medium | Random share added to the time of renewal.
sasl.login.retry.backoff.max.ms long 10000 * fixed low | Longest pause between attempts to log in.
sasl.login.retry.backoff.ms long 100 * fixed low | First pause between attempts to log in.
sasl.mechanism.controller.protocol string GSSAPI * fixed high | The SASL mechanism towards controllers.
sasl.mechanism.inter.broker.protocol string GSSAPI * broker medium | The SASL mechanism between brokers.
sasl.oauthbearer.allow.unverified.audience boolean false * fixed low | Whether tokens for others are taken, too.
sasl.oauthbearer.allow.unverified.issuer boolean false * fixed low | Whether tokens of any issuer are taken.
sasl.oauthbearer.assertion.algorithm string RS256 RS256/ES256 fixed medium | Signature of an assertion.
sasl.oauthbearer.assertion.claim.aud string null * fixed medium | Audience in an assertion.
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 fixed low | Life of an assertion.
sasl.oauthbearer.assertion.claim.iss string null * fixed medium | Issuer in an assertion.
sasl.oauthbearer.assertion.claim.jti.include boolean false * fixed medium | Whether an assertion carries an id.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 fixed low | How long before now an assertion holds.
sasl.oauthbearer.assertion.claim.sub string null * fixed medium | Subject in an assertion.
sasl.oauthbearer.assertion.file string null * fixed medium | A file with a finished assertion.
sasl.oauthbearer.assertion.private.key.file string null * fixed medium | The key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase password null * fixed medium | The passphrase of that key.
sasl.oauthbearer.assertion.template.file string null * fixed medium | A template of assertions.
sasl.oauthbearer.client.credentials.client.id string null * fixed medium | Client id at the identity provider.
sasl.oauthbearer.client.credentials.client.secret password null * fixed medium | Client secret at that provider.
sasl.oauthbearer.clock.skew.seconds int 30 * fixed low | How far clocks may differ.
sasl.oauthbearer.expected.audience list null * fixed low | Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer string null * fixed low | The issuer that a token must name.
sasl.oauthbearer.header.urlencode boolean false * fixed low | Whether client id and secret are encoded.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 * fixed low | How often the provider's keys are read.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 * fixed low | Longest pause between attempts.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 * fixed low | First pause between attempts.
sasl.oauthbearer.jwks.endpoint.url string null * fixed medium | Where the provider's keys are.
sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever \
    * fixed medium
    | A class that fetches tokens.
sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator \
    * fixed medium
    | A class that checks tokens.
sasl.oauthbearer.scope string null * fixed medium | The scope that is asked for.
sasl.oauthbearer.scope.claim.name string scope * fixed low | The claim that holds the scope.
sasl.oauthbearer.sub.claim.name string sub * fixed low | The claim that holds the subject.
sasl.oauthbearer.token.endpoint.url string null * fixed medium | Where tokens are fetched.
sasl.server.callback.handler.class class null * fixed medium | A class of SASL servers.
sasl.server.max.receive.size int 524288 * fixed medium | Largest message before a client is authenticated.
penstock.ssl.crl.location string null * broker medium
    | A file with lists of revoked certificates (CRL), of each authority from the peers' certificates up to the root.
    | A key of Penstock's own.
ssl.allow.dn.changes boolean false * fixed low | Whether a new certificate may name somebody else.
ssl.allow.san.changes boolean false * fixed low | Whether a new certificate may name other hosts.
ssl.cipher.suites list "" * broker medium | The cipher suites that are offered.
ssl.client.auth string none required/requested/none broker medium | Whether clients show a certificate.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 * broker medium | The versions of TLS that are offered.
ssl.endpoint.identification.algorithm string https * broker low | How the name in a certificate is checked.
ssl.engine.factory.class class null * broker low | A class that makes TLS engines.
ssl.key.password password null * broker medium | The password of the key.
ssl.keymanager.algorithm string SunX509 * broker medium | An algorithm of Java's key manager.
ssl.keystore.certificate.chain password null * broker medium | The certificates, in PEM form.
ssl.keystore.key password null * broker medium | The key, in PEM form.
ssl.keystore.location string null * broker medium | The file with key and certificates.
ssl.keystore.password password null * broker medium | The password of that file.
ssl.keystore.type string JKS * broker medium | The format of that file.
ssl.principal.mapping.rules string DEFAULT * fixed low | How names in certificates become names of users.
ssl.protocol string TLSv1.3 * broker medium | The version of TLS that is preferred.
ssl.provider string null * broker medium | A provider of Java's security.
ssl.secure.random.implementation string null * broker low | A random generator of Java's.
ssl.trustmanager.algorithm string PKIX * broker medium | An algorithm of Java's trust manager.
ssl.truststore.certificates password null * broker medium | The trusted certificates, in PEM form.
ssl.truststore.location string null * broker medium | The file with trusted certificates.
ssl.truststore.password password null * broker medium | The password of that file.
ssl.truststore.type string JKS * broker medium | The format of that file.
""")
