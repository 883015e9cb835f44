"""Streams: a matrix that is answered while items arrive."""
