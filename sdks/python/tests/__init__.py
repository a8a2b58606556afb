"""Tests of the client, most of them against a real server: LEASEHOLD_BIN."""
