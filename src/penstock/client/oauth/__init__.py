"""OAUTHBEARER for who logs in: where tokens come from, and how identity providers are asked, by nodes as well."""
