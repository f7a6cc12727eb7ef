"""SASL without IO (RFC 4422): both sides of PLAIN and SCRAM, and how Kafka's keys say users and passwords."""
