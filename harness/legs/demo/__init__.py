"""A campaign that runs anywhere: a small real model, served with a miniature of the sparse indexer."""
