"""A decode step from raw tokens to selected keys, stage by stage, on any path."""
