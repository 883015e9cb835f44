"""The contract: laws that every kind of mechanism and release keeps. A new kind is one line in `kinds.KINDS`."""
