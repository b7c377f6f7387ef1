"""Certificates: what a leg can and cannot see, said before anybody reads its accuracy."""
