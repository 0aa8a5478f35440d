"""Mathematics that several schemes share."""
