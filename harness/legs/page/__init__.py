"""A campaign folder as one page: what may be said first, then why, then the pictures."""
