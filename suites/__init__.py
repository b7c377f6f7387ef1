"""Test suites: `indexer` compares paths with the oracle, `self` tests oracles and harness."""
