"""Real rank processes: `pool` starts and asks them, `worker` is what runs in one, `group` what they share.

`again` says how a path under test is made in another process, `warm` what is imported only once.
"""
