"""SASL without IO (RFC 4422): both sides of PLAIN, SCRAM and OAUTHBEARER, and how JAAS names users."""
